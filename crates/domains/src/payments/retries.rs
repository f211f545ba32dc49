//! Trying accepted payments again until they are planned or refused. The requests in the store are the work list,
//! so what a crash has left is found by the next look, and two processes do not hurt: a try is begun once, and
//! planning a payment twice changes nothing.

use std::time::Duration;

use tollgate_core::ports::{FlowView, RequestView, Started, StoreResult};

use super::intake::{Intake, IntakeError, init_flow};
use super::{deferred, item, item_type};

/// One look handles this many requests at most, the longest due first.
const MAX_REQUESTS: u32 = 500;

impl Intake {
    /// Looks once at what is due. Returns how many tries were begun.
    pub async fn retry_due(&self) -> StoreResult<u32> {
        let due = self.store.requests_due(&item_type(), MAX_REQUESTS).await?;
        let mut begun = 0;
        for request in due {
            match self.look_at(request).await {
                Ok(true) => begun += 1,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "an accepted payment could not be checked"),
            }
        }
        Ok(begun)
    }

    /// A try that is known to have failed is followed by the next one; any other is asked about first.
    async fn look_at(&self, mut request: RequestView) -> Result<bool, IntakeError> {
        let name = item(&request.id);
        if !request.has_failed() {
            match self
                .engine
                .view(&init_flow(&request), Duration::ZERO)
                .await?
            {
                FlowView::Running { .. } => {
                    self.store.look_later(&name, request.tries).await?;
                    return Ok(false);
                }
                // Whoever accepted it died before the start, or the engine was away.
                FlowView::NotFound => {
                    self.store.look_later(&name, request.tries).await?;
                    return Ok(self.start_or_note(&request).await?.is_some());
                }
                FlowView::Failed { error } => {
                    let why = format!("its init flow failed: {error}");
                    return self.note(&request, &why).await.map(|()| false);
                }
                FlowView::Done { .. } => {}
            }
        }
        if !self.store.begin_try(&name, request.tries).await? {
            return Ok(false);
        }
        request.tries += 1;
        Ok(self.start_or_note(&request).await?.is_some())
    }

    /// Starts a request's current try; nothing if it cannot be started now.
    pub(super) async fn start_or_note(
        &self,
        request: &RequestView,
    ) -> Result<Option<Started>, IntakeError> {
        match self.start_try(request).await {
            Ok(started) => Ok(Some(started)),
            Err(error) => {
                self.note(request, &error.to_string()).await?;
                Ok(None)
            }
        }
    }

    async fn note(&self, request: &RequestView, why: &str) -> Result<(), IntakeError> {
        let name = item(&request.id);
        tracing::error!(item = %name, why, "an accepted payment could not be planned; it is tried again");
        deferred::count("request");
        let hash = &request.content_hash;
        self.store.try_failed(&name, hash, why).await?;
        Ok(())
    }
}
