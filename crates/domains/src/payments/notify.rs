//! The last step of a payment: its news are queued for whoever is told, as items of their own, and
//! it ends. Telling comes later and elsewhere: nothing about it can hold up a payment.

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::flow::{Call, ExecInput, Policy, Step, StepError};
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{Admission, AttemptView, NewAudit, NewItem, StoreResult};

use super::Payments;
use super::prepare::PaymentContext;
use super::status::{notified, rejected};
use crate::notifications::{self, Event, News};
use crate::steps::EXEC_STEP;

/// Queues the news, then ends the item: ACCEPTED → PROCESSING, or REJECTED as it is. Ended earlier, one whose
/// flow is lost would never be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendNotifications {
    pub input: ExecInput,
    pub event: Event,
}

impl Step for SendNotifications {
    const NAME: &'static str = "send_notifications";
    const SHORT: bool = true;
    type Out = bool;
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        EXEC_STEP
    }
    async fn run(&self, world: &Payments, call: &Call) -> Result<bool, StepError> {
        if !world.receivers.is_empty() {
            self.queue_news(world, call).await?;
        }
        let (item, run) = (&self.input.item, self.input.run);
        let status = match self.event {
            Event::Processing => notified(),
            Event::Rejected => rejected(),
        };
        Ok(world.store.finish(item, run, status).await?)
    }
}

impl SendNotifications {
    /// Queues the news; what cannot be queued is in the audit trail.
    async fn queue_news(&self, world: &Payments, call: &Call) -> Result<(), StepError> {
        let not_queued = match self.admit_news(world, call).await {
            Err(error) if error.retry => return Err(error),
            // Failing would only keep the payment from its end, or its refusal from being told at all.
            Err(error) => vec![error.message],
            Ok(not_queued) => not_queued,
        };
        for why in not_queued {
            let entry = NewAudit {
                item: Some(self.input.item.clone()),
                action: "NOT_NOTIFIED".to_owned(),
                actor: actor::PAYMENTS.to_owned(),
                detail: format!("{}: {why}", self.event.name()),
            };
            world.store.write_audit(entry).await?;
        }
        Ok(())
    }

    /// Admits one notification per receiver; the same ones again change nothing. The answer is why
    /// some were not.
    async fn admit_news(&self, world: &Payments, call: &Call) -> Result<Vec<String>, StepError> {
        let view = world.store.item(&self.input.item).await?;
        let attempts = view.map(|view| view.attempts).unwrap_or_default();
        let at = self.happened_at(world, &attempts).await?;
        let items = self.news(world, call, &attempts, at)?;
        let admitted = world
            .store
            .admit(&notifications::item_type(), items)
            .await?;
        Ok(admitted.into_iter().filter_map(not_queued).collect())
    }

    fn news(
        &self,
        world: &Payments,
        call: &Call,
        attempts: &[AttemptView],
        at: Timestamp,
    ) -> Result<Vec<NewItem>, StepError> {
        let bad = |e| StepError::last(format!("the context cannot be read: {e}"));
        let context = PaymentContext::read(&self.input.context_json).map_err(bad)?;
        let news = News {
            event: self.event,
            at,
            payment: &self.input.item,
            reopened: times_reopened(attempts),
            payment_id: &context.payment_id,
            amount: &context.amount,
            currency: &context.currency,
            gateway: &context.gateway,
            reference: context.reference.as_deref(),
        };
        let items = world
            .receivers
            .iter()
            .map(|to| news.item(to, &call.flow_id));
        items.collect::<Result<_, _>>().map_err(bad)
    }

    /// When the bank's answer was written down, however often this step runs.
    async fn happened_at(
        &self,
        world: &Payments,
        attempts: &[AttemptView],
    ) -> StoreResult<Timestamp> {
        let is_it = |attempt: &&AttemptView| match self.event {
            Event::Processing => attempt.state == AttemptState::Done,
            Event::Rejected => matches!(
                attempt.state,
                AttemptState::Refused | AttemptState::Declined
            ),
        };
        let answer = attempts.iter().rfind(is_it);
        match answer.and_then(|answer| answer.settled_at) {
            Some(at) => Ok(at),
            None => world.store.now().await,
        }
    }
}

/// How often the payment was refused and reopened.
pub fn times_reopened(attempts: &[AttemptView]) -> usize {
    let is_undone = |attempt: &&AttemptView| attempt.reopened;
    attempts.iter().filter(is_undone).count()
}

fn not_queued(admission: Admission) -> Option<String> {
    match admission {
        Admission::New(_) | Admission::Repeat(_) | Admission::Archived | Admission::Erased => None,
        Admission::Cancelled => Some("it was cancelled".to_owned()),
        Admission::Conflict => Some("its id is already used with different content".to_owned()),
        Admission::Refused(why) | Admission::RefusedBy { message: why, .. } => Some(why),
    }
}
