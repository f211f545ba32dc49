//! How a refusal storm begins: the canaries of connectors and the streaks of refusals. What people
//! do about one is in `cold::storms`.

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{AttemptId, LaneName, StormId, WatchId};
use tollgate_core::outcome::{AttemptState, Outcome};
use tollgate_core::ports::{
    Settlement, StoreResult, StormPause, Turn, TurnBlock, TurnsWanted, pause_reason,
};
use tollgate_core::storm::{Canary, Limits, MOST_SCANNED, Place, canary_reason, streak_reason};

use crate::audit::Entry;
use crate::postgres::accounts::audit;
use crate::postgres::connection::run::{Params, all, execute, one, optional};
use crate::postgres::connection::value::{Count, Us, storable, word};

/// The limit of the canary that is on, and its places.
pub(crate) async fn canary(
    c: &impl GenericClient,
    watch: Option<WatchId>,
) -> StoreResult<Option<(u32, Vec<Place>)>> {
    const CANARY: &str = "SELECT w.canary, a.attempt_id, a.state, a.turn_at
         FROM connector_watch w LEFT JOIN attempt a ON a.attempt_id = ANY(w.places)
         WHERE w.watch_id = $1 AND NOT w.passed";
    let Some(watch) = watch else {
        return Ok(None);
    };
    let rows = all(c, CANARY, &[&watch.0]).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let limit = first.get::<_, Count>(0).0;
    let places = rows.iter().filter_map(|row| place_from(row).transpose());
    Ok(Some((limit, places.collect::<StoreResult<_>>()?)))
}

/// Nothing in the one row of a canary without places.
fn place_from(row: &Row) -> StoreResult<Option<Place>> {
    let Some(attempt) = row.get::<_, Option<i64>>(1) else {
        return Ok(None);
    };
    Ok(Some(Place {
        attempt: AttemptId(attempt),
        state: word(row, 2, AttemptState::parse)?,
        turn_at: row.get::<_, Us>(3).0,
    }))
}

/// Writes down which attempts of a block are canaries, unless the canary is over meanwhile.
pub(crate) async fn take_places(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    canary: Option<&Canary>,
    given: &TurnBlock,
) -> StoreResult<()> {
    const TAKE: &str = "UPDATE connector_watch SET places = $2 WHERE watch_id = $1 AND NOT passed";
    let (Some(watch), Some(canary)) = (wanted.watch, canary) else {
        return Ok(());
    };
    let asked = wanted.attempts.iter().zip(&given.turns);
    let opened = asked.filter_map(|(asked, turn)| match turn {
        Turn::At { attempt, .. } if canary.needs_place(asked) => Some(*attempt),
        _ => None,
    });
    let places: Vec<i64> = canary.places_with(opened).iter().map(|it| it.0).collect();
    execute(tx, TAKE, &[&watch.0, &places]).await.map(drop)
}

fn attempts_of(jobs: &[Settlement], wanted: fn(&Outcome) -> bool) -> Vec<i64> {
    let jobs = jobs.iter().filter(|job| wanted(&job.outcome));
    jobs.map(|job| job.attempt.0).collect()
}

fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(_))
}

fn is_other_answer(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_) | Outcome::Declined(_))
}

/// Before anything is settled: holds the cursors of lanes that are to be closed or whose refusals are
/// to be counted, in the order of their names.
pub(super) async fn hold_cursors(tx: &Transaction<'_>, jobs: &[Settlement]) -> StoreResult<()> {
    const HOLD: &str = "SELECT lane FROM lane_cursor
         WHERE lane = ANY($2) OR lane IN (SELECT lane FROM attempt
              WHERE attempt_id = ANY($1) AND watch_id IS NOT NULL)
         ORDER BY lane FOR UPDATE";
    let refused = attempts_of(jobs, is_refusal);
    let closed: Vec<&str> = jobs
        .iter()
        .filter_map(|job| Some(job.close_lane.as_ref()?.0.as_str()))
        .collect();
    if refused.is_empty() && closed.is_empty() {
        return Ok(());
    }
    all(tx, HOLD, &[&refused, &closed]).await.map(drop)
}

