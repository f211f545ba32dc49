//! What is in doubt, and what people decide about it.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    AtRisk, Author, Bookmark, DoubtOrder, Doubts, IN_DOUBT, Intervened, ItemInDoubt, Page,
    Resolution, Resolved, StoreResult, rows_needed,
};

use super::SqliteStore;
use super::accounts::audit;
use super::attempts::{abandon, disprove, history};
use super::evidence;
use super::records::move_status;
use super::value::Us;
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Doubts for SqliteStore {
    async fn in_doubt(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<ItemId>> {
        let item_type = item_type.clone();
        let after = after.map_or(String::new(), ToString::to_string);
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT item_id FROM item_queue INDEXED BY item_queue_status
                 WHERE item_type = ?1 AND item_id > ?2 AND status = 'IN_DOUBT'
                 ORDER BY item_id LIMIT ?3",
            )?
            .query_map(params![item_type.as_str(), after, limit], |row| {
                row.get::<_, String>(0).map(ItemId::new)
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn in_doubt_by(
        &self,
        item_type: &ItemType,
        order: DoubtOrder,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<ItemId, Bookmark>> {
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            let asked = rows_needed(limit, false);
            let rows = ordered(c, &item_type, &order, after, asked)?;
            let page = Page::of(rows, asked, limit, |_| true, Clone::clone);
            Ok(page.map(|place: Bookmark| ItemId::new(place.id)))
        };
        self.readers.read(read).await
    }

    async fn at_risk(&self, item_type: &ItemType) -> StoreResult<Vec<AtRisk>> {
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT currency, count(*), sum(amount_minor), min(updated_at)
                 FROM item_queue INDEXED BY item_queue_status
                 WHERE item_type = ?1 AND status = 'IN_DOUBT'
                 GROUP BY currency ORDER BY currency",
            )?
            .query_map([item_type.as_str()], |row| {
                Ok(AtRisk {
                    currency: row.get(0)?,
                    count: row.get::<_, i64>(1)?.unsigned_abs(),
                    amount_minor: row.get(2)?,
                    since: row.get::<_, Us>(3)?.0,
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn note_done(&self, item: &Item, evidence: Author) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| evidence::note(c, &item, &evidence, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn resolve(
        &self,
        item: &Item,
        resolution: Resolution,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| resolve(c, &item, &resolution, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }
}

/// Each with its place in the order.
fn ordered(
    c: &Connection,
    item_type: &ItemType,
    order: &DoubtOrder,
    after: Option<Bookmark>,
    asked: u32,
) -> rusqlite::Result<Vec<Bookmark>> {
    const OLDEST: &str =
        "SELECT updated_at, item_id FROM item_queue INDEXED BY item_queue_doubt_age
         WHERE item_type = ?1 AND status = 'IN_DOUBT' AND (updated_at, item_id) > (?2, ?3)
         ORDER BY updated_at, item_id LIMIT ?4";
    const LARGEST: &str =
        "SELECT amount_minor, item_id FROM item_queue INDEXED BY item_queue_doubt_amount
         WHERE item_type = ?1 AND status = 'IN_DOUBT' AND currency = ?5
           AND (amount_minor, item_id) < (?2, ?3)
         ORDER BY amount_minor DESC, item_id DESC LIMIT ?4";
    let kind = item_type.as_str();
    let place = |row: &Row<'_>| Ok(Bookmark::new(row.get(0)?, row.get::<_, String>(1)?));
    match order {
        DoubtOrder::Oldest => {
            let Bookmark { rank, id } = after.unwrap_or(Bookmark::BELOW_ALL);
            c.prepare_cached(OLDEST)?
                .query_map(params![kind, rank, id, asked], place)?
                .collect()
        }
        DoubtOrder::Largest { currency } => {
            let Bookmark { rank, id } = after.unwrap_or(Bookmark::ABOVE_ALL);
            c.prepare_cached(LARGEST)?
                .query_map(params![kind, rank, id, asked, currency], place)?
                .collect()
        }
    }
}

/// What is known about an item; nothing if there is none.
pub(super) fn doubt(c: &Connection, item: &Item, now: Us) -> rusqlite::Result<Option<ItemInDoubt>> {
    let key = params![item.item_type.as_str(), item.id.as_str()];
    let status = c
        .prepare_cached("SELECT status FROM item_queue WHERE item_type = ?1 AND item_id = ?2")?
        .query_row(key, |row| row.get(0))
        .optional()?;
    let Some(record_status) = status else {
        return Ok(None);
    };
    Ok(Some(ItemInDoubt {
        record_status,
        history: history(c, item, Duration::ZERO, now.0)?,
    }))
}

fn resolve(
    c: &Connection,
    item: &Item,
    resolution: &Resolution,
    author: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(doubt) = doubt(c, item, now)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = doubt.refuses(resolution) {
        return Ok(Intervened::Refused(why));
    }
    abandon(c, item, now)?;
    move_status(c, item, &resolution.record, now)?;
    match resolution.resolved {
        Resolved::Done | Resolved::Failed => end(c, item, now)?,
        Resolved::NotDone => send_again(c, item, author, now)?,
    }
    let detail = format!("{}: {}", resolution.resolved.as_str(), author.reason);
    let entry = Entry {
        item: Some(item),
        action: "RESOLVED",
        before: Some(IN_DOUBT),
        after: Some(&resolution.record.to),
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok(Intervened::Yes)
}

/// The next run belongs to nobody: whoever still works on the item finds it taken.
fn end(c: &Connection, item: &Item, now: Us) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'DISPATCHED', run = run + 1,
                finished_at = coalesce(finished_at, ?3), dispatched_at = coalesce(dispatched_at, ?3)
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    Ok(())
}

/// What was unknown is known not to have been done, by a person's word.
fn send_again(c: &Connection, item: &Item, author: &Author, now: Us) -> rusqlite::Result<()> {
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let word = format!("not done, says {}: {}", author.actor, author.reason);
    disprove(c, item, &word, now)?;
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', run = run + 1, scheduled_exec_time = ?3,
                finished_at = NULL, claimed_at = NULL, dispatched_at = NULL, hold_after = NULL,
                last_error = ?4
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id, now, word])?;
    Ok(())
}
