//! Refusal storms: the canaries of connectors, the streaks of refusals, and what they have stopped.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{AttemptId, Item, ItemId, ItemType, LaneName, StormId, WatchId};
use tollgate_core::outcome::{AttemptState, Outcome};
use tollgate_core::ports::{
    NewWatch, Page, RefusedItem, Settlement, StoreResult, Storm, StormPause, Storms, Suspicion,
    Turn, TurnBlock, TurnsWanted, pause_reason, rows_needed,
};
use tollgate_core::storm::{Canary, Limits, MOST_SCANNED, Place, canary_reason, streak_reason};

use super::SqliteStore;
use super::accounts::audit;
use super::records::money_from;
use super::value::{Us, word};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Storms for SqliteStore {
    async fn watch(&self, watch: NewWatch) -> StoreResult<WatchId> {
        let write = move |c: &Connection| register(c, &watch);
        self.writer.write(Urgency::Normal, write).await
    }

    async fn storms(&self, limit: u32) -> StoreResult<Vec<Storm>> {
        self.readers.read(move |c| storms(c, None, limit)).await
    }

    async fn storm(&self, id: StormId) -> StoreResult<Option<Storm>> {
        let found = self.readers.read(move |c| storms(c, Some(id), 1)).await?;
        Ok(found.into_iter().next())
    }

    async fn refused_in(
        &self,
        id: StormId,
        item_type: &ItemType,
        after: Option<AttemptId>,
        limit: u32,
    ) -> StoreResult<Page<RefusedItem, AttemptId>> {
        let item_type = item_type.clone();
        let read = move |c: &Connection| refused_in(c, id, &item_type, after, limit);
        self.readers.read(read).await
    }

    async fn suspicion(&self, item: &Item) -> StoreResult<Suspicion> {
        let (item, now) = (item.clone(), self.clock.now());
        self.readers.read(move |c| suspicion(c, &item, now)).await
    }
}

