//! Tries accepted payments again until they are planned.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_dispatch::Every;
use tollgate_domains::payments::Intake;

/// How often to look for what is due.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(intake: Arc<Intake>, stop: watch::Receiver<bool>) {
    let mut every = Every::new(PAUSE, stop);
    while every.once(look(&intake)).await {}
}

async fn look(intake: &Intake) {
    match intake.retry_due().await {
        Ok(0) => {}
        Ok(tries) => tracing::info!(tries, "planning of accepted payments is retried"),
        Err(error) => tracing::warn!(%error, "accepted payments without a slot could not be read"),
    }
}
