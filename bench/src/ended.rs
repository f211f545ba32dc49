//! Payments that ended long ago, for moves into the archive: rows as a real payment has left them, made from one by the
//! database itself, since a million of them by the front door would take longer than what is measured.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::Connection;
use serde_json::Value;
use tokio_postgres::types::ToSql;
use tollgate_core::SignedDuration;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::ports::NewItem;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::arguments::Size;
use crate::payments;
use crate::postgres::target;
use crate::stopwatch;

/// Days ago: older than `HOT_DAYS` and younger than any archive gives up.
const AGO: i64 = 60;
/// With this many they are due to move,
pub(crate) const HOT_DAYS: u32 = 30;
/// and with this many they stay.
pub(crate) const STAY_DAYS: u32 = 365;
const DAY_US: i64 = 86_400_000_000;

/// So many that a small run does not come to their end, either.
pub(crate) fn count(size: Size) -> u32 {
    size.pick(50_000, 1_000_000)
}

/// Where and what they are: spread over one day, each like this one.
struct Model {
    day_us: i64,
    step_us: i64,
    count: i64,
    one: NewItem,
    debtor: String,
    creditor: String,
}

impl Model {
    fn of(count: u32) -> Result<Self> {
        let day = ArchiveDay::of(stopwatch::wall() - SignedDuration::from_hours(24 * AGO));
        let one = payments::one()?;
        let body: Value = serde_json::from_str(&one.body)?;
        let account = |of: &str| body[of]["account"].as_str().map(str::to_owned);
        Ok(Self {
            debtor: account("debtor").context("no debtor")?,
            creditor: account("creditor").context("no creditor")?,
            day_us: day.start().as_microsecond(),
            step_us: DAY_US / i64::from(count.max(1)),
            count: i64::from(count),
            one,
        })
    }
}

/// In a new database at this path.
pub(crate) fn fill_sqlite(file: &Path, count: u32) -> Result<()> {
    // Opening a store makes the tables and indexes.
    drop(SqliteStore::open(SqliteOptions::at(file))?);
    let model = Model::of(count)?;
    let db = Connection::open(file)?;
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -1048576; BEGIN")?;
    let (body, id) = (model.one.body.as_str(), model.one.id.as_str());
    let bodies = format!(
        "{NUMBERS} INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id)
         SELECT 'PAYMENT', printf('old-%010d', n), lower(hex(randomblob(32))),
                replace(replace(replace(?2, ?3, printf('old-%010d', n)), ?4, printf('DE89%020d', n % 50000)),
                        ?5, printf('FR14%020d', n)),
                printf('init-payments-%06d', n / 1000) FROM n"
    );
    let one = (model.count, body, id, &model.debtor, &model.creditor);
    db.execute(&bodies, one)?;
    for rows in [
        "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at, requested_time,
             window_start, scheduled_time, generation, queue_status, status, updated_at, scheduled_exec_time,
             run, fence, retry_count, claimed_at, dispatched_at, finished_at, dispatch_batch_id,
             exec_workflow_id)
         SELECT 'PAYMENT', printf('old-%010d', n), 'default', 'EUR', 100 + n % 9000, at, at, at, at, 0,
                'DISPATCHED', 'PROCESSING', at + 900, at, 1, 1, 0, at, at, at + 900,
                printf('BATCH-%016x', n / 100), printf('exec-payment-batch-BATCH-%016x-%d', n / 100, n / 50 % 2)
         FROM (SELECT n, ?2 + n * ?3 AS at FROM n)",
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key, turn_at, era,
             settled_at, detail)
         SELECT 'PAYMENT', printf('old-%010d', n), 1, 'SEND', 'DONE', 'default',
                printf('PAYMENT-old-%010d', n), at, 0, at + 900, printf('bank-%016x', n)
         FROM (SELECT n, ?2 + n * ?3 AS at FROM n)",
        "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input, result)
         SELECT printf('exec-payment-batch-BATCH-%016x-%d', n / 100, n / 50 % 2), 'payment-exec-batch', 'DONE', 0,
                at, at, '', 'null'
         FROM (SELECT n, ?2 + n * ?3 AS at FROM n WHERE n % 50 = 0)",
    ] {
        let made = format!("{NUMBERS} {rows}");
        db.execute(&made, (model.count, model.day_us, model.step_us))?;
    }
    db.execute_batch("COMMIT; ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

/// From 0 on, `?1` of them.
const NUMBERS: &str =
    "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?1)";

/// In a database that has its tables.
pub(crate) async fn fill_postgres(url: &str, count: u32) -> Result<()> {
    const BODIES: &str =
        "INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id,
             created_at)
         SELECT 'PAYMENT', id, md5(id) || md5(n::text),
                replace(replace(replace($2::text, $3::text, id),
                                $6::text, 'DE89' || lpad((n % 50000)::text, 20, '0')),
                        $7::text, 'FR14' || lpad(n::text, 20, '0')),
                'init-payments-' || lpad((n / 1000)::text, 6, '0'), $4::bigint + n * $5::bigint
         FROM generate_series(0, $1::bigint - 1) n,
              LATERAL (SELECT 'old-' || lpad(n::text, 10, '0') AS id) named";
    let model = Model::of(count)?;
    let client = target::connect(url).await?;
    let (body, id) = (model.one.body.as_str(), model.one.id.as_str());
    let times = (model.day_us, model.step_us);
    let (debtor, creditor) = (&model.debtor, &model.creditor);
    let one: [&(dyn ToSql + Sync); 7] = [
        &model.count,
        &body,
        &id,
        &times.0,
        &times.1,
        debtor,
        creditor,
    ];
    client.execute(BODIES, &one).await?;
    for rows in POSTGRES_ROWS {
        client
            .execute(rows, &[&model.count, &times.0, &times.1])
            .await?;
    }
    Ok(())
}

