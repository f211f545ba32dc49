//! The lane in force, as the hot path reads it (what people do with lanes is in `cold::lanes`); its plan, replans, and the
//! counters of its windows.

pub(crate) mod counters;
mod plans;
mod recount;
mod replan;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{Author, StoreResult};

use crate::cold::lanes::calendars;
use crate::cold::{lanes, settings};
use crate::postgres::connection::perform::perform;
use crate::postgres::connection::run::all;
use crate::postgres::connection::value::Us;
use crate::postgres::sends::storms;
use crate::sql::Dialogue;

/// The lane in force, inside a transaction that holds its plan or its cursor.
pub(super) async fn lane(
    c: &impl GenericClient,
    name: &LaneName,
) -> StoreResult<Option<LaneInForce>> {
    Ok(in_force(c, Some(name)).await?.pop())
}

/// One, or all in the order of their names.
pub(super) async fn in_force(
    c: &impl GenericClient,
    name: Option<&LaneName>,
) -> StoreResult<Vec<LaneInForce>> {
    const IN_FORCE: &str = "SELECT s.name, s.version, s.body, s.created_at, c.closed_until,
                c.closed_by, c.closed_why, k.body, st.storm_id, st.reason, st.began_at
         FROM lane_plan p
         CROSS JOIN LATERAL (SELECT name, version, body, created_at FROM setting
              WHERE kind = 'lane' AND name = p.lane ORDER BY version DESC LIMIT 1) s
         LEFT JOIN lane_cursor c ON c.lane = s.name
         LEFT JOIN storm st ON st.storm_id = c.storm_id
         LEFT JOIN LATERAL (SELECT body FROM setting
              WHERE kind = 'calendar' AND name = s.body::json ->> 'calendar'
              ORDER BY version DESC LIMIT 1) k ON true
         WHERE $1::text IS NULL OR p.lane = $1
         ORDER BY s.name";
    let rows = all(c, IN_FORCE, &[&name.map(LaneName::as_str)]).await?;
    rows.iter().map(lane_from).collect()
}

/// From name, version, body, creation, the closing (until when, by whom, why), the calendar's body and
/// the storm (which, why, since when), in this order.
pub(super) fn lane_from(row: &Row) -> StoreResult<LaneInForce> {
    let author = |by: String| Author::new(by, row.get::<_, Option<String>>(6).unwrap_or_default());
    let calendar = match row.get::<_, Option<&str>>(7) {
        Some(body) => Some(Arc::new(calendars::read(body)?)),
        None => None,
    };
    Ok(LaneInForce {
        name: LaneName::new(row.get::<_, String>(0)),
        version: row.get(1),
        lane: settings::parse(row.get(2))?,
        calendar,
        effective_at: row.get::<_, Us>(3).0 + HORIZON,
        closed_until: row.get::<_, Option<Us>>(4).map(|us| us.0),
        closed_by: row.get::<_, Option<String>>(5).map(author),
        storm: storms::pause_from(row, 8),
    })
}

/// The downstream asked for quiet.
pub(super) async fn close_for(
    c: &impl GenericClient,
    name: &LaneName,
    time: Duration,
) -> StoreResult<()> {
    let name = name.clone();
    let close = Dialogue::with(move |tx| async move {
        lanes::close_for(&tx, &name, time, None).await;
        Ok(())
    });
    perform(c, close).await
}

pub(super) async fn forget_pointers(c: &impl GenericClient, name: &LaneName) -> StoreResult<()> {
    let name = name.clone();
    let forget = Dialogue::with(move |tx| async move {
        let now = tx.now().await?;
        lanes::forget_pointers(&tx, &name, now).await;
        Ok(())
    });
    perform(c, forget).await
}
