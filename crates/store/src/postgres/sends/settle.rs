//! Settling: the outcome and the item, in one statement per way to go on.

use deadpool_postgres::{GenericClient, Transaction};
use futures::future::try_join_all;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{Settlement, StoreResult, Then, disproof};

use super::storms;
use crate::postgres::connection::error::store_error;
use crate::postgres::connection::group::Job;
use crate::postgres::connection::run::{Params, one, optional};
use crate::postgres::connection::value::storable;
use crate::postgres::lanes;
use crate::value::micros;

const FINISH: &str = "WITH settled AS (
         UPDATE attempt SET state = $5, detail = $6, settled_at = tg_now()
         WHERE attempt_id = $4
           AND (state = 'OPEN' OR ($5 = 'DONE' AND state IN ('UNKNOWN', 'RETRY')))
         RETURNING attempt_id
     ), owned AS (
         UPDATE item_queue SET queue_status = 'DISPATCHED', finished_at = tg_now(),
                dispatched_at = coalesce(dispatched_at, tg_now()),
                status = CASE WHEN status = ANY($8) THEN $7 ELSE status END,
                updated_at = CASE WHEN status = ANY($8) THEN tg_now() ELSE updated_at END
         WHERE item_type = $1 AND item_id = $2 AND run = $3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
           AND EXISTS (SELECT 1 FROM settled)
         RETURNING item_id
     ), audited AS (
         INSERT INTO audit_log (item_type, item_id, action, status_after, actor, detail, created_at)
         SELECT $1, $2, $5, $7, 'sender', $6, tg_now() FROM settled WHERE $5 <> 'DONE'
     )
     SELECT EXISTS (SELECT 1 FROM settled), EXISTS (SELECT 1 FROM owned)";

/// What is proved not to have been done goes back to the queue, so only this one has proofs.
const REQUEUE: &str = "WITH settled AS (
         UPDATE attempt SET state = $5, detail = $6, settled_at = tg_now()
         WHERE attempt_id = $4
           AND (state = 'OPEN' OR ($5 = 'DONE' AND state IN ('UNKNOWN', 'RETRY')))
         RETURNING attempt_id
     ), owned AS (
         UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = tg_now() + $9, last_error = $10,
                failures = failures + CASE WHEN $13 THEN 1 ELSE 0 END,
                claimed_at = NULL, dispatched_at = NULL,
                status = CASE WHEN status = ANY($8) THEN $7 ELSE status END,
                updated_at = CASE WHEN status = ANY($8) THEN tg_now() ELSE updated_at END
         WHERE item_type = $1 AND item_id = $2 AND run = $3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
           AND EXISTS (SELECT 1 FROM settled)
         RETURNING item_id
     ), disproved AS (
         UPDATE attempt SET state = 'RETRY', detail = $12, settled_at = tg_now()
         WHERE $11 AND item_type = $1 AND item_id = $2 AND state = 'UNKNOWN'
           AND EXISTS (SELECT 1 FROM owned)
     ), audited AS (
         INSERT INTO audit_log (item_type, item_id, action, status_after, actor, detail, created_at)
         SELECT $1, $2, $5, $7, 'sender', $6, tg_now() FROM settled WHERE $5 <> 'DONE'
     )
     SELECT EXISTS (SELECT 1 FROM settled), EXISTS (SELECT 1 FROM owned)";

/// Its place in the queue stays as it is. Written even if the status stays, too: so it is held, and nobody takes the item
/// meanwhile.
const STAY: &str = "WITH settled AS (
         UPDATE attempt SET state = $5, detail = $6, settled_at = tg_now()
         WHERE attempt_id = $4
           AND (state = 'OPEN' OR ($5 = 'DONE' AND state IN ('UNKNOWN', 'RETRY')))
         RETURNING attempt_id
     ), owned AS (
         UPDATE item_queue SET
                status = CASE WHEN status = ANY($8) THEN $7 ELSE status END,
                updated_at = CASE WHEN status = ANY($8) THEN tg_now() ELSE updated_at END
         WHERE item_type = $1 AND item_id = $2 AND run = $3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
           AND EXISTS (SELECT 1 FROM settled)
         RETURNING item_id
     ), audited AS (
         INSERT INTO audit_log (item_type, item_id, action, status_after, actor, detail, created_at)
         SELECT $1, $2, $5, $7, 'sender', $6, tg_now() FROM settled WHERE $5 <> 'DONE'
     )
     SELECT EXISTS (SELECT 1 FROM settled), EXISTS (SELECT 1 FROM owned)";

/// Whether this very settlement has happened before: its answer was lost, and it is repeated.
const SETTLED_BEFORE: &str = "SELECT CASE $6
             WHEN 'FINISH' THEN q.run = $3 AND q.finished_at IS NOT NULL
             WHEN 'REQUEUE' THEN q.run = $3 + 1
             ELSE q.run = $3 AND q.queue_status IN ('CLAIMED', 'DISPATCHED')
                  AND q.finished_at IS NULL
         END
     FROM attempt a JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id
     WHERE a.item_type = $1 AND a.item_id = $2 AND a.run = $3
       AND a.attempt_id = $4 AND a.state = $5";

