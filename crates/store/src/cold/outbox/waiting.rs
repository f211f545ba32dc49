//! Events that wait to be published: new ones, and those that were set aside because they were refused.

use tollgate_core::id::Item;
use tollgate_core::ports::{OutboxEvent, RelayHold, RetriedUpTo, StoreResult};

use crate::sql::{Row, Sql, Tx, params};

const DROP: Sql = Sql::each(
    "DELETE FROM outbox WHERE event_no IN (SELECT value FROM json_each('[' || $1 || ']'))",
    "DELETE FROM outbox WHERE event_no = ANY(string_to_array($1, ',')::bigint[])",
);

/// All in one statement, of one moment: a reader that sees an event sees those of its item before it.
pub(super) async fn oldest(tx: &Tx, limit: u32) -> StoreResult<Vec<OutboxEvent>> {
    const OLDEST: &str = "SELECT event_no, event_id, item_type, item_id, status, at, currency,
                amount_minor, lane, scheduled_time,
                (SELECT 1 FROM outbox_refused r
                 WHERE r.item_type = o.item_type AND r.item_id = o.item_id
                 LIMIT 1) IS NOT NULL AS is_behind
         FROM outbox o WHERE event_no > 0 ORDER BY event_no LIMIT $1";
    let rows = tx.rows(OLDEST, params![limit]).await;
    rows.iter().map(event).collect()
}

pub(super) async fn to_retry(
    tx: &Tx,
    after: &RetriedUpTo,
    limit: u32,
) -> StoreResult<Vec<OutboxEvent>> {
    const NEXT: &str = "SELECT event_no, event_id, item_type, item_id, status, at, currency,
                amount_minor, lane, scheduled_time, FALSE AS is_behind
         FROM outbox_refused WHERE (item_type, item_id, event_no) > ($1, $2, $3)
         ORDER BY item_type, item_id, event_no LIMIT $4";
    let from = params![&after.item_type, &after.item_id, after.number, limit];
    let rows = tx.rows(NEXT, from).await;
    rows.iter().map(event).collect()
}

pub(super) async fn published(tx: &Tx, hold: RelayHold, numbers: &[i64]) -> StoreResult<bool> {
    const HELD: &str = "UPDATE event_relay SET published = published + $2,
                last_published_at = tg_now()
         WHERE one = 1 AND fence = $1";
    const DROP_REFUSED: Sql = Sql::each(
        "DELETE FROM outbox_refused
         WHERE event_no IN (SELECT value FROM json_each('[' || $1 || ']'))",
        "DELETE FROM outbox_refused WHERE event_no = ANY(string_to_array($1, ',')::bigint[])",
    );
    if tx.execute(HELD, params![hold.fence, numbers.len()]).await == 0 {
        return Ok(false);
    }
    let listed = listed(numbers);
    for statement in [DROP, DROP_REFUSED] {
        tx.execute(statement, params![&listed]).await;
    }
    Ok(true)
}

pub(super) async fn refused(tx: &Tx, hold: RelayHold, numbers: &[i64]) -> StoreResult<bool> {
    const HELD: &str = "SELECT fence FROM event_relay WHERE one = 1 AND fence = $1";
    const SET_ASIDE: Sql = Sql::each(
        "INSERT INTO outbox_refused (event_no, event_id, item_type, item_id, status, at, currency,
             amount_minor, lane, scheduled_time)
         SELECT event_no, event_id, item_type, item_id, status, at, currency, amount_minor, lane,
             scheduled_time
         FROM outbox WHERE event_no IN (SELECT value FROM json_each('[' || $1 || ']'))",
        "INSERT INTO outbox_refused (event_no, event_id, item_type, item_id, status, at, currency,
             amount_minor, lane, scheduled_time)
         SELECT event_no, event_id, item_type, item_id, status, at, currency, amount_minor, lane,
             scheduled_time
         FROM outbox WHERE event_no = ANY(string_to_array($1, ',')::bigint[])",
    );
    if tx.locked_row(HELD, params![hold.fence]).await.is_none() {
        return Ok(false);
    }
    let listed = listed(numbers);
    for statement in [SET_ASIDE, DROP] {
        tx.execute(statement, params![&listed]).await;
    }
    Ok(true)
}

fn listed(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    numbers.join(",")
}

fn event(row: &Row) -> StoreResult<OutboxEvent> {
    Ok(OutboxEvent {
        number: row.get("event_no")?,
        id: row.get("event_id")?,
        item: Item::new(&row.get("item_type")?, &row.get("item_id")?),
        status: row.get("status")?,
        at: row.get("at")?,
        money: row.money()?,
        lane: row.get("lane")?,
        scheduled: row.get("scheduled_time")?,
        is_behind: row.get("is_behind")?,
    })
}
