//! Durable logic, written once and run by either engine.
//!
//! A flow is plain `async` code that awaits nothing but its [`Ctx`]; a step is the one place
//! where work happens. Flows must not await a timer or a spawned task of their own: on Temporal
//! that hangs without an error. Parallelism goes through [`crate::join::windowed`] only.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::id::{FlowId, Item, ItemId, ItemType};
use crate::ports::StoreError;
use crate::retry;

/// What can be journaled or sent to another process.
pub trait Wire: Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Wire for T {}

/// One durable, retried unit of work. It may run more than once; its result counts once.
pub trait Step: Wire {
    const NAME: &'static str;
    /// Whether it is nothing but a short use of the store. Then an engine of many processes runs it
    /// where the flow runs, which saves the way through its queues.
    const SHORT: bool = false;
    type Out: Wire;
    /// What its work needs: the store, the sender, …, as ports.
    type World: Send + Sync + 'static;

    /// Names this call within one run of its flow, among all steps. Explicit, because a counter
    /// breaks when parallel branches are replayed in another order.
    fn key(&self) -> String;
    fn policy(&self) -> Policy;
    fn run(
        &self,
        world: &Self::World,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Out, StepError>> + Send;

    /// What is still to be waited for when a try was cut off and its future is gone: sends under way are
    /// answered and settled before another process tries.
    fn after_cut_off(_: &Self::World) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Durable logic: deterministic, given the results of its steps.
pub trait Flow: Sized + 'static {
    const NAME: &'static str;
    type In: Wire;
    type Out: Wire;

    fn run<C: Ctx>(ctx: C, input: Self::In) -> impl Future<Output = Result<End<Self>, FlowError>>;
}

/// How one run of a flow ends.
#[derive(Debug)]
pub enum End<F: Flow> {
    Done(F::Out),
    /// Continue as new: the same flow id, a fresh journal, this input.
    Again(F::In),
}

/// All that a flow sees of its engine.
pub trait Ctx: Clone + 'static {
    fn flow_id(&self) -> &FlowId;
    /// Runs a step, or returns its recorded result.
    fn step<S: Step>(&self, step: S) -> impl Future<Output = Result<S::Out, StepError>>;
    /// Starts a child flow and waits for its end. Starting an id twice joins the first.
    fn child<F: Flow>(
        &self,
        id: FlowId,
        input: F::In,
    ) -> impl Future<Output = Result<F::Out, FlowError>>;
    /// Shows how far the flow has come; the latest call wins.
    fn progress(&self, progress: &impl Serialize);
}

/// Collects the flows and steps of a domain; one implementation per engine.
pub trait Registrar {
    fn flow<F: Flow>(&mut self) -> &mut Self;
    fn step<S: Step>(&mut self, world: &Arc<S::World>) -> &mut Self;
}

/// How long one try of a step may take, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub timeout: Duration,
    pub retry: retry::Policy,
}

/// Which call of a step this is.
#[derive(Debug, Clone)]
pub struct Call {
    pub flow_id: FlowId,
    /// 1 for the first try.
    pub attempt: u32,
}

/// Why a step gave no result. `retry: false` ends its tries at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{message}")]
pub struct StepError {
    pub message: String,
    pub retry: bool,
}

impl StepError {
    pub fn retryable(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retry: true,
        }
    }
    pub fn last(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retry: false,
        }
    }
}

/// A store that is away is waited for. A bug of ours is not: it is the same at every try, and nobody
/// sees a step that tries. The flow fails instead; the sweeper has the item executed again, as its
/// next run, and after a few of those it is DEAD, in front of an operator and with this reason. No
/// money hangs on it: what a next run may send is decided by the attempts that are on record.
impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self {
            message: error.to_string(),
            retry: error.may_pass(),
        }
    }
}

/// Why a flow ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{0}")]
pub struct FlowError(pub String);

impl From<StepError> for FlowError {
    fn from(error: StepError) -> Self {
        Self(error.message)
    }
}

/// What every exec flow is given: the item, which run of it, and its context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecInput {
    pub item: Item,
    /// The owner's token: a turn is only given to the run that the queue row names.
    pub run: u32,
    /// The init flow's result, as JSON text; immutable, hence passed along and never fetched.
    pub context_json: String,
}

/// What a flow is given that executes several items. It names them only: their contexts stay in the
/// store, since an engine's histories are bounded, and kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchInput {
    pub item_type: ItemType,
    pub items: Vec<BatchItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItem {
    pub id: ItemId,
    pub run: u32,
    /// How long after its time it is executed: items without a slot are spread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_ms: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of a flow of several items.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchEnd {
    /// Sent, put back to the queue, held, or found to have ended.
    pub executed: u32,
    /// No longer this flow's when it began.
    pub moved_on: u32,
    /// Why the others could not be executed; the sweeper has them executed again.
    #[serde(default)]
    pub failed: BTreeMap<ItemId, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_of_the_store_is_waited_out_and_a_mistake_of_our_own_is_not() {
        let table = [
            (StoreError::Unavailable("away".into()), true),
            (StoreError::Fenced("node 2".into()), true),
            (StoreError::Invalid("lane".into()), false),
            (StoreError::Bug("no such column".into()), false),
        ];
        for (error, retry) in table {
            let message = error.to_string();
            assert_eq!(StepError::from(error), StepError { message, retry });
        }
    }
}
