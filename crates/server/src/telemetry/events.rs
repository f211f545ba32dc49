//! The gauges of events.

use metrics::gauge;
use rust_decimal::prelude::ToPrimitive;
use tollgate_core::ports::{Store, StoreResult};

pub(super) async fn look(store: &dyn Store) {
    if let Err(error) = look_at(store).await {
        tracing::warn!(%error, "events could not be measured");
    }
}

/// Nothing is shown of a store without events.
async fn look_at(store: &dyn Store) -> StoreResult<()> {
    let outbox = store.outbox().await?;
    if !outbox.is_on {
        return Ok(());
    }
    let now = store.now().await?;
    let waits = outbox.oldest.map(|at| now.duration_since(at).as_secs_f64());
    gauge!("tollgate_events_backlog").set(outbox.backlog.to_f64().unwrap_or(0.0));
    gauge!("tollgate_events_oldest_age_seconds").set(waits.unwrap_or(0.0).max(0.0));
    let in_trouble = u8::from(outbox.trouble.is_some());
    gauge!("tollgate_events_in_trouble").set(f64::from(in_trouble));
    Ok(())
}