impl Job for Settlement {
    type Answer = bool;
}

/// Lanes are locked before items, as turns lock them, and items in the order of their keys.
pub(crate) async fn settle_all(
    tx: &Transaction<'_>,
    jobs: Vec<Settlement>,
) -> StoreResult<Vec<StoreResult<bool>>> {
    // Lookups by key only, whose one plan is always right: planning anew costs more than they do.
    tx.batch_execute("SET LOCAL plan_cache_mode = force_generic_plan")
        .await
        .map_err(store_error)?;
    storms::hold_cursors(tx, &jobs).await?;
    close_lanes(tx, &jobs).await?;
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| jobs[*a].item.cmp(&jobs[*b].item));
    // Prepared beforehand, so that what is sent together stays in order.
    for statement in [FINISH, REQUEUE, STAY] {
        tx.prepare_cached(statement).await.map_err(store_error)?;
    }
    let written = try_join_all(order.iter().map(|n| write(tx, &jobs[*n]))).await?;
    storms::heard(tx, &jobs).await?;
    let mut answers: Vec<StoreResult<bool>> = vec![Ok(false); jobs.len()];
    for (n, Written { settled, owned }) in order.into_iter().zip(written) {
        answers[n] = Ok(if settled {
            owned
        } else {
            settled_before(tx, &jobs[n]).await?
        });
    }
    Ok(answers)
}

/// In the order of their names, and only for an outcome that is news.
async fn close_lanes(tx: &Transaction<'_>, jobs: &[Settlement]) -> StoreResult<()> {
    const IS_NEWS: &str =
        "SELECT EXISTS (SELECT 1 FROM attempt WHERE attempt_id = $1 AND state = 'OPEN')";
    let mut wishes: Vec<_> = jobs
        .iter()
        .filter_map(|s| {
            s.close_lane
                .as_ref()
                .map(|(lane, time)| (lane, *time, s.attempt))
        })
        .collect();
    wishes.sort();
    for (lane, time, attempt) in wishes {
        if one(tx, IS_NEWS, &[&attempt.0]).await?.get(0) {
            lanes::close_for(tx, lane, time).await?;
        }
    }
    Ok(())
}

struct Written {
    settled: bool,
    owned: bool,
}

async fn write(c: &impl GenericClient, s: &Settlement) -> StoreResult<Written> {
    let (kind, id, run) = (
        s.item.item_type.as_str(),
        s.item.id.as_str(),
        i64::from(s.run),
    );
    let (state, detail) = (s.outcome.state().as_str(), storable(s.outcome.detail()));
    let detail = &*detail;
    let to = s.record.as_ref().map(|status| status.to.as_str());
    let from: &[String] = s.record.as_ref().map_or(&[], |status| &status.from);
    let attempt = s.attempt.0;
    let row = match &s.then {
        Then::Finish => {
            one(
                c,
                FINISH,
                &[&kind, &id, &run, &attempt, &state, &detail, &to, &from],
            )
            .await?
        }
        Then::Stay => {
            one(
                c,
                STAY,
                &[&kind, &id, &run, &attempt, &state, &detail, &to, &from],
            )
            .await?
        }
        Then::Requeue { after, why } => {
            let (after, why) = (micros(*after), storable(why));
            let why = &*why;
            let proof = disproof(detail);
            let params: Params<'_> = &[
                &kind,
                &id,
                &run,
                &attempt,
                &state,
                &detail,
                &to,
                &from,
                &after,
                &why,
                &s.disproves,
                &proof,
                &s.is_failure(),
            ];
            one(c, REQUEUE, params).await?
        }
    };
    Ok(Written {
        settled: row.get(0),
        owned: row.get(1),
    })
}

async fn settled_before(c: &impl GenericClient, s: &Settlement) -> StoreResult<bool> {
    let (kind, id, run) = (
        s.item.item_type.as_str(),
        s.item.id.as_str(),
        i64::from(s.run),
    );
    let then = match &s.then {
        Then::Stay => "STAY",
        Then::Finish => "FINISH",
        Then::Requeue { .. } => "REQUEUE",
    };
    let state = match &s.outcome {
        Outcome::Done(_) | Outcome::Refused(_) | Outcome::Declined(_) | Outcome::Retry { .. } => {
            s.outcome.state()
        }
        // Written by whoever took the attempt over, too: that was not us.
        Outcome::Unknown(_) => return Ok(false),
    };
    let params: Params<'_> = &[&kind, &id, &run, &s.attempt.0, &state.as_str(), &then];
    let row = optional(c, SETTLED_BEFORE, params).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}
