//! The gauges of events.

use metrics::gauge;
use rust_decimal::prelude::ToPrimitive;
use tollgate_core::ports::{OutboxView, Store, StoreResult};

pub(super) async fn look(store: &dyn Store) {
    if let Err(error) = look_at(store).await {
        tracing::warn!(%error, "events could not be measured");
    }
}

/// Also while events are off: a gauge that is not set again stays where it was.
async fn look_at(store: &dyn Store) -> StoreResult<()> {
    let outbox = store.outbox().await?;
    let now = store.now().await?;
    let waits = outbox.oldest.map(|at| now.duration_since(at).as_secs_f64());
    gauge!("tollgate_events_backlog").set(outbox.backlog.to_f64().unwrap_or(0.0));
    gauge!("tollgate_events_oldest_age_seconds").set(waits.unwrap_or(0.0).max(0.0));
    let in_trouble = u8::from(is_in_trouble(&outbox));
    gauge!("tollgate_events_in_trouble").set(f64::from(in_trouble));
    Ok(())
}

/// The trouble with events that are off is over when no process would publish them.
fn is_in_trouble(outbox: &OutboxView) -> bool {
    outbox.trouble.is_some() && (outbox.is_on || outbox.owner.is_some())
}

#[cfg(test)]
mod tests {
    use tollgate_core::Timestamp;
    use tollgate_core::ports::OutboxTrouble;

    use super::*;

    #[test]
    fn events_that_are_off_are_in_trouble_while_a_process_would_publish_them() {
        let of = |is_on, owner: Option<&str>, is_troubled: bool| OutboxView {
            is_on,
            backlog: 0,
            is_capped: false,
            oldest: None,
            owner: owner.map(str::to_owned),
            published: 0,
            last_published_at: None,
            trouble: is_troubled.then(|| OutboxTrouble {
                what: "no broker".into(),
                at: Timestamp::UNIX_EPOCH,
            }),
            difference: None,
        };
        assert!(is_in_trouble(&of(true, None, true)));
        assert!(is_in_trouble(&of(false, Some("a"), true)));
        assert!(!is_in_trouble(&of(false, None, true)), "it has ended");
        assert!(!is_in_trouble(&of(true, Some("a"), false)));
    }
}
