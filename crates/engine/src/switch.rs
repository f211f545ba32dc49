//! The engine as the API has it: this process's own while it leads, the leader's through the store while it
//! does not.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Start, Started, Unreachable};

use crate::handle::Handle;
use crate::standby::Standby;

#[derive(Clone, Debug)]
pub struct Switch {
    own: Arc<RwLock<Option<Handle>>>,
    /// None where nobody else can lead.
    others: Option<Standby>,
}

impl Switch {
    pub fn new(others: Option<Standby>) -> Self {
        let own = Arc::default();
        Self { own, others }
    }

    /// This process leads from here on, with this engine; or does no longer.
    pub fn set(&self, own: Option<Handle>) {
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
    }

    fn own(&self) -> Option<Handle> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        own.clone().filter(|own| !own.has_stopped())
    }

    fn others(&self) -> Result<&Standby, Unreachable> {
        let stopped = || Unreachable("it has stopped".to_owned());
        self.others.as_ref().ok_or_else(stopped)
    }
}

#[async_trait]
impl Engine for Switch {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        if let Some(own) = self.own() {
            match own.start(flows.clone()).await {
                // It has stopped in between, and starting a flow twice is harmless.
                Err(_) if own.has_stopped() => {}
                said => return said,
            }
        }
        self.others()?.start(flows).await
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        let until = Instant::now() + wait;
        if let Some(own) = self.own() {
            let view = own.view(id, wait).await;
            let is_over = !own.has_stopped() || self.others.is_none();
            match view {
                Ok(FlowView::Running { .. }) if !is_over => {}
                said => return said,
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        self.others()?.view(id, left).await
    }
}
