//! What the machine has given up, and how a person has it tried again.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Author, DeadLetter, DeadLetters, Intervened, Page, StoreResult, cannot_replay, rows_needed,
};

use super::SqliteStore;
use super::accounts::audit;
use super::records::money_from;
use super::value::{Us, word};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl DeadLetters for SqliteStore {
    async fn dead_letters(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, ItemId>> {
        const DEAD: &str = "SELECT item_id, status, amount_minor, currency, lane, run,
                 retry_count, last_error, scheduled_exec_time
             FROM item_queue INDEXED BY item_queue_dead
             WHERE item_type = ?1 AND item_id > ?2 AND queue_status = 'DEAD'
             ORDER BY item_id LIMIT ?3";
        let item_type = item_type.clone();
        let after = after.map_or(String::new(), ToString::to_string);
        let read = move |c: &Connection| {
            let asked = rows_needed(limit, false);
            let rows = c
                .prepare_cached(DEAD)?
                .query_map(params![item_type.as_str(), after, asked], letter_from)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Page::of(
                rows,
                asked,
                limit,
                |_| true,
                |letter: &DeadLetter| letter.id.clone(),
            ))
        };
        self.readers.read(read).await
    }

    async fn replay(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| replay(c, &item, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }
}

fn letter_from(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: ItemId::new(row.get::<_, String>(0)?),
        status: row.get(1)?,
        money: money_from(row, 2)?,
        lane: LaneName::new(row.get::<_, String>(4)?),
        run: row.get(5)?,
        retry_count: row.get(6)?,
        last_error: row.get(7)?,
        due: row.get::<_, Us>(8)?.0,
    })
}

fn replay(c: &Connection, item: &Item, author: &Author, now: Us) -> rusqlite::Result<Intervened> {
    let key = params![item.item_type.as_str(), item.id.as_str()];
    let status: Option<QueueStatus> = c
        .prepare_cached(
            "SELECT queue_status FROM item_queue WHERE item_type = ?1 AND item_id = ?2",
        )?
        .query_row(key, |row| word(row, 0, QueueStatus::parse))
        .optional()?;
    let Some(status) = status else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = cannot_replay(status) {
        return Ok(Intervened::Refused(why));
    }
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', run = run + 1, retry_count = 0,
                failures = 0, scheduled_exec_time = ?3, claimed_at = NULL, dispatched_at = NULL,
                last_error = NULL
         WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'DEAD'",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    let entry = Entry {
        item: Some(item),
        action: "REPLAYED",
        before: Some(status.as_str()),
        after: Some("READY"),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok(Intervened::Yes)
}
