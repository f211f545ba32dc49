//! The exec flow of a notification: one step that sends and ends. What must wait has gone back to
//! the queue before the flow ends; what was tried for days in vain is DEAD, and can be replayed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::id::Item;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ItemView, Request, StatusMove, Store, Suspicion, Then};
use tollgate_dispatch::{Executes, IfDone, Inline, Job, Moves, Sender, Sent};

use super::news::{Event, NewsContext};
use super::patience::{PAUSES, is_enough, tried_since};
use super::{DELIVERED, Notifications, PENDING, REFUSED, WITHDRAWN};
use crate::steps::SEND_STEP;

/// At most this many entries of an item's trail are read to learn whether it was replayed: its
/// tries are fewer.
const MOST_AUDITED: u32 = 500;
const STORM_IS_POSSIBLE: &str = "a refusal storm is possible";
const STORM_LASTS: &str = "a refusal storm has paused the lane";

/// While a storm lasts, the payment is looked at so often at least.
const LONGEST_LOOK: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub struct NotificationExecFlow;

impl Flow for NotificationExecFlow {
    const NAME: &'static str = "NotificationExecWorkflow";
    type In = ExecInput;
    type Out = Delivery;

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        Ok(End::Done(ctx.step(Deliver { input }).await?))
    }
}

impl Executes for Notifications {
    const BATCH_FLOW: &'static str = "NotificationExecBatchWorkflow";
    const BATCH_STEP: &'static str = "deliver_several";

    fn store(&self) -> &dyn Store {
        &*self.store
    }
    /// All senders of a process share its gate.
    async fn settled(&self) {
        if let Some(sender) = self.receivers.values().next() {
            sender.settled().await;
        }
    }
    async fn fenced(&self) -> String {
        match self.receivers.values().next() {
            Some(sender) => sender.fenced().await,
            None => std::future::pending().await,
        }
    }
    async fn execute(ctx: Inline<Self>, input: ExecInput) -> Result<(), FlowError> {
        NotificationExecFlow::run(ctx, input).await.map(drop)
    }
}

/// What became of the notification for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    Delivered,
    /// The receiver wants no more of it; it has ended.
    Refused(String),
    /// It comes back as its next run.
    Waits(String),
    /// What it announces was undone; it has ended.
    Withdrawn(String),
    /// It is DEAD.
    GivenUp(String),
    /// Another run owns it.
    Superseded(String),
}

/// Posts the notification to its receiver, and ends it when it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Deliver {
    pub input: ExecInput,
}

impl Step for Deliver {
    const NAME: &'static str = "deliver";
    type Out = Delivery;
    type World = Notifications;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        SEND_STEP
    }
    async fn after_cut_off(world: &Notifications) {
        world.settled().await;
    }
    async fn run(&self, world: &Notifications, _: &Call) -> Result<Delivery, StepError> {
        let context: NewsContext = serde_json::from_str(&self.input.context_json)
            .map_err(|e| StepError::last(format!("the context cannot be read: {e}")))?;
        if let Some(payment) = &context.refused
            && let Some(told) = self.wait_out_storm(world, payment).await?
        {
            return Ok(told);
        }
        if self.input.run > 1
            && let Some(why) = self.enough(world).await?
        {
            return self.give_up(world, why).await;
        }
        match world.receivers.get(&context.receiver) {
            Some(sender) => self.deliver(world, sender, context).await,
            None => self.wait_for_receiver(world, &context.receiver).await,
        }
    }
}

impl Deliver {
    async fn deliver(
        &self,
        world: &Notifications,
        sender: &Sender,
        context: NewsContext,
    ) -> Result<Delivery, StepError> {
        let (item, run) = (&self.input.item, self.input.run);
        let job = Job {
            item: item.clone(),
            run,
            request: Request {
                reference: item.id.to_string(),
                idempotency_key: item.id.to_string(),
                body_json: context.body,
                sent_by: None,
            },
            moves: moves(),
            accounts: vec![],
            refused_then: Then::Finish,
            if_done: Some(IfDone::always(moves().done)),
        };
        Ok(match sender.send(&job).await? {
            Sent::Ended(_) => Delivery::Delivered,
            // By an earlier run, which did not own it any more.
            Sent::Done(_) => {
                let finished = world.store.finish(item, run, moves().done);
                if_ours(finished.await?, Delivery::Delivered)
            }
            Sent::Refused(why) | Sent::Declined(why) => Delivery::Refused(why),
            Sent::Requeued(why) => Delivery::Waits(why),
            Sent::Held => Delivery::Waits("held".to_owned()),
            Sent::Superseded(why) => Delivery::Superseded(why),
        })
    }

