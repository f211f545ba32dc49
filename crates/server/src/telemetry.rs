//! Metrics: the one recorder of the process, and the gauges of every lane.

mod events;
mod feeds;
mod log;
mod names;
mod traces;
mod unplanned;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use tokio::sync::watch;
use tollgate_core::id::ItemType;
use tollgate_core::lane_in_force::{LaneInForce, LaneState};
use tollgate_core::ports::{Store, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::{Every, Forecaster};
use tollgate_domains::{invoices, payments};
use tollgate_operations::item_types;
use tollgate_operations::write_check::WriteCheck;

pub use log::Log;

/// Rates and fills are told of the last and of the next minute.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// How often a lane is looked at.
const PAUSE: Duration = Duration::from_secs(30);
/// How often the store is looked at.
const STORE_PAUSE: Duration = Duration::from_secs(5);
const FOLD_EVERY: Duration = Duration::from_secs(5);
const MOST_WINDOWS: u32 = 100;

const SECONDS: [f64; 12] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];
const LATENESS: [f64; 9] = [0.0005, 0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02, 0.05];
const WINDOWS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

/// Installs the recorder the first time, and hands it out.
pub(crate) fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let buckets = [
            (
                "rate_limiter_slot_assignment_duration_seconds",
                &SECONDS[..],
            ),
            ("rate_limiter_window_lookahead_depth", &WINDOWS[..]),
            ("tollgate_turn_lateness_seconds", &LATENESS[..]),
            ("dispatch_cycle_duration_seconds", &SECONDS[..]),
        ];
        let builder = buckets
            .iter()
            .fold(PrometheusBuilder::new(), |builder, (name, of)| {
                let matcher = Matcher::Full((*name).to_owned());
                builder
                    .set_buckets_for_metric(matcher, of)
                    .unwrap_or_default()
            });
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // In a process with a recorder of its own, that one stays.
        let _ = metrics::set_global_recorder(recorder);
        names::describe();
        handle
    })
}

/// Folds what histograms have recorded into their buckets. Until then every single value is kept: a
/// process that nobody scrapes would grow with each payment.
pub(crate) async fn fold_histograms(stop: watch::Receiver<bool>) {
    let mut every = Every::new(FOLD_EVERY, stop);
    while every.once(async { recorder().run_upkeep() }).await {}
}

/// Keeps the gauges of the store up to date until told to stop.
pub(crate) async fn watch_store(
    store: Arc<dyn Store>,
    writes: Arc<WriteCheck>,
    stop: watch::Receiver<bool>,
) {
    let mut every = Every::new(STORE_PAUSE, stop);
    let mut feeds = BTreeSet::new();
    while every
        .once(look_at_store(&*store, &writes, &mut feeds))
        .await
    {}
}

async fn look_at_store(store: &dyn Store, writes: &WriteCheck, feeds: &mut BTreeSet<String>) {
    let connections = store.connections();
    let set = |name: &'static str, value: usize| gauge!(name).set(value.to_f64().unwrap_or(0.0));
    set("tollgate_store_connections_max", connections.most);
    set("tollgate_store_connections_in_use", connections.in_use);
    set("tollgate_store_waiting", connections.waiting);
    let is_writable = writes.trouble().await.is_none();
    set("tollgate_store_writable", usize::from(is_writable));
    unplanned::look(store).await;
    feeds::look(store, feeds).await;
    events::look(store).await;
}

/// Keeps the gauges of all lanes up to date until told to stop.
pub(crate) async fn watch_lanes(
    store: Arc<dyn Store>,
    forecaster: Arc<Forecaster>,
    margin: Decimal,
    stop: watch::Receiver<bool>,
) {
    let mut every = Every::new(PAUSE, stop);
    let mut currencies = BTreeSet::new();
    let looked = Looked {
        store: &*store,
        forecaster: &forecaster,
        margin,
    };
    while every.once(look(&looked, &mut currencies)).await {}
}

struct Looked<'a> {
    store: &'a dyn Store,
    forecaster: &'a Forecaster,
    margin: Decimal,
}

async fn look(looked: &Looked<'_>, currencies: &mut BTreeSet<String>) {
    if let Err(error) = look_at_all(looked, currencies).await {
        tracing::warn!(%error, "lanes could not be measured");
    }
}

async fn look_at_all(looked: &Looked<'_>, currencies: &mut BTreeSet<String>) -> StoreResult<()> {
    let store = looked.store;
    let now = store.now().await?;
    for item_type in [payments::item_type(), invoices::item_type()] {
        look_at_doubts(store, now, &item_type, currencies).await?;
    }
    look_at_queue(store).await?;
    let running = store.bulks_running(&payments::item_type()).await?;
    gauge!("tollgate_bulks_running").set(running.to_f64().unwrap_or(0.0));
    for lane in store.lanes().await? {
        // What cannot be counted in time on one lane says nothing about the others.
        if let Err(error) = look_at_lane(looked, &lane, now).await {
            tracing::warn!(lane = %lane.name, %error, "the lane could not be measured");
        }
    }
    Ok(())
}