const POSTGRES_ROWS: [&str; 3] = [
    "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at, requested_time,
         window_start, scheduled_time, generation, queue_status, status, updated_at, scheduled_exec_time, run,
         fence, retry_count, claimed_at, dispatched_at, finished_at, dispatch_batch_id, exec_workflow_id)
     SELECT 'PAYMENT', 'old-' || lpad(n::text, 10, '0'), 'default', 'EUR', 100 + n % 9000, at, at, at, at, 0,
            'DISPATCHED', 'PROCESSING', at + 900, at, 1, 1, 0, at, at, at + 900,
            'BATCH-' || lpad(to_hex(n / 100), 16, '0'),
            'exec-payment-batch-BATCH-' || lpad(to_hex(n / 100), 16, '0') || '-' || n / 50 % 2
     FROM generate_series(0, $1::bigint - 1) n,
          LATERAL (SELECT $2::bigint + n * $3::bigint AS at) timed",
    "INSERT INTO attempt (item_type, item_id, number, run, kind, state, lane, idempotency_key, turn_at, era,
         settled_at, detail)
     SELECT 'PAYMENT', 'old-' || lpad(n::text, 10, '0'), 1, 1, 'SEND', 'DONE', 'default',
            'PAYMENT-old-' || lpad(n::text, 10, '0'), at, 0, at + 900,
            'bank-' || lpad(to_hex(n), 16, '0')
     FROM generate_series(0, $1::bigint - 1) n,
          LATERAL (SELECT $2::bigint + n * $3::bigint AS at) timed",
    "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input, result)
     SELECT 'exec-payment-batch-BATCH-' || lpad(to_hex(n / 100), 16, '0') || '-' || n / 50 % 2,
            'payment-exec-batch', 'DONE', false, at, at, '', 'null'
     FROM generate_series(0, $1::bigint - 1, 50) n,
          LATERAL (SELECT $2::bigint + n * $3::bigint AS at) timed",
];