/// What the answers that were just written mean for their connectors.
pub(crate) async fn heard(tx: &Transaction<'_>, jobs: &[Settlement]) -> StoreResult<()> {
    let others = attempts_of(jobs, is_other_answer);
    if !others.is_empty() {
        pass(tx, &others).await?;
    }
    for job in jobs {
        if matches!(job.outcome, Outcome::Refused(_)) {
            judge(tx, job.attempt, &job.answer_without_accounts()).await?;
        }
    }
    Ok(())
}

/// A send was not refused, or a canary turns out to have been done: the canary is over.
async fn pass(tx: &Transaction<'_>, attempts: &[i64]) -> StoreResult<()> {
    const PASS: &str = "UPDATE connector_watch w SET passed = true, places = '{}'
         WHERE NOT w.passed AND EXISTS (SELECT 1 FROM attempt a
              WHERE a.attempt_id = ANY($1) AND a.watch_id = w.watch_id
                AND a.state IN ('DONE', 'DECLINED')
                AND (a.kind = 'SEND' OR EXISTS (SELECT 1 FROM attempt sent
                     WHERE sent.attempt_id = ANY(w.places)
                       AND sent.item_type = a.item_type AND sent.item_id = a.item_id)))";
    execute(tx, PASS, &[&attempts]).await.map(drop)
}

/// A connector whose refusals are counted.
struct Watched {
    id: WatchId,
    lane: LaneName,
    connector: String,
    limits: Limits,
    since: i64,
    /// What has paused its lane.
    storm: Option<StormId>,
    now: Timestamp,
}

/// A refusal was written: pauses the lane if it makes a storm.
async fn judge(tx: &Transaction<'_>, attempt: AttemptId, answer: &str) -> StoreResult<()> {
    // What was under way when the storm began belongs to it.
    const BELONGS: &str = "UPDATE storm SET first_attempt = least(first_attempt, $2)
         WHERE storm_id = $1 AND watch_id = $3";
    let Some(watched) = watched(tx, attempt).await? else {
        return Ok(());
    };
    if let Some(storm) = watched.storm {
        let params: Params<'_> = &[&storm.0, &attempt.0, &watched.id.0];
        return execute(tx, BELONGS, params).await.map(drop);
    }
    let (connector, limits) = (watched.connector.as_str(), watched.limits);
    let canary = canary(tx, Some(watched.id)).await?;
    let canary = canary.map(|(limit, places)| Canary::new(limit, places, watched.now));
    if let Some(first) = canary.and_then(|canary| canary.failed()) {
        let reason = canary_reason(connector, limits, answer);
        return begin(tx, &watched, first, &reason).await;
    }
    match streak(tx, &watched).await? {
        Some(first) => {
            let reason = streak_reason(connector, limits, answer);
            begin(tx, &watched, first, &reason).await
        }
        None => Ok(()),
    }
}

async fn watched(tx: &Transaction<'_>, attempt: AttemptId) -> StoreResult<Option<Watched>> {
    const WATCHED: &str = "SELECT w.watch_id, w.lane, w.connector, w.canary, w.streak, w.since,
                k.storm_id, tg_now()
         FROM attempt a
         JOIN connector_watch w ON w.watch_id = a.watch_id
         JOIN lane_cursor k ON k.lane = w.lane
         WHERE a.attempt_id = $1 AND a.state = 'REFUSED'";
    let row = optional(tx, WATCHED, &[&attempt.0]).await?;
    Ok(row.map(|row| Watched {
        id: WatchId(row.get(0)),
        lane: LaneName::new(row.get::<_, String>(1)),
        connector: row.get(2),
        limits: limits_from(&row, 3),
        since: row.get(5),
        storm: row.get::<_, Option<i64>>(6).map(StormId),
        now: row.get::<_, Us>(7).0,
    }))
}

fn limits_from(row: &Row, column: usize) -> Limits {
    Limits {
        canary: row.get::<_, Count>(column).0,
        streak: row.get::<_, Count>(column + 1).0,
    }
}