async fn look_at_lane(looked: &Looked<'_>, lane: &LaneInForce, now: Timestamp) -> StoreResult<()> {
    let store = looked.store;
    let name = lane.name.to_string();
    let set = |gauge: &'static str, value: f64| gauge!(gauge, "lane" => name.clone()).set(value);
    let is_open = matches!(lane.state(now), LaneState::Open { .. });
    set("tollgate_lane_open", f64::from(u8::from(is_open)));
    let in_storm = lane.storm.is_some();
    set("tollgate_lane_refusal_storm", f64::from(u8::from(in_storm)));
    set(
        "tollgate_lane_limit_per_second",
        lane.lane.max_per_second.to_f64().unwrap_or(0.0),
    );
    let Some(forecast) = looked.forecaster.lane_as_in(lane).await? else {
        return Ok(());
    };
    let number = |count: u64| count.to_f64().unwrap_or(0.0);
    set("tollgate_lane_waiting", number(forecast.waiting));
    set("tollgate_lane_overdue", number(forecast.overdue));
    let deadlines = looked.forecaster.late(&lane.name).await?;
    set(
        "tollgate_lane_planned_late",
        number(deadlines.count + deadlines.untold),
    );
    let drain = match &forecast.drained {
        Ok(at) => at.map_or(0.0, |at| at.duration_since(now).as_secs_f64().max(0.0)),
        Err(_) => f64::INFINITY,
    };
    set("tollgate_lane_drain_seconds", drain);
    set(
        "tollgate_lane_slot_to_turn_seconds",
        forecast.table.way.as_secs_f64(),
    );
    set(
        "tollgate_lane_plan_fill_ratio",
        fill(looked, lane, now).await?,
    );
    let last_minute = store.certificate(&lane.name, now - MINUTE, now).await?;
    let allowed = lane.lane.max_per_second.to_f64().unwrap_or(1.0) * 60.0;
    let sends = last_minute.sends.to_f64().unwrap_or(0.0);
    set("tollgate_lane_utilisation_ratio", sends / allowed);
    Ok(())
}

/// What is in doubt, and for how long.
async fn look_at_doubts(
    store: &dyn Store,
    now: Timestamp,
    item_type: &ItemType,
    currencies: &mut BTreeSet<String>,
) -> StoreResult<()> {
    let at_risk = store.at_risk(item_type).await?;
    let count: u64 = at_risk.iter().map(|risk| risk.count).sum();
    gauge!("tollgate_in_doubt", "item_type" => item_type.to_string())
        .set(count.to_f64().unwrap_or(0.0));
    let oldest = at_risk.iter().map(|risk| risk.since).min();
    let age = oldest.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
    gauge!("tollgate_in_doubt_oldest_seconds", "item_type" => item_type.to_string()).set(age);
    // A currency that is not at risk any more is told so.
    currencies.extend(at_risk.iter().map(|risk| risk.currency.clone()));
    for currency in currencies.iter() {
        let risk = at_risk.iter().find(|risk| risk.currency == *currency);
        let amount = risk.map_or(0, |risk| risk.amount_minor);
        let labels = [
            ("item_type", item_type.to_string()),
            ("currency", currency.clone()),
        ];
        gauge!("tollgate_in_doubt_minor_units", &labels).set(amount.to_f64().unwrap_or(0.0));
    }
    Ok(())
}

async fn look_at_queue(store: &dyn Store) -> StoreResult<()> {
    for (item_type, _) in item_types() {
        for (status, depth) in store.depths(&item_type).await? {
            let labels = [
                ("item_type", item_type.to_string()),
                ("status", status.as_str().to_owned()),
            ];
            gauge!("dispatch_queue_depth", &labels).set(depth.to_f64().unwrap_or(0.0));
        }
    }
    Ok(())
}

async fn fill(looked: &Looked<'_>, lane: &LaneInForce, now: Timestamp) -> StoreResult<f64> {
    let (store, windows) = (looked.store, lane.windows(looked.margin));
    let mut window = windows.end_of(windows.start_of(now));
    let given = store.windows(&lane.name, window, MOST_WINDOWS).await?;
    let (mut used, mut capacity) = (0.0, 0.0);
    let end = now + MINUTE;
    loop {
        let here = given.iter().find(|given| given.start == window);
        used += here.map_or(0.0, |given| given.used.into());
        capacity += f64::from(windows.capacity(window, window));
        window = windows.end_of(window);
        if window >= end {
            break;
        }
    }
    Ok(if capacity > 0.0 { used / capacity } else { 0.0 })
}
