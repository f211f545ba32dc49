//! Attempts: taking over what a dead sender left, and settling.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{AttemptId, Item, WatchId};
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{
    Attempts, CallTurn, CallWanted, History, Past, Settlement, StatusMove, StoreResult, Then,
    TurnBlock, TurnsWanted, busy_for, disproof,
};

use super::{call_turns, eras, storms, turns};
use crate::audit::Entry;
use crate::sqlite::SqliteStore;
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::value::{Us, word};
use crate::sqlite::records::move_status;
use crate::sqlite::{lanes, queue};
use crate::urgency::Urgency;

#[async_trait]
impl Attempts for SqliteStore {
    async fn take_over(
        &self,
        item: &Item,
        run: u32,
        tolerance: Duration,
        in_doubt: &StatusMove,
    ) -> StoreResult<History> {
        let (mine, now) = (item.clone(), self.clock.now());
        let before = self
            .readers
            .read(move |c| history(c, &mine, tolerance, now))
            .await?;
        let abandoned = before
            .past
            .iter()
            .any(|past| past.state == AttemptState::Open);
        if !abandoned {
            return Ok(before);
        }
        let (item, in_doubt, clock) = (item.clone(), in_doubt.clone(), self.clock.clone());
        let write = move |c: &Connection| -> rusqlite::Result<History> {
            let now = clock.now();
            let left = history(c, &item, tolerance, now)?;
            if left.busy_for.is_some() || !is_owner(c, &item, run)? {
                return Ok(left);
            }
            abandon(c, &item, Us(now))?;
            move_status(c, &item, &in_doubt, Us(now))?;
            history(c, &item, tolerance, now)
        };
        self.write_in_force(Urgency::Urgent, write).await
    }

    async fn take_turns(&self, wanted: TurnsWanted) -> StoreResult<TurnBlock> {
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        self.write_in_force(Urgency::Urgent, move |c| {
            turns::take(c, &wanted, margin, clock.now())
        })
        .await
    }

    async fn take_call_turn(&self, wanted: CallWanted) -> StoreResult<CallTurn> {
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        self.write_in_force(Urgency::Urgent, move |c| {
            call_turns::take(c, &wanted, margin, clock.now())
        })
        .await
    }

    async fn settle(&self, settlement: Settlement) -> StoreResult<bool> {
        let clock = self.clock.clone();
        self.writer
            .write(Urgency::Urgent, move |c| {
                settle(c, &settlement, Us(clock.now()))
            })
            .await
    }
}

/// Nobody will record an answer to what is open.
pub(crate) fn abandon(c: &Connection, item: &Item, now: Us) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE attempt SET state = 'UNKNOWN', settled_at = ?3,
                detail = 'the sender ended before an answer was recorded'
         WHERE item_type = ?1 AND item_id = ?2 AND state = 'OPEN'",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), now])
    .map(drop)
}

/// Open attempts whose turn may still be used are not past: they make the item busy.
pub(crate) fn history(
    c: &Connection,
    item: &Item,
    tolerance: Duration,
    now: Timestamp,
) -> rusqlite::Result<History> {
    let attempts: Vec<Past> = c
        .prepare_cached(
            "SELECT attempt_id, kind, state, turn_at, era, detail, idempotency_key, reopened, watch_id
             FROM attempt
             WHERE item_type = ?1 AND item_id = ?2 ORDER BY attempt_id",
        )?
        .query_map(params![item.item_type.as_str(), item.id.as_str()], |row| {
            Ok(Past {
                attempt: AttemptId(row.get(0)?),
                kind: word(row, 1, AttemptKind::parse)?,
                state: word(row, 2, AttemptState::parse)?,
                key: row.get(6)?,
                turn_at: row.get::<_, Us>(3)?.0,
                era: row.get(4)?,
                detail: row.get(5)?,
                reopened: row.get(7)?,
                watch: row.get::<_, Option<i64>>(8)?.map(WatchId),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let era = eras::current(c)?;
    let busy_for = busy_for(&attempts, era, tolerance, now);
    let queued = queued(c, item)?.unwrap_or((0, Us(now), String::new(), None));
    let (failures, due, status, last_error) = queued;
    Ok(History {
        failures,
        due: due.0,
        status,
        last_error,
        past: attempts,
        busy_for,
        now,
        era,
    })
}

/// How often an item has failed, when it is due, what its record says, and its last error.
type Queued = (u32, Us, String, Option<String>);

fn queued(c: &Connection, item: &Item) -> rusqlite::Result<Option<Queued>> {
    c.prepare_cached(
        "SELECT failures, scheduled_exec_time, status, last_error FROM item_queue
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .query_row(params![item.item_type.as_str(), item.id.as_str()], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })
    .optional()
}

fn settle(c: &Connection, s: &Settlement, now: Us) -> rusqlite::Result<bool> {
    let written = c
        .prepare_cached(
            "UPDATE attempt SET state = ?2, detail = ?3, settled_at = ?4
             WHERE attempt_id = ?1
               AND (state = 'OPEN' OR (?2 = 'DONE' AND state IN ('UNKNOWN', 'RETRY')))",
        )?
        .execute(params![
            s.attempt.0,
            s.outcome.state().as_str(),
            s.outcome.detail(),
            now
        ])?;
    if written == 0 {
        return Ok(false);
    }
    storms::heard(c, s, now)?;
    if let Some((lane, time)) = &s.close_lane {
        lanes::close_for(c, lane, *time, now)?;
    }
    let owned = match &s.then {
        Then::Stay => is_owner(c, &s.item, s.run)?,
        Then::Finish => queue::finish(c, &s.item, s.run, now)? == 1,
        Then::Requeue { after, why } => {
            let back = queue::Back {
                pause: Some(*after),
                why,
                failed: s.is_failure(),
            };
            queue::put_back(c, &s.item, s.run, back, now)? == 1
        }
    };
    if owned && let Some(status) = &s.record {
        move_status(c, &s.item, status, now)?;
    }
    if owned && s.disproves {
        disprove(c, &s.item, &disproof(s.outcome.detail()), now)?;
    }
    if !matches!(s.outcome, Outcome::Done(_)) {
        let after = s.record.as_ref().map(|status| status.to.as_str());
        let entry = Entry {
            item: Some(&s.item),
            action: s.outcome.state().as_str(),
            after,
            actor: actor::SENDER,
            detail: s.outcome.detail(),
            ..Entry::default()
        };
        audit(c, now, &entry)?;
    }
    Ok(owned)
}

/// What was unknown is known not to have been done, from now on.
pub(super) fn disprove(c: &Connection, item: &Item, proof: &str, now: Us) -> rusqlite::Result<()> {
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    c.prepare_cached(
        "UPDATE attempt SET state = 'RETRY', detail = ?3, settled_at = ?4
         WHERE item_type = ?1 AND item_id = ?2 AND state = 'UNKNOWN'",
    )?
    .execute(params![kind, id, proof, now])
    .map(drop)
}

fn is_owner(c: &Connection, item: &Item, run: u32) -> rusqlite::Result<bool> {
    c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM item_queue
         WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL)",
    )?
    .query_row(
        params![item.item_type.as_str(), item.id.as_str(), run],
        |row| row.get(0),
    )
}