/// The oldest refusal of a streak, if there is one.
async fn streak(tx: &Transaction<'_>, watched: &Watched) -> StoreResult<Option<AttemptId>> {
    const OLDEST: &str = "SELECT attempt_id, turn_at FROM attempt
         WHERE refused_by = $1 AND attempt_id > $2 AND NOT reopened
         ORDER BY attempt_id DESC LIMIT 1 OFFSET $3";
    const DONE: &str = "SELECT count(*) FROM (SELECT 1 FROM attempt
             WHERE lane = $1 AND turn_at > $2 AND watch_id = $3 AND kind = 'SEND'
               AND state = 'DONE'
             ORDER BY turn_at LIMIT $4) done";
    let limits = watched.limits;
    if limits.streak == 0 {
        return Ok(None);
    }
    let newer = i64::from(limits.streak) - 1;
    let Some(oldest) = optional(tx, OLDEST, &[&watched.id.0, &watched.since, &newer]).await? else {
        return Ok(None);
    };
    let turn_at: i64 = oldest.get(1);
    let most = i64::from(limits.most_done_in_a_streak());
    let params: Params<'_> = &[&watched.lane.as_str(), &turn_at, &watched.id.0, &(most + 1)];
    let done: i64 = one(tx, DONE, params).await?.get(0);
    if done > most {
        return Ok(None);
    }
    let earliest = refused_before(tx, watched, turn_at).await?;
    Ok(Some(earliest.unwrap_or(AttemptId(oldest.get(0)))))
}

/// The first of the refusals right before a streak. Many answers are written at once, so a streak may
/// be longer than it needed to be when it is found, and all of it is the storm's.
async fn refused_before(
    tx: &Transaction<'_>,
    watched: &Watched,
    turn_at: i64,
) -> StoreResult<Option<AttemptId>> {
    const BEFORE: &str = "WITH before AS MATERIALIZED (
             SELECT attempt_id, state FROM (
                 SELECT * FROM attempt WHERE lane = $1 AND turn_at < $2
                 ORDER BY turn_at DESC LIMIT $5) l
             WHERE watch_id = $3 AND kind = 'SEND' AND attempt_id > $4)
         SELECT min(attempt_id) FROM before
         WHERE state = 'REFUSED' AND attempt_id > coalesce(
             (SELECT max(attempt_id) FROM before WHERE state = 'DONE'), 0)";
    let (lane, most) = (watched.lane.as_str(), i64::from(MOST_SCANNED));
    let params: Params<'_> = &[&lane, &turn_at, &watched.id.0, &watched.since, &most];
    let row = one(tx, BEFORE, params).await?;
    Ok(row.get::<_, Option<i64>>(0).map(AttemptId))
}

async fn begin(
    tx: &Transaction<'_>,
    watched: &Watched,
    first: AttemptId,
    reason: &str,
) -> StoreResult<()> {
    const BEGIN: &str = "INSERT INTO storm (lane, watch_id, reason, first_attempt, began_at)
         VALUES ($1, $2, $3, $4, tg_now()) RETURNING storm_id";
    const PAUSE: &str = "UPDATE lane_cursor SET storm_id = $2 WHERE lane = $1";
    let (lane, reason) = (watched.lane.as_str(), storable(reason));
    let params: Params<'_> = &[&lane, &watched.id.0, &&*reason, &first.0];
    let id = StormId(one(tx, BEGIN, params).await?.get(0));
    execute(tx, PAUSE, &[&lane, &id.0]).await?;
    let detail = format!("lane {lane}: {}", pause_reason(id, &reason));
    let entry = Entry {
        action: "LANE_PAUSED",
        actor: actor::STORM,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await
}

/// What has paused a lane, from this column on.
pub(crate) fn pause_from(row: &Row, column: usize) -> Option<StormPause> {
    let id: i64 = row.get::<_, Option<i64>>(column)?;
    Some(StormPause {
        id: StormId(id),
        reason: row.get(column + 1),
        since: row.get::<_, Us>(column + 2).0,
    })
}
