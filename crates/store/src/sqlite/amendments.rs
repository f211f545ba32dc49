//! Amendments: body, amount, status and place in the queue, together.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tollgate_core::id::Item;
use tollgate_core::ports::{
    Amendment, Amendments, Author, CHANGED_MEANWHILE, Intervened, StoreResult,
};

use super::SqliteStore;
use super::interventions::{audit_move, found, give_back};
use super::records::move_status;
use super::value::Us;
use crate::urgency::Urgency;

#[async_trait]
impl Amendments for SqliteStore {
    async fn amend(
        &self,
        item: &Item,
        amendment: Amendment,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| amend(c, &item, &amendment, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }
}

fn amend(
    c: &Connection,
    item: &Item,
    amendment: &Amendment,
    author: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(found) = found(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = amendment.refusal(&found) {
        return Ok(Intervened::Refused(why));
    }
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let written = c
        .prepare_cached(
            "UPDATE item_body SET body = ?4 WHERE item_type = ?1 AND item_id = ?2 AND body = ?3",
        )?
        .execute(params![kind, id, amendment.was, amendment.body])?;
    if written == 0 {
        return Ok(Intervened::Refused(CHANGED_MEANWHILE.to_owned()));
    }
    c.prepare_cached(
        "UPDATE item_queue SET amount_minor = coalesce(?3, amount_minor), updated_at = ?4
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id, amendment.amount_minor, now])?;
    if let Some(status) = amendment.record() {
        move_status(c, item, &status, now)?;
    }
    if !found.has_ended {
        move_row(c, item, amendment, now)?;
    }
    let after = amendment.after(&found).as_str();
    let before = found.queue_status.as_str();
    audit_move(c, item, amendment.action, before, after, author, now)?;
    Ok(Intervened::Yes)
}

/// Another run, so that one under way finds it taken.
fn move_row(c: &Connection, item: &Item, amendment: &Amendment, now: Us) -> rusqlite::Result<()> {
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    if amendment.ends_as.is_some() {
        c.prepare_cached(
            "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = ?3, run = run + 1
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![kind, id, now])?;
        return give_back(c, item, now);
    }
    c.prepare_cached(
        "UPDATE item_queue SET run = run + 1, claimed_at = NULL, dispatched_at = NULL,
                queue_status = CASE WHEN queue_status IN ('CLAIMED', 'DISPATCHED') THEN 'READY'
                                    ELSE queue_status END
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id])
    .map(drop)
}
