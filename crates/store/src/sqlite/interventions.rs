//! Interventions that people and deadlines make.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::LARGEST_WINDOW_SECS;
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{
    Author, Intervened, Interventions, StatusMove, StoreResult, cannot_move, cannot_reopen,
};
use tollgate_core::slot::steady_random;

use super::SqliteStore;
use super::accounts::{Entry, audit};
use super::counters::Plan;
use super::error::store_error;
use super::lanes;
use super::records::move_status;
use super::value::Us;
use super::writer::Urgency;

#[async_trait]
impl Interventions for SqliteStore {
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64> {
        let (item_type, clock) = (item_type.clone(), self.clock.clone());
        let write = move |c: &Connection| hold_late(c, &item_type, limit, Us(clock.now()));
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }

    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| hold(c, &item, run, Us(clock.now()));
        self.writer
            .write(Urgency::Urgent, move |c| write(c).map_err(store_error))
            .await
    }

    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| release(c, &item, &author, Us(clock.now()));
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }

    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| cancel(c, &item, &status, &author, Us(clock.now()));
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }

    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let margin = self.options.gate_margin;
        let write = move |c: &Connection| {
            place_anew(c, &item, None, requested, &author, margin, Us(clock.now()))
        };
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }

    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let margin = self.options.gate_margin;
        let write = move |c: &Connection| {
            let (status, now) = (Some(&status), Us(clock.now()));
            place_anew(c, &item, status, requested, &author, margin, now)
        };
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }
}

const TOO_LATE: &str = "its deadline has passed and it must not run late";

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
    let released = c
        .prepare_cached(
            "UPDATE item_queue SET queue_status = 'READY', scheduled_exec_time = ?3,
                    hold_after = NULL, last_error = NULL
             WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'HELD'",
        )?
        .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    if released == 0 {
        return Ok(match waiting(c, item)? {
            None => Intervened::NoSuchItem,
            Some(found) => Intervened::Refused(format!("it is {}, not HELD", found.queue_status)),
        });
    }
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
    let Some(found) = waiting(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = cannot_move(&found.queue_status, found.may_be_done) {
        return Ok(Intervened::Refused(why));
    }
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = ?3
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])?;
    move_status(c, item, status, now)?;
    give_back(c, item, now)?;
    let before = found.queue_status.as_str();
    audit_move(c, item, "CANCELLED", before, "CANCELLED", author, now)?;
    Ok(Intervened::Yes)
}

/// Gives what waits another slot; or, with a move of its record, what has ended.
fn place_anew(
    c: &Connection,
    item: &Item,
    reopened: Option<&StatusMove>,
    requested: Timestamp,
    author: &Author,
    margin: Decimal,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(found) = waiting(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    let refusal = match reopened {
        None => cannot_move(&found.queue_status, found.may_be_done || found.was_sent),
        Some(status) => {
            let (status_now, may_be_done) = (&found.record_status, found.may_be_done);
            cannot_reopen(found.has_ended, status_now, status, may_be_done)
        }
    };
    if let Some(why) = refusal {
        return Ok(Intervened::Refused(why));
    }
    let Some(lane) = lanes::in_force(c, &found.lane)? else {
        return Ok(Intervened::Refused(no_such_lane(&found.lane)));
    };
    let mut plan = Plan::of(c, &lane, margin)?;
    let Some(place) = plan.place(requested.max(now.0), steady_random(&item.id))? else {
        return Ok(Intervened::Refused(never_opens(&found.lane, requested)));
    };
    let generation = plan.generation();
    plan.write_back()?;
    give_back(c, item, now)?;
    let key = params![
        item.item_type.as_str(),
        item.id.as_str(),
        Us(place.window),
        Us(place.scheduled),
        Us(requested),
        generation
    ];
    c.prepare_cached(
        "UPDATE slot SET window_start = ?3, scheduled_time = ?4, requested_time = ?5,
                generation = ?6
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(key)?;
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', scheduled_exec_time = ?3, last_error = NULL,
                hold_after = CASE queue_status WHEN 'HELD' THEN NULL ELSE hold_after END,
                run = run + ?4, finished_at = NULL, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![
        item.item_type.as_str(),
        item.id.as_str(),
        Us(place.scheduled),
        u32::from(reopened.is_some())
    ])?;
    if let Some(status) = reopened {
        move_status(c, item, status, now)?;
        c.prepare_cached(
            "UPDATE attempt SET state = 'DECLINED'
             WHERE item_type = ?1 AND item_id = ?2 AND state = 'REFUSED'",
        )?
        .execute(params![item.item_type.as_str(), item.id.as_str()])?;
    }
    let action = if reopened.is_some() {
        "REOPENED"
    } else {
        "RESCHEDULED"
    };
    let before = found.queue_status.as_str();
    audit_move(c, item, action, before, "READY", author, now)?;
    Ok(Intervened::Yes)
}

struct Found {
    queue_status: String,
    lane: LaneName,
    /// Since it was last declined.
    may_be_done: bool,
    was_sent: bool,
    has_ended: bool,
    record_status: String,
}

fn waiting(c: &Connection, item: &Item) -> rusqlite::Result<Option<Found>> {
    c.prepare_cached(
        "SELECT q.queue_status, q.lane,
                EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                               AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                    WHERE d.item_type = ?1 AND d.item_id = ?2
                                      AND d.state = 'DECLINED'), 0)))),
                EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                    WHERE d.item_type = ?1 AND d.item_id = ?2
                                      AND d.state = 'DECLINED'), 0)),
                q.finished_at IS NOT NULL, r.status
         FROM item_queue q
         JOIN record r ON r.item_type = q.item_type AND r.item_id = q.item_id
         WHERE q.item_type = ?1 AND q.item_id = ?2",
    )?
    .query_row(params![item.item_type.as_str(), item.id.as_str()], |row| {
        Ok(Found {
            queue_status: row.get(0)?,
            lane: LaneName::new(row.get::<_, String>(1)?),
            may_be_done: row.get(2)?,
            was_sent: row.get(3)?,
            has_ended: row.get(4)?,
            record_status: row.get(5)?,
        })
    })
    .optional()
}

/// The room of an item's slot comes back, if its window lies ahead; whoever pointed past that
/// window points to it.
fn give_back(c: &Connection, item: &Item, now: Us) -> rusqlite::Result<()> {
    let slot: Option<(String, i64, Us)> = c
        .prepare_cached(
            "SELECT lane, generation, window_start FROM slot
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

fn audit_move(
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