fn register(c: &Connection, watch: &NewWatch) -> rusqlite::Result<WatchId> {
    let (lane, connector) = (watch.lane.as_str(), watch.connector.as_str());
    let last: Option<(i64, String)> = c
        .prepare_cached(
            "SELECT watch_id, digest FROM connector_watch WHERE lane = ?1 AND connector = ?2
             ORDER BY watch_id DESC LIMIT 1",
        )?
        .query_row([lane, connector], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((id, _)) = last.filter(|(_, digest)| *digest == watch.digest) {
        return Ok(WatchId(id));
    }
    c.prepare_cached(
        "INSERT INTO connector_watch (lane, connector, digest, canary, streak, passed, places, since)
         VALUES (?1, ?2, ?3, ?4, ?5, ?4 = 0, '[]', 0)",
    )?
    .execute(params![
        lane,
        connector,
        watch.digest,
        watch.limits.canary,
        watch.limits.streak
    ])?;
    Ok(WatchId(c.last_insert_rowid()))
}

/// The canary that is on.
pub(super) fn canary(
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
pub(super) fn take_places(
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
pub(super) fn heard(c: &Connection, s: &Settlement, now: Us) -> rusqlite::Result<()> {
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
            "SELECT count(*) FROM (SELECT 1 FROM send_log l
                 JOIN attempt a ON a.attempt_id = l.attempt_id
                 WHERE l.lane = ?1 AND l.turn_at > ?2 AND a.watch_id = ?3 AND a.kind = 'SEND'
                   AND a.state = 'DONE'
                 ORDER BY l.turn_at LIMIT ?4)",
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
pub(super) fn pause_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<StormPause>> {
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

fn storms(c: &Connection, id: Option<StormId>, limit: u32) -> rusqlite::Result<Vec<Storm>> {
    c.prepare_cached(
        "SELECT s.storm_id, s.lane, w.connector, s.reason, s.began_at, s.lifted_at
         FROM storm s JOIN connector_watch w ON w.watch_id = s.watch_id
         WHERE ?1 IS NULL OR s.storm_id = ?1
         ORDER BY s.storm_id DESC LIMIT ?2",
    )?
    .query_map(params![id.map(|id| id.0), limit], |row| {
        Ok(Storm {
            id: StormId(row.get(0)?),
            lane: LaneName::new(row.get::<_, String>(1)?),
            connector: row.get(2)?,
            reason: row.get(3)?,
            since: row.get::<_, Us>(4)?.0,
            lifted_at: row.get::<_, Option<Us>>(5)?.map(|us| us.0),
        })
    })?
    .collect()
}

fn refused_in(
    c: &Connection,
    id: StormId,
    item_type: &ItemType,
    after: Option<AttemptId>,
    limit: u32,
) -> rusqlite::Result<Page<RefusedItem, AttemptId>> {
    let asked = rows_needed(limit, false);
    let after = after.map_or(0, |after| after.0);
    let rows = c
        .prepare_cached(
            "SELECT a.item_id, a.attempt_id, r.amount_minor, r.currency
             FROM storm s
             JOIN attempt a ON a.watch_id = s.watch_id AND a.state = 'REFUSED' AND NOT a.reopened
                  AND a.attempt_id >= s.first_attempt
                  AND (s.last_attempt IS NULL OR a.attempt_id <= s.last_attempt)
             JOIN record r ON r.item_type = a.item_type AND r.item_id = a.item_id
             WHERE s.storm_id = ?1 AND a.attempt_id > ?2 AND a.item_type = ?3
             ORDER BY a.attempt_id LIMIT ?4",
        )?
        .query_map(
            params![id.0, after, item_type.as_str(), asked],
            refused_from,
        )?
        .collect::<rusqlite::Result<_>>()?;
    let key = |row: &RefusedItem| row.attempt;
    Ok(Page::of(rows, asked, limit, |_| true, key))
}

fn refused_from(row: &Row<'_>) -> rusqlite::Result<RefusedItem> {
    Ok(RefusedItem {
        id: ItemId::new(row.get::<_, String>(0)?),
        attempt: AttemptId(row.get(1)?),
        money: money_from(row, 2)?,
    })
}

fn suspicion(c: &Connection, item: &Item, now: Timestamp) -> rusqlite::Result<Suspicion> {
    let last: Option<(i64, Us, Us, String, Limits, bool)> = c
        .prepare_cached(
            "SELECT a.watch_id, a.turn_at, a.settled_at, a.lane, w.canary, w.streak,
                    EXISTS (SELECT 1 FROM lane_cursor k
                            WHERE k.lane = a.lane AND k.storm_id IS NOT NULL)
             FROM attempt a JOIN connector_watch w ON w.watch_id = a.watch_id
             WHERE a.item_type = ?1 AND a.item_id = ?2 AND a.state = 'REFUSED'
             ORDER BY a.attempt_id DESC LIMIT 1",
        )?
        .query_row([item.item_type.as_str(), item.id.as_str()], |row| {
            let limits = Limits {
                canary: row.get(4)?,
                streak: row.get(5)?,
            };
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                limits,
                row.get(6)?,
            ))
        })
        .optional()?;
    let Some((watch, turn_at, settled_at, lane, limits, in_storm)) = last else {
        return Ok(Suspicion::None);
    };
    if limits.are_off() {
        return Ok(Suspicion::None);
    }
    if in_storm {
        return Ok(Suspicion::Storm);
    }
    let accepted_since: bool = c
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM (SELECT attempt_id FROM send_log
                 WHERE lane = ?1 AND turn_at > ?2 ORDER BY turn_at LIMIT ?4) l
             JOIN attempt a ON a.attempt_id = l.attempt_id
             WHERE a.watch_id = ?3 AND a.kind = 'SEND' AND a.state = 'DONE')",
        )?
        .query_row(params![lane, turn_at, watch, MOST_SCANNED], |row| {
            row.get(0)
        })?;
    Ok(Suspicion::of(accepted_since, settled_at.0, now))
}
