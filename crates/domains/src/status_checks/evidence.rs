//! What a gateway's answer means for a payment of ours that is in doubt.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_core::actor;
use tollgate_core::flow::{Call, Policy, Step, StepError};
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::ports::{AWAITED, ActionResult, Author};

use super::World;
use super::rows::STORE_STEP;
use crate::payments;

/// The gateway names the very payment and says that it is completed: that is evidence. A payment that
/// is not in doubt, or not ours, stays as it is. The answer is whether the doubt is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NoteDone {
    pub check: FlowId,
    pub payment_id: String,
    /// The gateway's own.
    pub reference: Option<String>,
}

impl Step for NoteDone {
    const NAME: &'static str = "noteDone";
    const SHORT: bool = true;
    type Out = bool;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.payment_id)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, _: &Call) -> Result<bool, StepError> {
        let evidence = json!({
            "paymentId": self.payment_id, "status": "completed",
            "gatewayReference": self.reference, "statusCheck": self.check,
        });
        let item = payments::item(&ItemId::new(&self.payment_id));
        let evidence = Author::new(actor::STATUS_CHECK, evidence.to_string());
        match world.store.note_done(&item, evidence).await? {
            ActionResult::Yes => Ok(true),
            ActionResult::NoSuchItem => Ok(false),
            // It would be lost: nobody asks the gateway again by itself.
            ActionResult::Refused(why) if why == AWAITED => Err(StepError::retryable(why)),
            ActionResult::Refused(why) => {
                let (check, payment) = (&self.check, &self.payment_id);
                tracing::info!(%check, payment, why, "evidence that changes nothing");
                Ok(false)
            }
        }
    }
}
