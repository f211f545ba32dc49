//! What a flow sees of this engine: recorded results first, work second.

use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_core::flow::{Ctx, Flow, FlowError, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::StoreResult;

use crate::children;
use crate::journal::Turn;
use crate::run::Run;
use crate::steps::{self, Job};

#[derive(Clone)]
pub(crate) struct FlowCtx(Rc<Run>);

impl FlowCtx {
    pub(crate) fn new(run: Rc<Run>) -> Self {
        Self(run)
    }
}

impl Ctx for FlowCtx {
    fn flow_id(&self) -> &FlowId {
        &self.0.id
    }

    async fn step<S: Step>(&self, step: S) -> Result<S::Out, StepError> {
        let run = &self.0;
        let key = format!("{}/{}", S::NAME, step.key());
        let result_json = match run.journal.turn(&key).await {
            Turn::Recorded(result_json) => result_json,
            Turn::Mine(claim) => {
                let _busy = run.busy();
                let performed = perform(run, &key, step).await;
                let result_json = unless_refused(run, &key, performed).await;
                claim.record(result_json.clone());
                result_json
            }
        };
        decode(run, &key, &result_json).await
    }

    async fn child<F: Flow>(&self, id: FlowId, input: F::In) -> Result<F::Out, FlowError> {
        let run = &self.0;
        let key = children::key(&id);
        let result_json = match run.journal.turn(&key).await {
            Turn::Recorded(result_json) => result_json,
            Turn::Mine(claim) => {
                let awaited = children::run_to_its_end::<F>(run, &id, &input).await;
                let result_json = unless_refused(run, &key, awaited).await;
                claim.record(result_json.clone());
                result_json
            }
        };
        decode(run, &key, &result_json).await
    }

    fn progress(&self, progress: &impl Serialize) {
        match serde_json::to_string(progress) {
            Ok(json) => self.0.progress.show(&self.0.local, &self.0.id, json),
            Err(error) => tracing::debug!(flow = %self.0.id, %error, "a progress is not JSON"),
        }
    }
}

async fn perform<S: Step>(run: &Run, key: &str, step: S) -> StoreResult<String> {
    let Some(world) = run.local.shared.registry.world::<S>() else {
        let why = format!(
            "no step named {:?}; register its domain with this engine",
            S::NAME
        );
        return run.break_off(why).await;
    };
    let policy = step.policy();
    let job = Job {
        step,
        world,
        policy,
        flow_id: run.id.clone(),
        key: key.to_owned(),
        failed: run.journal.failed_tries(key),
    };
    run.local
        .outside(|shared| steps::perform(shared, job))
        .await
}

/// A result that the store will never take ends the run: the flow must not go on from something
/// that the next replay would not see.
async fn unless_refused(run: &Run, key: &str, written: StoreResult<String>) -> String {
    match written {
        Ok(result_json) => result_json,
        Err(error) => {
            run.break_off(format!("{key:?} was refused by the store: {error}"))
                .await
        }
    }
}

/// Both the first run and every replay read the result from its JSON, so that they cannot differ.
async fn decode<T, E>(run: &Run, key: &str, result_json: &str) -> Result<T, E>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    match serde_json::from_str(result_json) {
        Ok(result) => result,
        Err(error) => {
            run.break_off(format!(
                "the recorded result of {key:?} cannot be read: {error}"
            ))
            .await
        }
    }
}
