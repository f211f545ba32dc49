//! The days of the archive: how far each is, what it holds, and where it was exported to.

use std::collections::BTreeSet;

use tollgate_core::archive::{ArchiveDay, DayExport, DayState, DaySum, DayView};
use tollgate_core::id::ItemType;
use tollgate_core::ports::StoreResult;

use super::known::{day_from, export_from};
use crate::sql::{Row, Sql, Tx, params};

/// Items are moved into these days: what was exported of them is not all of them any more.
pub(super) async fn opened(tx: &Tx, item_type: &ItemType, days: &BTreeSet<ArchiveDay>) {
    const OPEN: &str = "INSERT INTO archived_day (item_type, day, state) VALUES ($1, $2, 'OPEN')
         ON CONFLICT (item_type, day) DO UPDATE
         SET state = 'OPEN', file = NULL, digest = NULL, exported_at = NULL
         WHERE archived_day.state IN ('CLOSED', 'EXPORTED')";
    let days = days.iter().map(|day| params![item_type, day.number()]);
    tx.execute_each(OPEN, days.collect()).await;
}

/// Those of these days that are closed or exported.
pub(super) async fn ended(
    tx: &Tx,
    item_type: &ItemType,
    days: &BTreeSet<ArchiveDay>,
) -> StoreResult<BTreeSet<ArchiveDay>> {
    // PostgreSQL has no copies.
    const ENDED: Sql = Sql::each(
        "SELECT day FROM archived_day
         WHERE item_type = $1 AND day = $2 AND state IN ('CLOSED', 'EXPORTED')",
        "",
    );
    let mut ended = BTreeSet::new();
    for day in days {
        if tx
            .row(ENDED, params![item_type, day.number()])
            .await
            .is_some()
        {
            ended.insert(*day);
        }
    }
    Ok(ended)
}

pub(super) async fn close(tx: &Tx, item_type: &ItemType, before: ArchiveDay) -> u64 {
    const CLOSE: &str = "UPDATE archived_day SET state = 'CLOSED'
         WHERE item_type = $1 AND day < $2 AND state = 'OPEN'";
    tx.execute(CLOSE, params![item_type, before.number()]).await
}

/// Removes partitions that were made for days on which nothing ended.
pub(super) async fn prune(tx: &Tx, item_type: &ItemType, before: ArchiveDay) -> StoreResult<()> {
    const PRUNE: Sql = Sql::each("", "SELECT tg_archive_prune($1, $2) AS pruned");
    tx.one(PRUNE, params![item_type, before.number()]).await?;
    Ok(())
}

pub(super) async fn view(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
) -> StoreResult<Option<DayView>> {
    let after = Some(day.before(1));
    let found = views(tx, item_type, after, 1).await?.into_iter().next();
    Ok(found.filter(|view| view.day == day))
}

pub(super) async fn views(
    tx: &Tx,
    item_type: &ItemType,
    after: Option<ArchiveDay>,
    limit: u32,
) -> StoreResult<Vec<DayView>> {
    const DAYS: &str = "SELECT day, state, file, digest, exported_at, dropped_at, restored_at
         FROM archived_day
         WHERE item_type = $1 AND day > $2 ORDER BY day LIMIT $3";
    let after = after.map_or(i64::MIN, ArchiveDay::number);
    let rows = tx.rows(DAYS, params![item_type, after, limit]).await;
    let mut views = vec![];
    for row in &rows {
        let day = day_from(row, "day")?;
        views.push(DayView {
            item_type: item_type.clone(),
            day,
            state: row.word("state", DayState::parse)?,
            sums: sums(tx, item_type, day).await?,
            export: export_from(row)?,
            dropped_at: row.get("dropped_at")?,
            restored_at: row.get("restored_at")?,
        });
    }
    Ok(views)
}

pub(super) async fn states(
    tx: &Tx,
    item_type: &ItemType,
) -> StoreResult<Vec<(DayState, u64, ArchiveDay)>> {
    const STATES: &str = "SELECT state, count(*) AS n, min(day) AS first FROM archived_day
         WHERE item_type = $1 GROUP BY state ORDER BY state";
    let rows = tx.rows(STATES, params![item_type]).await;
    let state = |row: &Row| {
        let word = row.word("state", DayState::parse)?;
        Ok((word, row.get("n")?, day_from(row, "first")?))
    };
    rows.iter().map(state).collect()
}

async fn sums(tx: &Tx, item_type: &ItemType, day: ArchiveDay) -> StoreResult<Vec<DaySum>> {
    const SUMS: Sql = Sql::each(
        "SELECT status, currency, sum(items) AS n, sum(amount_minor) AS amount
         FROM archived_sum INDEXED BY archived_sum_day
         WHERE item_type = $1 AND day = $2 GROUP BY status, currency ORDER BY status, currency",
        "SELECT status, currency, sum(items)::bigint AS n, sum(amount_minor)::bigint AS amount
         FROM archived_sum
         WHERE item_type = $1 AND day = $2 GROUP BY status, currency ORDER BY status, currency",
    );
    let rows = tx.rows(SUMS, params![item_type, day.number()]).await;
    let sum = |row: &Row| {
        Ok(DaySum {
            status: row.get("status")?,
            currency: row.get("currency")?,
            count: row.get("n")?,
            amount_minor: row.get("amount")?,
        })
    };
    rows.iter().map(sum).collect()
}

