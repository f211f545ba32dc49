//! The configured provider that charges invoices, its lane, and the sweep over what it should charge.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tollgate_config::{Downstream, InvoicesConfig};
use tollgate_core::actor;
use tollgate_core::ports::{Author, Connector, Store};
use tollgate_dispatch::{Every, Gate};
use tollgate_domains::invoices::{self, Billing, BillingError, ChecksInForce, Invoices};
use tollgate_downstream::HttpConnector;
use tollgate_operations::downstreams::connector;

use crate::downstreams::watches::Watch;

#[derive(Debug)]
pub(crate) struct Provider {
    connector: HttpConnector,
    watch: Watch,
}

impl Provider {
    /// Reads secrets and certificates; connects to nothing yet.
    pub(crate) fn connect(downstream: &Downstream) -> anyhow::Result<Self> {
        let named = downstream.provider()?;
        let watch = Watch::of(&named)?;
        let connector = connector(named)?;
        Ok(Self { connector, watch })
    }

    /// Creates its lane if there is none yet; what an operator has changed stays.
    pub(crate) async fn create_lane(&self, store: &dyn Store) -> anyhow::Result<()> {
        let lane = self.connector.lane();
        if store.lane(lane).await?.is_none() {
            let author = Author::new(actor::TOLLGATE, "the provider of invoices");
            store
                .change_lane(lane, invoices::default_lane(), author)
                .await?;
        }
        Ok(())
    }

    pub(crate) fn billing(&self, store: &Arc<dyn Store>) -> Billing {
        Billing::new(Arc::clone(store), self.connector.lane().clone())
    }

    /// The domain's view of it.
    pub(crate) async fn world(
        self,
        config: &InvoicesConfig,
        store: &Arc<dyn Store>,
        gate: &Arc<Gate>,
        checks: Arc<ChecksInForce>,
    ) -> anyhow::Result<Invoices> {
        let schedule = config.retry_schedule().context("invoices.ladder")?;
        let lane = self.connector.lane().clone();
        let sender = self.watch.sender(store, gate, self.connector).await?;
        let store = Arc::clone(store);
        Ok(Invoices::new(store, lane, sender, checks, schedule))
    }
}

/// Looks after every `pause` for outstanding invoices that are not scheduled, until told to stop.
pub(crate) async fn run_sweep(billing: Arc<Billing>, pause: Duration, stop: watch::Receiver<bool>) {
    let mut every = Every::new(pause, stop);
    every.pause().await;
    while every.once(sweep(&billing)).await {}
}

async fn sweep(billing: &Billing) {
    if let Err(error) = sweep_all(billing).await {
        tracing::warn!(%error, "the search for outstanding invoices without a planned charge failed");
    }
}

/// Page by page.
async fn sweep_all(billing: &Billing) -> Result<(), BillingError> {
    let (mut after, mut rescued) = (None, 0);
    loop {
        let swept = billing.sweep(after).await?;
        rescued += swept.rescued;
        after = swept.next;
        if after.is_none() {
            break;
        }
    }
    if rescued > 0 {
        tracing::warn!(
            rescued,
            "outstanding invoices had no planned charge and were scheduled again"
        );
    }
    Ok(())
}
