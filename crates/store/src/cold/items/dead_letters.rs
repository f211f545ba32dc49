//! Dead letters: items whose retries are used up, until a person replays them.

use async_trait::async_trait;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    ActionResult, Author, DeadLetter, DeadLetters, Page, PageFrom, PageToken, StoreResult,
    cannot_replay, rows_needed,
};

use crate::cold::audit::audit_move;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> DeadLetters for StoreOn<D> {
    async fn dead_letters(
        &self,
        item_type: &ItemType,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, PageToken>> {
        let asked = rows_needed(limit, false);
        let (place, upwards) = from.clone().bounds(false);
        let sql = if upwards { NEWER } else { OLDER };
        let page = params![item_type, place.rank, place.id, asked];
        self.read(move |tx| async move {
            let rows = tx.rows(sql, page).await;
            let rows = rows.iter().map(letter_from).collect::<StoreResult<_>>()?;
            let place = |it: &DeadLetter| PageToken::new(it.due.as_microsecond(), &it.id);
            Ok(Page::beside(rows, asked, limit, &from, place))
        })
        .await
    }

    async fn replay(&self, item: &Item, author: Author) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            replay(&tx, &item, &author).await
        })
        .await
    }
}

const OLDER: Sql = Sql::each(
    "SELECT item_id, status, amount_minor, currency, lane, run, retry_count, last_error,
            scheduled_exec_time
     FROM item_queue INDEXED BY item_queue_dead_due
     WHERE item_type = $1 AND queue_status = 'DEAD' AND (scheduled_exec_time, item_id) < ($2, $3)
     ORDER BY scheduled_exec_time DESC, item_id DESC LIMIT $4",
    "SELECT item_id, status, amount_minor, currency, lane, run, retry_count, last_error,
            scheduled_exec_time
     FROM item_queue
     WHERE item_type = $1 AND queue_part = 'D' AND (scheduled_exec_time, item_id) < ($2, $3)
     ORDER BY scheduled_exec_time DESC, item_id DESC LIMIT $4",
);

const NEWER: Sql = Sql::each(
    "SELECT item_id, status, amount_minor, currency, lane, run, retry_count, last_error,
            scheduled_exec_time
     FROM item_queue INDEXED BY item_queue_dead_due
     WHERE item_type = $1 AND queue_status = 'DEAD' AND (scheduled_exec_time, item_id) > ($2, $3)
     ORDER BY scheduled_exec_time, item_id LIMIT $4",
    "SELECT item_id, status, amount_minor, currency, lane, run, retry_count, last_error,
            scheduled_exec_time
     FROM item_queue
     WHERE item_type = $1 AND queue_part = 'D' AND (scheduled_exec_time, item_id) > ($2, $3)
     ORDER BY scheduled_exec_time, item_id LIMIT $4",
);

fn letter_from(row: &Row) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: row.get("item_id")?,
        status: row.get("status")?,
        money: row.money()?,
        lane: row.get("lane")?,
        run: row.get("run")?,
        retry_count: row.get("retry_count")?,
        last_error: row.get("last_error")?,
        due: row.get("scheduled_exec_time")?,
    })
}

async fn replay(tx: &Tx, item: &Item, author: &Author) -> StoreResult<ActionResult> {
    const FOUND: &str = "SELECT queue_status FROM item_queue WHERE item_type = $1 AND item_id = $2";
    const REPLAY: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                retry_count = 0, failures = 0, scheduled_exec_time = tg_now(), claimed_at = NULL,
                dispatched_at = NULL, last_error = NULL
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'DEAD'";
    let key = params![&item.item_type, &item.id];
    let Some(row) = tx.locked_row(FOUND, key.clone()).await else {
        return Ok(ActionResult::NoSuchItem);
    };
    let status = row.word("queue_status", QueueStatus::parse)?;
    if let Some(why) = cannot_replay(status) {
        return Ok(ActionResult::Refused(why));
    }
    tx.execute(REPLAY, key).await;
    audit_move(tx, item, "REPLAYED", status.as_str(), "READY", author).await;
    Ok(ActionResult::Yes)
}
