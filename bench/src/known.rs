//! Ids of archived items, which are known for years: how many bytes each takes, and what millions of them do to W1 at the
//! store's door. Keys are as random as the hashes that they stand for.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::arguments::Size;
use crate::postgres::target;
use crate::report::table::{Figures, markdown, one_digit, percent, verdict, whole};
use crate::rounds::Samples;

/// Of W1 without them.
const GOAL: f64 = 0.85;
/// Known ids that a step of the move writes in one transaction.
const BATCH: u32 = 50;

/// What a run of one store measures, and its goal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Written in the batches of the move, to be weighed.
    pub(crate) weighed: u32,
    /// There before W1.
    pub(crate) known: u32,
    /// Payments of W1.
    pub(crate) count: u32,
}

impl Plan {
    pub(crate) fn of(size: Size) -> Self {
        Self {
            weighed: size.pick(50_000, 1_000_000),
            known: size.pick(100_000, 10_000_000),
            count: size.pick(20_000, 200_000),
        }
    }
}

/// What was found: bytes an id, and W1 without and with them.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) bytes_each: f64,
    /// At most so many.
    pub(crate) bytes_goal: f64,
    pub(crate) without: Samples,
    pub(crate) with: Samples,
}

pub(crate) fn section(plan: Plan, found: &Found) -> String {
    let (without, with) = (Figures::rate(&found.without), Figures::rate(&found.with));
    let ratio = with.over(&without);
    let head = ["known ids", "items/s", "of W1 without", "goal", ""];
    let rows = [
        [
            "none".to_owned(),
            without.show(whole),
            String::new(),
            String::new(),
            String::new(),
        ],
        [
            whole(f64::from(plan.known)),
            with.show(whole),
            ratio.show(percent),
            format!("≥ {}", percent(GOAL)),
            verdict(ratio.median() >= GOAL),
        ],
    ];
    format!(
        "## Known ids\n\n\
         A known id takes {bytes} bytes with its indexes ({light}: at most {goal}), measured after {weighed} ids with random keys, \
         written {BATCH} to a transaction as the move does. W1 at the store's door ({count} payments with ascending ids) without known ids and with \
         random ones, which every id is looked up among; each run on a copy of the same database.\n\n{table}",
        bytes = one_digit(found.bytes_each),
        light = verdict(found.bytes_each <= found.bytes_goal),
        goal = found.bytes_goal,
        weighed = whole(f64::from(plan.weighed)),
        count = whole(f64::from(plan.count)),
        table = markdown(head, &rows),
    )
}

/// A new database at this path, with its tables and nothing in them.
pub(crate) fn create_sqlite(file: &Path) -> Result<Connection> {
    drop(SqliteStore::open(SqliteOptions::at(file))?);
    let db = Connection::open(file)?;
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -2097152")?;
    Ok(db)
}

/// Adds so many in one transaction, and has all of it in one file.
pub(crate) fn fill_sqlite(db: &Connection, count: u32) -> Result<()> {
    const FILL: &str =
        "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?1)
         INSERT INTO known_item (key, content, day, status)
         SELECT randomblob(16), randomblob(16), 20000 + n * 3650 / ?1, 1 FROM n";
    db.execute(FILL, [count])?;
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

/// Bytes of an id, by the pages that so many have taken.
pub(crate) fn weigh_sqlite(db: &Connection, count: u32) -> Result<f64> {
    const ADD: &str = "INSERT INTO known_item (key, content, day, status)
         VALUES (randomblob(16), randomblob(16), ?1, 1)";
    let before = used_bytes(db)?;
    let mut add = db.prepare(ADD)?;
    let mut written = 0;
    while written < count {
        db.execute_batch("BEGIN IMMEDIATE")?;
        let end = (written + BATCH).min(count);
        for number in written..end {
            add.execute([20_000 + number / 100_000])?;
        }
        db.execute_batch("COMMIT")?;
        written = end;
    }
    Ok((used_bytes(db)? - before) / f64::from(count))
}

fn used_bytes(db: &Connection) -> Result<f64> {
    let number = |pragma: &str| {
        let query = format!("PRAGMA {pragma}");
        db.query_row(&query, [], |row| row.get::<_, u32>(0))
    };
    let pages = number("page_count")? - number("freelist_count")?;
    Ok(f64::from(pages) * f64::from(number("page_size")?))
}

/// Adds so many to a database that has its tables, in packs as the move writes them.
pub(crate) async fn fill_postgres(url: &str, count: u32) -> Result<()> {
    const FILL: &str = "INSERT INTO known_pack (heads, rests, day, status)
         SELECT array_agg(tg_head(uuid_send(k.key))),
                string_agg(substr(uuid_send(k.key), 9) || uuid_send(k.content), ''),
                min(20000 + k.n * 3650 / $1::bigint)::integer, 1
         FROM (SELECT n, gen_random_uuid() AS key, gen_random_uuid() AS content
               FROM generate_series(0, $1::bigint - 1) n) k
         GROUP BY k.n / 25";
    let client = target::connect(url).await?;
    client.execute(FILL, &[&i64::from(count)]).await?;
    Ok(())
}

/// Bytes of an id with its indexes, by the files that so many have taken.
pub(crate) async fn weigh_postgres(url: &str, count: u32) -> Result<f64> {
    const WEIGH: &str = "SELECT pg_total_relation_size('known_pack')::float8 / sum(cardinality(heads)) FROM known_pack";
    let batches = count.div_ceil(BATCH);
    // Each batch is a transaction of its own. Whether it waits for the disk changes no byte.
    let add = format!(
        "SET synchronous_commit = off;
         CREATE PROCEDURE add_known() LANGUAGE plpgsql AS $$
         BEGIN
             FOR batch IN 1..{batches} LOOP
                 INSERT INTO known_pack (heads, rests, day, status)
                 SELECT array_agg(tg_head(uuid_send(k.key))),
                        string_agg(substr(uuid_send(k.key), 9) || uuid_send(k.content), ''),
                        20000 + batch / 2000, 1
                 FROM (SELECT n, gen_random_uuid() AS key, gen_random_uuid() AS content
                       FROM generate_series(0, {BATCH} - 1) n) k
                 GROUP BY k.n / 25;
                 COMMIT;
             END LOOP;
         END $$"
    );
    let client = target::connect(url).await?;
    client.batch_execute(&add).await?;
    client.batch_execute("CALL add_known()").await?;
    Ok(client.query_one(WEIGH, &[]).await?.get(0))
}
