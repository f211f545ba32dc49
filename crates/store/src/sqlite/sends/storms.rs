//! How a refusal storm begins: the canaries of connectors and the streaks of refusals. What people
//! do about one is in `cold::storms`.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{AttemptId, LaneName, StormId, WatchId};
use tollgate_core::outcome::{AttemptState, Outcome};
use tollgate_core::ports::{Settlement, StormPause, Turn, TurnBlock, TurnsWanted, pause_reason};
use tollgate_core::storm::{Canary, Limits, Place, canary_reason, streak_reason};

use crate::audit::Entry;
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::value::{Us, word};

/// The canary that is on.
pub(crate) fn canary(
    c: &Connection,
    watch: Option<WatchId>,
    now: Timestamp,
) -> rusqlite::Result<Option<Canary>> {
    let Some(watch) = watch else {
        return Ok(None);
    };
    let on: Option<(u32, String)> = c
        .prepare_cached(
            "SELECT canary, places FROM connector_watch WHERE watch_id = ?1 AND NOT passed",
        )?
        .query_row([watch.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((limit, places)) = on else {
        return Ok(None);
    };
    let places = c
        .prepare_cached(
            "SELECT attempt_id, state, turn_at FROM attempt
             WHERE attempt_id IN (SELECT value FROM json_each(?1))",
        )?
        .query_map([places], |row| {
            Ok(Place {
                attempt: AttemptId(row.get(0)?),
                state: word(row, 1, AttemptState::parse)?,
                turn_at: row.get::<_, Us>(2)?.0,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(Canary::new(limit, places, now)))
}

/// Writes down which attempts of a block are canaries.
pub(crate) fn take_places(
    c: &Connection,
    wanted: &TurnsWanted,
    canary: Option<&Canary>,
    given: &TurnBlock,
) -> rusqlite::Result<()> {
    let (Some(watch), Some(canary)) = (wanted.watch, canary) else {
        return Ok(());
    };
    let asked = wanted.attempts.iter().zip(&given.turns);
    let opened = asked.filter_map(|(asked, turn)| match turn {
        Turn::At { attempt, .. } if canary.needs_place(asked) => Some(*attempt),
        _ => None,
    });
    let places: Vec<i64> = canary.places_with(opened).iter().map(|it| it.0).collect();
    let places = serde_json::Value::from(places).to_string();
    c.prepare_cached("UPDATE connector_watch SET places = ?2 WHERE watch_id = ?1")?
        .execute(params![watch.0, places])
        .map(drop)
}

/// What an answer that was just written means for its connector.
pub(crate) fn heard(c: &Connection, s: &Settlement, now: Us) -> rusqlite::Result<()> {
    match &s.outcome {
        Outcome::Done(_) | Outcome::Declined(_) => pass(c, s.attempt),
        Outcome::Refused(_) => judge(c, s.attempt, &s.answer_without_accounts(), now),
        Outcome::Retry { .. } | Outcome::Unknown(_) => Ok(()),
    }
}

/// A send was not refused, or a canary turns out to have been done: the canary is over.
fn pass(c: &Connection, attempt: AttemptId) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE connector_watch SET passed = 1, places = '[]'
         WHERE NOT passed AND watch_id = (SELECT watch_id FROM attempt WHERE attempt_id = ?1)
           AND EXISTS (SELECT 1 FROM attempt a WHERE a.attempt_id = ?1 AND (a.kind = 'SEND'
                OR EXISTS (SELECT 1 FROM json_each(places) p
                     JOIN attempt sent ON sent.attempt_id = p.value
                     WHERE sent.item_type = a.item_type AND sent.item_id = a.item_id)))",
    )?
    .execute([attempt.0])
    .map(drop)
}

/// A connector whose refusals are counted.
struct Watched {
    id: WatchId,
    lane: LaneName,
    connector: String,
    limits: Limits,
    since: i64,
}

/// A refusal was written: pauses the lane if it makes a storm.
fn judge(c: &Connection, attempt: AttemptId, answer: &str, now: Us) -> rusqlite::Result<()> {
    let Some(watched) = watched(c, attempt)? else {
        return Ok(());
    };
    if belongs_to_storm(c, &watched, attempt)? {
        return Ok(());
    }
    let (connector, limits) = (watched.connector.as_str(), watched.limits);
    let canary = canary(c, Some(watched.id), now.0)?;
    if let Some(first) = canary.and_then(|canary| canary.failed()) {
        return begin(
            c,
            &watched,
            first,
            &canary_reason(connector, limits, answer),
            now,
        );
    }
    match streak(c, &watched)? {
        Some(first) => begin(
            c,
            &watched,
            first,
            &streak_reason(connector, limits, answer),
            now,
        ),
        None => Ok(()),
    }
}

fn watched(c: &Connection, attempt: AttemptId) -> rusqlite::Result<Option<Watched>> {
    c.prepare_cached(
        "SELECT w.watch_id, w.lane, w.connector, w.canary, w.streak, w.since
         FROM attempt a JOIN connector_watch w ON w.watch_id = a.watch_id WHERE a.attempt_id = ?1",
    )?
    .query_row([attempt.0], |row| {
        Ok(Watched {
            id: WatchId(row.get(0)?),
            lane: LaneName::new(row.get::<_, String>(1)?),
            connector: row.get(2)?,
            limits: Limits {
                canary: row.get(3)?,
                streak: row.get(4)?,
            },
            since: row.get(5)?,
        })
    })
    .optional()
}

/// Whether its lane is paused by a storm: what was under way meanwhile belongs to it.
fn belongs_to_storm(
    c: &Connection,
    watched: &Watched,
    attempt: AttemptId,
) -> rusqlite::Result<bool> {
    let storm: Option<Option<i64>> = c
        .prepare_cached("SELECT storm_id FROM lane_cursor WHERE lane = ?1")?
        .query_row([watched.lane.as_str()], |row| row.get(0))
        .optional()?;
    let Some(storm) = storm.flatten() else {
        return Ok(false);
    };
    c.prepare_cached(
        "UPDATE storm SET first_attempt = min(first_attempt, ?2)
         WHERE storm_id = ?1 AND watch_id = ?3",
    )?
    .execute(params![storm, attempt.0, watched.id.0])?;
    Ok(true)
}

/// The oldest refusal of a streak, if there is one.
fn streak(c: &Connection, watched: &Watched) -> rusqlite::Result<Option<AttemptId>> {
    let limits = watched.limits;
    if limits.streak == 0 {
        return Ok(None);
    }
    let oldest: Option<(i64, i64)> = c
        .prepare_cached(
            "SELECT attempt_id, turn_at FROM attempt INDEXED BY attempt_refused
             WHERE watch_id = ?1 AND attempt_id > ?2 AND state = 'REFUSED' AND NOT reopened
             ORDER BY attempt_id DESC LIMIT 1 OFFSET ?3",
        )?
        .query_row(
            params![watched.id.0, watched.since, limits.streak - 1],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((oldest, turn_at)) = oldest else {
        return Ok(None);
    };
    let most = limits.most_done_in_a_streak();
    let done: u32 = c
        .prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM attempt INDEXED BY attempt_turn
                 WHERE lane = ?1 AND turn_at > ?2 AND watch_id = ?3 AND kind = 'SEND'
                   AND state = 'DONE'
                 ORDER BY turn_at LIMIT ?4)",
        )?
        .query_row(
            params![watched.lane.as_str(), turn_at, watched.id.0, most + 1],
            |row| row.get(0),
        )?;
    Ok((done <= most).then_some(AttemptId(oldest)))
}

fn begin(
    c: &Connection,
    watched: &Watched,
    first: AttemptId,
    reason: &str,
    now: Us,
) -> rusqlite::Result<()> {
    let lane = watched.lane.as_str();
    c.prepare_cached(
        "INSERT INTO storm (lane, watch_id, reason, first_attempt, began_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![lane, watched.id.0, reason, first.0, now])?;
    let id = StormId(c.last_insert_rowid());
    c.prepare_cached("UPDATE lane_cursor SET storm_id = ?2 WHERE lane = ?1")?
        .execute(params![lane, id.0])?;
    let detail = format!("lane {lane}: {}", pause_reason(id, reason));
    let entry = Entry {
        action: "LANE_PAUSED",
        actor: actor::STORM,
        detail: &detail,
        ..Entry::default()
    };
    audit(c, now, &entry)
}

/// What has paused a lane, from this column on.
pub(crate) fn pause_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<StormPause>> {
    let id: Option<i64> = row.get(column)?;
    id.map(|id| {
        Ok(StormPause {
            id: StormId(id),
            reason: row.get(column + 1)?,
            since: row.get::<_, Us>(column + 2)?.0,
        })
    })
    .transpose()
}
