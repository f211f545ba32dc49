//! The gauges of what was accepted and is not planned yet. An alert goes by them, so they are seconds old.

use metrics::gauge;
use rust_decimal::prelude::ToPrimitive;
use tollgate_core::ports::{Store, StoreResult};
use tollgate_domains::payments;

pub(super) async fn look(store: &dyn Store) {
    if let Err(error) = look_at_all(store).await {
        tracing::warn!(%error, "accepted payments without a slot could not be counted");
    }
}

async fn look_at_all(store: &dyn Store) -> StoreResult<()> {
    let unplanned = store.unplanned(&payments::item_type()).await?;
    for (what, count) in [("request", unplanned.requests), ("line", unplanned.lines)] {
        gauge!("tollgate_unplanned", "what" => what).set(count.to_f64().unwrap_or(0.0));
    }
    let age = match unplanned.since {
        None => 0.0,
        Some(since) => store.now().await?.duration_since(since).as_secs_f64(),
    };
    gauge!("tollgate_unplanned_oldest_seconds").set(age.max(0.0));
    gauge!("tollgate_unplanned_failing").set(unplanned.failing.to_f64().unwrap_or(0.0));
    Ok(())
}