    /// A refusal that may be part of a storm is not announced yet, and one that was reopened never.
    async fn wait_out_storm(
        &self,
        world: &Notifications,
        payment: &Item,
    ) -> Result<Option<Delivery>, StepError> {
        let (item, run) = (&self.input.item, self.input.run);
        let view = world.store.item(payment).await?;
        if let Some(view) = view.filter(|view| view.status != Event::Rejected.status()) {
            let why = format!("the payment is {} now", view.status);
            let withdrawn = StatusMove::new(&[PENDING], WITHDRAWN);
            let finished = world.store.finish(item, run, withdrawn).await?;
            return Ok(Some(if_ours(finished, Delivery::Withdrawn(why))));
        }
        let grown = PAUSES.pause_after(run);
        let (pause, why) = match world.store.suspicion(payment).await? {
            Suspicion::None => return Ok(None),
            Suspicion::Possible(left) => (grown.min(left), STORM_IS_POSSIBLE),
            Suspicion::Storm => (grown.min(LONGEST_LOOK), STORM_LASTS),
        };
        let put_back = world.store.put_back(item, run, pause, why).await?;
        Ok(Some(if_ours(put_back, Delivery::Waits(why.to_owned()))))
    }

    /// The receiver may come back into the configuration; until then no other gets it.
    async fn wait_for_receiver(
        &self,
        world: &Notifications,
        place: &str,
    ) -> Result<Delivery, StepError> {
        let why = format!("its receiver {place} is no longer in downstream.notifications.urls");
        let (item, run) = (&self.input.item, self.input.run);
        let pause = PAUSES.pause_after(run);
        let put_back = world.store.put_back(item, run, pause, &why).await?;
        Ok(if_ours(put_back, Delivery::Waits(why)))
    }

    /// Why it is not tried any more.
    async fn enough(&self, world: &Notifications) -> Result<Option<String>, StepError> {
        let (item, run) = (&self.input.item, self.input.run);
        let now = world.store.now().await?;
        let view = world.store.item(item).await?;
        // One that has waited out a storm has not been tried. A receiver that cannot be reached has.
        let is_tried = |view: &ItemView| {
            let why = view.last_error.as_deref().unwrap_or_default();
            !view.attempts.is_empty() || ![STORM_IS_POSSIBLE, STORM_LASTS].contains(&why)
        };
        let tried = view.filter(is_tried);
        let Some(view) = tried.filter(|view| is_enough(run, view.created_at, now)) else {
            return Ok(None);
        };
        let audit = world.store.audit(Some(item), MOST_AUDITED).await?;
        let since = tried_since(view.created_at, &audit, now);
        let last = view.last_error.unwrap_or_default();
        Ok(is_enough(run, since, now)
            .then(|| format!("given up after three days of retries: {last}")))
    }

    async fn give_up(&self, world: &Notifications, why: String) -> Result<Delivery, StepError> {
        /// It is not started again: DEAD at once, with the reason in its trail.
        const NO_MORE_RETRIES: u32 = 0;
        let (item, run) = (&self.input.item, self.input.run);
        let dead = world
            .store
            .restart_orphaned(item, run, &why, Duration::ZERO, NO_MORE_RETRIES);
        if dead.await? {
            return Ok(Delivery::GivenUp(why));
        }
        let view = world.store.item(item).await?;
        match view {
            Some(view) if view.run == run && view.queue_status == QueueStatus::Claimed => {
                Err(StepError::retryable("its start is not recorded yet"))
            }
            _ => Ok(not_ours()),
        }
    }
}

/// What may have arrived is told again, and nothing is at risk: no notification is ever in doubt.
fn moves() -> Moves {
    Moves {
        done: StatusMove::new(&[PENDING], DELIVERED),
        refused: StatusMove::new(&[PENDING], REFUSED),
        in_doubt: StatusMove::new(&[], PENDING),
        not_done: StatusMove::new(&[], PENDING),
    }
}

fn if_ours(owned: bool, told: Delivery) -> Delivery {
    if owned { told } else { not_ours() }
}

fn not_ours() -> Delivery {
    Delivery::Superseded("another run owns the item".to_owned())
}
