//! What the machine has given up, and how a person has it tried again.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Author, DeadLetter, DeadLetters, Intervened, Page, StoreResult, cannot_replay, rows_needed,
};

use super::PostgresStore;
use super::accounts::audit;
use super::records::money_from;
use super::run::{Params, all, execute, optional};
use super::value::{Count, Us, word};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn dead_letters(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, ItemId>> {
        const DEAD: &str = "SELECT item_id, status, amount_minor, currency, lane, run,
                 retry_count, last_error, scheduled_exec_time
             FROM item_queue WHERE item_type = $1 AND item_id > $2 AND queue_status = 'DEAD'
             ORDER BY item_id LIMIT $3";
        let (item_type, asked) = (item_type.clone(), rows_needed(limit, false));
        let after = after.map_or(String::new(), ToString::to_string);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let params: Params<'_> = &[&item_type.as_str(), &after, &i64::from(asked)];
                    let rows = all(c, DEAD, params).await?;
                    let rows = rows.iter().map(letter_from).collect::<StoreResult<_>>()?;
                    Ok(Page::of(
                        rows,
                        asked,
                        limit,
                        |_| true,
                        |letter: &DeadLetter| letter.id.clone(),
                    ))
                })
            })
            .await
    }

    async fn replay(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { replay(tx, &item, &author).await })
            })
            .await
    }
}

fn letter_from(row: &Row) -> StoreResult<DeadLetter> {
    Ok(DeadLetter {
        id: ItemId::new(row.get::<_, String>(0)),
        status: row.get(1),
        money: money_from(row, 2)?,
        lane: LaneName::new(row.get::<_, String>(4)),
        run: row.get::<_, Count>(5).0,
        retry_count: row.get::<_, Count>(6).0,
        last_error: row.get(7),
        due: row.get::<_, Us>(8).0,
    })
}

async fn replay(tx: &Transaction<'_>, item: &Item, author: &Author) -> StoreResult<Intervened> {
    const FOUND: &str =
        "SELECT queue_status FROM item_queue WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    const REPLAY: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                retry_count = 0, failures = 0, scheduled_exec_time = tg_now(), claimed_at = NULL,
                dispatched_at = NULL, last_error = NULL
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'DEAD'";
    let key: Params<'_> = &[&item.item_type.as_str(), &item.id.as_str()];
    let Some(row) = optional(tx, FOUND, key).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    let status = word(&row, 0, QueueStatus::parse)?;
    if let Some(why) = cannot_replay(status) {
        return Ok(Intervened::Refused(why));
    }
    execute(tx, REPLAY, key).await?;
    let entry = Entry {
        item: Some(item),
        action: "REPLAYED",
        before: Some(status.as_str()),
        after: Some("READY"),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}
