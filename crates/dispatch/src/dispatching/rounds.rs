//! The dispatcher as a flow, for an engine that starts it by a schedule: one round is one flow with
//! one step, which returns counts. Rounds of one type never overlap, and together they leave no gap
//! that claiming ahead does not cover.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Registrar, Step, StepError};
use tollgate_core::id::ItemType;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::retry;

use crate::dispatching::cycle::Round;
use crate::dispatching::dispatcher::Dispatcher;

pub const DISPATCH_TASK_QUEUE: &str = "dispatch-task-queue";

/// A round ends so long before the next is due, or this share of the interval if that is less: one
/// that is still running then would cost the next.
const REST: Duration = Duration::from_secs(1);
const REST_SHARE: u32 = 5;
/// A round may take so much longer than planned: its last cycle starts what it has claimed.
const OVERTIME: Duration = Duration::from_mins(2);

/// The schedule's id for a type, and the beginning of its flows' ids.
pub fn dispatcher_id(item_type: &ItemType) -> String {
    format!("dispatch-{}", item_type.as_str().to_ascii_lowercase())
}

/// What one firing of the schedule asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchRound {
    pub item_type: ItemType,
    pub interval_secs: u32,
}

impl DispatchRound {
    pub fn of(item_type: &ItemType, config: &ItemTypeConfig) -> Self {
        Self {
            item_type: item_type.clone(),
            interval_secs: config.dispatch_interval_secs,
        }
    }

    pub fn interval(&self) -> Duration {
        Duration::from_secs(u64::from(self.interval_secs))
    }

    fn length(&self) -> Duration {
        let interval = self.interval();
        interval.saturating_sub(REST.min(interval / REST_SHARE))
    }
}

/// Every type's dispatcher in this process.
#[derive(Debug)]
pub struct Dispatchers {
    by_type: HashMap<ItemType, Arc<Dispatcher>>,
    /// A process that stops cuts its rounds short.
    stop: watch::Receiver<bool>,
}

impl Dispatchers {
    pub fn new(
        by_type: impl IntoIterator<Item = (ItemType, Arc<Dispatcher>)>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self {
            by_type: by_type.into_iter().collect(),
            stop,
        }
    }

    /// The flow and its step.
    pub fn register(registrar: &mut impl Registrar, world: &Arc<Self>) {
        registrar
            .flow::<DispatcherFlow>()
            .step::<DispatchRound>(world);
    }
}

#[derive(Debug)]
pub struct DispatcherFlow;

impl Flow for DispatcherFlow {
    const NAME: &'static str = "DispatcherWorkflow";
    type In = DispatchRound;
    type Out = Round;

    async fn run<C: Ctx>(ctx: C, round: DispatchRound) -> Result<End<Self>, FlowError> {
        Ok(End::Done(ctx.step(round).await?))
    }
}

impl Step for DispatchRound {
    const NAME: &'static str = "dispatch_round";
    type Out = Round;
    type World = Dispatchers;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        // The next firing is the retry.
        Policy {
            timeout: self.interval() + OVERTIME,
            retry: retry::Policy::ONCE,
        }
    }
    async fn run(&self, world: &Dispatchers, _: &Call) -> Result<Round, StepError> {
        let Some(dispatcher) = world.by_type.get(&self.item_type) else {
            return Err(StepError::last(format!(
                "this release does not know the item type {}; another node may know it",
                self.item_type
            )));
        };
        let round = dispatcher.round(self.length(), world.stop.clone()).await;
        round.map_err(|error| StepError::last(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_before_the_next_is_due() {
        for (interval_secs, length_ms) in [(1, 800), (2, 1600), (5, 4000), (60, 59_000)] {
            let round = DispatchRound {
                item_type: ItemType::new("PAYMENT"),
                interval_secs,
            };
            assert_eq!(round.length(), Duration::from_millis(length_ms));
            assert!(round.policy().timeout > round.interval());
        }
    }
}
