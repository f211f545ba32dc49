//! Counting a lane's windows anew from the slots of what waits or is under way.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::actor;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{Author, Recounted};

use super::replan::write_audit;
use crate::sqlite::connection::value::Us;

/// Windows ahead whose counter is not what lies in them: window, counter, slots.
pub(super) struct Differing {
    generation: i64,
    pub(super) windows: Vec<(Us, i64, i64)>,
}

/// `None` while a replan is open.
pub(super) fn differing(
    c: &Connection,
    lane: &LaneName,
    now: Us,
) -> rusqlite::Result<Option<Differing>> {
    let generation: Option<i64> = c
        .prepare_cached(
            "SELECT generation FROM lane_plan WHERE lane = ?1 AND replan_since IS NULL",
        )?
        .query_row([lane.as_str()], |row| row.get(0))
        .optional()?;
    let Some(generation) = generation else {
        return Ok(None);
    };
    let windows = c
        .prepare_cached(
            "WITH held AS (
                 SELECT window_start, count(*) AS n
                 FROM (SELECT window_start, generation FROM item_queue INDEXED BY item_queue_ready
                       WHERE lane = ?1 AND queue_status = 'READY'
                       UNION ALL
                       SELECT window_start, generation FROM item_queue INDEXED BY item_queue_held
                       WHERE lane = ?1 AND queue_status = 'HELD'
                       UNION ALL
                       SELECT window_start, generation FROM item_queue INDEXED BY item_queue_claimed
                       WHERE lane = ?1 AND queue_status = 'CLAIMED'
                       UNION ALL
                       SELECT window_start, generation FROM item_queue INDEXED BY item_queue_running
                       WHERE lane = ?1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL) q
                 WHERE window_start > ?3 AND generation = ?2
                 GROUP BY window_start
             ), counted AS (
                 SELECT window_start, used FROM lane_window
                 WHERE lane = ?1 AND generation = ?2 AND window_start > ?3
             )
             SELECT window_start, coalesce(used, 0), coalesce(n, 0)
             FROM held FULL JOIN counted USING (window_start)
             WHERE coalesce(used, 0) <> coalesce(n, 0)",
        )?
        .query_map(params![lane.as_str(), generation, now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(Differing {
        generation,
        windows,
    }))
}

/// Looked for again where nothing else is written.
pub(super) fn recount(c: &Connection, lane: &LaneName, now: Us) -> rusqlite::Result<Recounted> {
    let Some(Differing {
        generation,
        windows,
    }) = differing(c, lane, now)?
    else {
        return Ok(Recounted::default());
    };
    let mut recounted = Recounted::default();
    for (window, used, held) in windows {
        recounted.add(used, held);
        c.prepare_cached(
            "INSERT INTO lane_window (lane, generation, window_start, used) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = excluded.used",
        )?
        .execute(params![lane.as_str(), generation, window, held])?;
    }
    if recounted.windows > 0 {
        super::forget_pointers(c, lane, now)?;
        let author = Author::new(actor::RECONCILIATION, "counters differed from slots");
        write_audit(
            c,
            "RECOUNTED",
            &author,
            &format!("lane {lane}: {recounted}"),
            now,
        )?;
    }
    Ok(recounted)
}
