//! Interventions that people and deadlines make.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LARGEST_WINDOW_SECS;
use tollgate_core::ports::{
    Author, Found, Intervened, Interventions, StatusMove, StoreResult, TOO_LATE,
};

use super::accounts::audit;
use super::records::move_status;
use super::value::{Us, word};
use super::{SqliteStore, anew};
use crate::anew::Anew;
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Interventions for SqliteStore {
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64> {
        let (item_type, clock) = (item_type.clone(), self.clock.clone());
        let write = move |c: &Connection| hold_late(c, &item_type, limit, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| hold(c, &item, run, Us(clock.now()));
        self.write_in_force(Urgency::Urgent, write).await
    }

    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| release(c, &item, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| cancel(c, &item, &status, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.place_anew(Anew {
            item,
            requested,
            reopened: None,
            author,
        })
        .await
    }

    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.place_anew(Anew {
            item,
            requested,
            reopened: Some(status),
            author,
        })
        .await
    }
}

impl SqliteStore {
    async fn place_anew(&self, anew: Anew) -> StoreResult<Intervened> {
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        let write = move |c: &Connection| anew::place(c, &anew, margin, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }
}

fn hold_late(c: &Connection, item_type: &ItemType, limit: u32, now: Us) -> rusqlite::Result<u64> {
    let held: Vec<String> = c
        .prepare_cached(
            "UPDATE item_queue SET queue_status = 'HELD', last_error = ?4
             WHERE item_type = ?1 AND queue_status = 'READY' AND item_id IN (
                 SELECT item_id FROM item_queue INDEXED BY item_queue_hold
                 WHERE item_type = ?1 AND queue_status = 'READY' AND hold_after IS NOT NULL
                   AND hold_after < ?2
                   AND NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = item_queue.item_type
                          AND a.item_id = item_queue.item_id
                          AND a.state IN ('OPEN', 'UNKNOWN', 'DONE'))
                 ORDER BY hold_after LIMIT ?3)
             RETURNING item_id",
        )?
        .query_map(params![item_type.as_str(), now, limit, TOO_LATE], |row| {
            row.get(0)
        })?
        .collect::<rusqlite::Result<_>>()?;
    for id in &held {
        let item = Item::new(item_type, &ItemId::new(id.as_str()));
        audit_move(
            c,
            &item,
            "HELD",
            "READY",
            "HELD",
            &machine(actor::SWEEPER),
            now,
        )?;
    }
    Ok(held.len() as u64)
}

fn hold(c: &Connection, item: &Item, run: u32, now: Us) -> rusqlite::Result<bool> {
    let held = c
        .prepare_cached(
            "UPDATE item_queue SET queue_status = 'HELD', last_error = ?4, run = run + 1,
                    claimed_at = NULL, dispatched_at = NULL
             WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
               AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL",
        )?
        .execute(params![
            item.item_type.as_str(),
            item.id.as_str(),
            run,
            TOO_LATE
        ])?;
    if held == 0 {
        return Ok(false);
    }
    audit_move(
        c,
        item,
        "HELD",
        "DISPATCHED",
        "HELD",
        &machine(actor::SENDER),
        now,
    )?;
    Ok(true)
}

fn release(c: &Connection, item: &Item, author: &Author, now: Us) -> rusqlite::Result<Intervened> {
    let Some(found) = found(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = found.refuses_release() {
        return Ok(Intervened::Refused(why));
    }
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', run = run + 1, scheduled_exec_time = ?3,
                hold_after = CASE WHEN held_by IS NULL OR hold_after < ?3 THEN NULL
                                  ELSE hold_after END,
                passed_rules = trim(coalesce(passed_rules, '') || ' ' || coalesce(held_by, '')),
                held_by = NULL, last_error = NULL
         WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'HELD'",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    audit_move(c, item, "RELEASED", "HELD", "READY", author, now)?;
    Ok(Intervened::Yes)
}

fn cancel(
    c: &Connection,
    item: &Item,
    status: &StatusMove,
    author: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(found) = found(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = found.refuses_cancel() {
        return Ok(Intervened::Refused(why));
    }
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = ?3, held_by = NULL
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    move_status(c, item, status, now)?;
    give_back(c, item, now)?;
    let before = found.queue_status.as_str();
    audit_move(c, item, "CANCELLED", before, "CANCELLED", author, now)?;
    Ok(Intervened::Yes)
}

pub(super) fn found(c: &Connection, item: &Item) -> rusqlite::Result<Option<Found>> {
    c.prepare_cached(
        "SELECT q.queue_status, q.lane,
                EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                               AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                    WHERE d.item_type = ?1 AND d.item_id = ?2
                                      AND (d.state = 'DECLINED' OR d.reopened)), 0)))),
                q.finished_at IS NOT NULL, q.status, q.run
         FROM item_queue q
         WHERE q.item_type = ?1 AND q.item_id = ?2",
    )?
    .query_row(params![item.item_type.as_str(), item.id.as_str()], |row| {
        Ok(Found {
            queue_status: word(row, 0, QueueStatus::parse)?,
            lane: LaneName::new(row.get::<_, String>(1)?),
            may_be_done: row.get(2)?,
            has_ended: row.get(3)?,
            record_status: row.get(4)?,
            run: row.get(5)?,
        })
    })
    .optional()
}

/// The room of an item's slot comes back, if its window lies ahead; whoever pointed past that
/// window points to it.
pub(super) fn give_back(c: &Connection, item: &Item, now: Us) -> rusqlite::Result<()> {
    let slot: Option<(String, i64, Us)> = c
        .prepare_cached(
            "SELECT lane, generation, window_start FROM item_queue
             WHERE item_type = ?1 AND item_id = ?2 AND scheduled_time > ?3",
        )?
        .query_row(
            params![item.item_type.as_str(), item.id.as_str(), now],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let Some((lane, generation, window)) = slot else {
        return Ok(());
    };
    // Nothing is placed in a window that has ended.
    let ended = now.0.as_microsecond() - i64::from(LARGEST_WINDOW_SECS) * 1_000_000;
    c.prepare_cached(
        "UPDATE lane_window SET used = max(used - 1, 0)
         WHERE lane = ?1 AND generation = ?2 AND window_start = ?3",
    )?
    .execute(params![lane, generation, window])?;
    c.prepare_cached(
        "UPDATE lane_window SET next_open = ?3
         WHERE lane = ?1 AND generation = ?2 AND window_start < ?3 AND next_open > ?3
           AND window_start > ?4",
    )?
    .execute(params![lane, generation, window, ended])?;
    Ok(())
}

fn machine(who: &str) -> Author {
    Author::new(who, TOO_LATE)
}

pub(super) fn audit_move(
    c: &Connection,
    item: &Item,
    action: &str,
    before: &str,
    after: &str,
    author: &Author,
    now: Us,
) -> rusqlite::Result<()> {
    let entry = Entry {
        item: Some(item),
        action,
        before: Some(before),
        after: Some(after),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(c, now, &entry)
}
