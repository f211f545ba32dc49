//! Claims: which lanes have due work, and taking it under a token, within the lane's credit.

use rusqlite::{Connection, ToSql, params};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{Fence, Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{Claim, Claimed, DueLanes};

use crate::audit::Entry;
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::value::Us;
use crate::sqlite::lanes;
use crate::value::{micros, until};

#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) now: i64,
    pub(super) ahead: i64,
    pub(super) stale_after: i64,
}

pub(super) fn lanes_due(
    c: &Connection,
    item_type: &ItemType,
    look: Look,
) -> rusqlite::Result<DueLanes> {
    let mut due = DueLanes::default();
    let now = Timestamp::from_microsecond(look.now).unwrap_or_default();
    for lane in lanes::all(c)? {
        let key = params![item_type.as_str(), lane.name.as_str()];
        let ready: Option<i64> = c
            .prepare_cached(
                "SELECT min(scheduled_exec_time) FROM item_queue
                 WHERE item_type = ?1 AND lane = ?2 AND queue_status = 'READY'",
            )?
            .query_row(key, |row| row.get(0))?;
        let claimed: Option<i64> = c
            .prepare_cached(
                "SELECT min(claimed_at) FROM item_queue
                 WHERE item_type = ?1 AND lane = ?2 AND queue_status = 'CLAIMED'",
            )?
            .query_row(key, |row| row.get(0))?;
        let reach = [
            ready.map(|t| t - look.ahead),
            claimed.map(|t| t + look.stale_after),
        ];
        let first = reach.into_iter().flatten().min();
        due.add(
            &lane,
            first.and_then(|us| Timestamp::from_microsecond(us).ok()),
            now,
        );
    }
    Ok(due)
}

/// What is claimed or dispatched on a lane, of any type, and has not had its turn. The indexes
/// hold only what is under way, so that reading all of one costs little.
pub(super) fn unsent(c: &Connection, lane: &LaneName) -> rusqlite::Result<u32> {
    c.prepare_cached(
        "SELECT (SELECT count(*) FROM item_queue INDEXED BY item_queue_claimed
                 WHERE lane = ?1 AND queue_status = 'CLAIMED')
              + (SELECT count(*) FROM item_queue q INDEXED BY item_queue_running
                 WHERE q.lane = ?1
                   AND q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
                   AND NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run))",
    )?
    .query_row([lane.as_str()], |row| row.get(0))
}

/// READY and stale claims are two questions, each served by its own index. What could not be started
/// before is not claimed ahead of its pause: only a try tells whether it can be started now.
const DUE: &str = "SELECT q.item_id, q.run, q.fence, q.scheduled_exec_time, b.body,
            q.scheduled_time = q.scheduled_exec_time
     FROM item_queue q INDEXED BY item_queue_ready
     LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
     WHERE q.item_type = ?1 AND q.lane = ?2 AND q.queue_status = 'READY'
       AND q.scheduled_exec_time <= ?3
       AND (q.retry_count = 0 OR q.scheduled_exec_time <= ?5)
     ORDER BY q.scheduled_exec_time LIMIT ?4";
/// A stale claim may have a flow that nobody has heard of. The next run takes the item away from it.
const STALE: &str = "SELECT q.item_id, q.run + 1, q.fence, q.scheduled_exec_time, b.body,
            q.scheduled_time = q.scheduled_exec_time
     FROM item_queue q INDEXED BY item_queue_claimed
     LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
     WHERE q.item_type = ?1 AND q.lane = ?2 AND q.queue_status = 'CLAIMED'
       AND q.claimed_at <= ?3
     ORDER BY q.claimed_at LIMIT ?4";

struct Candidate {
    id: String,
    run: u32,
    fence: i64,
    scheduled: i64,
    context_json: Option<String>,
    on_slot: bool,
}

pub(super) fn take(
    c: &Connection,
    claim: &Claim,
    limit: u32,
    now: i64,
) -> rusqlite::Result<Vec<Claimed>> {
    // A stale claim is counted as unsent already, so the credit does not bind it.
    let (kind, lane) = (claim.item_type.as_str(), claim.lane.as_str());
    let stale_before = now - micros(claim.stale_after);
    let of_stale = params![kind, lane, stale_before, claim.limit];
    let mut candidates = candidates(c, STALE, of_stale)?;
    let stale = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
    let limit = limit.min(claim.limit.saturating_sub(stale));
    let reach = now + micros(claim.ahead);
    let of_due = params![kind, lane, reach, limit, now];
    candidates.extend(self::candidates(c, DUE, of_due)?);
    let mut claimed = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let Some(context_json) = candidate.context_json else {
            bury(c, claim, &candidate.id, now)?;
            continue;
        };
        let fence = Fence(candidate.fence + 1);
        c.prepare_cached(
            "UPDATE item_queue SET queue_status = 'CLAIMED', fence = ?3, claimed_at = ?4,
                    dispatch_batch_id = ?5, run = ?6
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![
            claim.item_type.as_str(),
            candidate.id,
            fence.0,
            now,
            claim.batch.as_str(),
            candidate.run
        ])?;
        claimed.push(Claimed {
            id: ItemId::new(candidate.id),
            fence,
            run: candidate.run,
            delay: until(now, candidate.scheduled),
            on_slot: candidate.on_slot,
            context_json,
        });
    }
    Ok(claimed)
}

fn candidates(
    c: &Connection,
    sql: &str,
    params: &[&dyn ToSql],
) -> rusqlite::Result<Vec<Candidate>> {
    c.prepare_cached(sql)?
        .query_map(params, |row| {
            Ok(Candidate {
                id: row.get(0)?,
                run: row.get(1)?,
                fence: row.get(2)?,
                scheduled: row.get(3)?,
                context_json: row.get(4)?,
                on_slot: row.get(5)?,
            })
        })?
        .collect()
}

/// An item without its body can never run; it harms nobody else.
fn bury(c: &Connection, claim: &Claim, id: &str, now: i64) -> rusqlite::Result<()> {
    let why = "its body is missing";
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'DEAD', last_error = ?3
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![claim.item_type.as_str(), id, why])?;
    let item = Item::new(&claim.item_type, &ItemId::new(id));
    let entry = Entry {
        batch: Some(claim.batch.as_str()),
        item: Some(&item),
        action: "DEAD",
        after: Some("DEAD"),
        actor: actor::DISPATCHER,
        detail: why,
        ..Entry::default()
    };
    let now = Timestamp::from_microsecond(now).unwrap_or_default();
    audit(c, Us(now), &entry)
}