/// The state of a day, which nobody changes until the transaction ends.
pub(super) async fn held(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
) -> StoreResult<Option<DayState>> {
    const STATE: &str = "SELECT state FROM archived_day WHERE item_type = $1 AND day = $2";
    let row = tx.locked_row(STATE, params![item_type, day.number()]).await;
    row.map(|row| row.word("state", DayState::parse))
        .transpose()
}

pub(super) async fn mark(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
    export: &DayExport,
) -> bool {
    const MARK: &str = "UPDATE archived_day
         SET state = 'EXPORTED', file = $3, digest = $4, exported_at = $5
         WHERE item_type = $1 AND day = $2 AND state IN ('CLOSED', 'EXPORTED')";
    let marked = params![
        item_type,
        day.number(),
        &export.file,
        &export.digest,
        export.at
    ];
    tx.execute(MARK, marked).await == 1
}

/// Its file is written again by the next round; until then its name is known.
pub(super) async fn outdate(tx: &Tx, item_type: &ItemType, day: ArchiveDay) -> bool {
    const OUTDATE: &str = "UPDATE archived_day SET state = 'CLOSED'
         WHERE item_type = $1 AND day = $2 AND state = 'EXPORTED'";
    tx.execute(OUTDATE, params![item_type, day.number()]).await == 1
}

pub(super) async fn dropped(tx: &Tx, item_type: &ItemType, day: ArchiveDay) {
    const DROP: &str = "UPDATE archived_day SET state = 'DROPPED', dropped_at = tg_now(),
             restored_at = NULL
         WHERE item_type = $1 AND day = $2 AND state = 'EXPORTED'";
    tx.execute(DROP, params![item_type, day.number()]).await;
}

/// A restore has begun: until it is complete the day counts as dropped.
pub(super) async fn restoring(tx: &Tx, item_type: &ItemType, day: ArchiveDay) {
    const BEGIN: &str = "INSERT INTO archived_day (item_type, day, state)
         VALUES ($1, $2, 'DROPPED') ON CONFLICT (item_type, day) DO NOTHING";
    tx.execute(BEGIN, params![item_type, day.number()]).await;
}

pub(super) async fn restored(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
    export: Option<&DayExport>,
) {
    const END: &str = "UPDATE archived_day SET state = $3, file = $4, digest = $5,
             exported_at = $6, dropped_at = NULL,
             restored_at = CASE WHEN $3 = 'EXPORTED' THEN tg_now() END
         WHERE item_type = $1 AND day = $2";
    let state = export.map_or(DayState::Closed, |_| DayState::Exported);
    let file = export.map(|export| export.file.as_str());
    let digest = export.map(|export| export.digest.as_str());
    let at = export.map(|export| export.at);
    let ended = params![item_type, day.number(), state.as_str(), file, digest, at];
    tx.execute(END, ended).await;
}

/// Whether there is anything to forget.
pub(super) async fn any_before(tx: &Tx, item_type: &ItemType, before: ArchiveDay) -> bool {
    const ANY: &str = "SELECT day FROM archived_day
         WHERE item_type = $1 AND day < $2 AND state = 'DROPPED' LIMIT 1";
    tx.row(ANY, params![item_type, before.number()])
        .await
        .is_some()
}

/// What was known of dropped days, once their ids are forgotten. A day that is still in the database keeps its sums: totals
/// and certificates are made of them.
pub(super) async fn forget(tx: &Tx, item_type: &ItemType, before: ArchiveDay) {
    const SUMS: &str = "DELETE FROM archived_sum WHERE item_type = $1 AND day IN
         (SELECT day FROM archived_day WHERE item_type = $1 AND day < $2 AND state = 'DROPPED')";
    const TURNS: &str = "DELETE FROM archived_turns WHERE item_type = $1 AND day IN
         (SELECT day FROM archived_day WHERE item_type = $1 AND day < $2 AND state = 'DROPPED')";
    const TROUBLES: &str = "DELETE FROM archive_trouble WHERE item_type = $1 AND day IN
         (SELECT day FROM archived_day WHERE item_type = $1 AND day < $2 AND state = 'DROPPED')";
    const DAYS: &str = "DELETE FROM archived_day
         WHERE item_type = $1 AND day < $2 AND state = 'DROPPED'";
    for sql in [SUMS, TURNS, TROUBLES, DAYS] {
        tx.execute(sql, params![item_type, before.number()]).await;
    }
}

/// Sums and turns of a day, which are made anew from its lines.
pub(super) async fn unaccount(tx: &Tx, item_type: &ItemType, day: ArchiveDay) {
    const SUMS: &str = "DELETE FROM archived_sum WHERE item_type = $1 AND day = $2";
    const TURNS: &str = "DELETE FROM archived_turns WHERE item_type = $1 AND day = $2";
    for sql in [SUMS, TURNS] {
        tx.execute(sql, params![item_type, day.number()]).await;
    }
}
