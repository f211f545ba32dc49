//! One step on the shared runtime: tries by its policy, then its result in the journal. It does
//! not know whether the result was recorded before; the caller asks the journal first.

use std::sync::Arc;

use tollgate_core::flow::{Call, Policy, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{JournalEntry, StoreError, StoreResult};
use tracing::Instrument;

use crate::contained::contained;
use crate::journal::failed_try;
use crate::local::Tether;

pub(crate) struct Job<S: Step> {
    pub(crate) step: S,
    pub(crate) world: Arc<S::World>,
    pub(crate) policy: Policy,
    pub(crate) flow_id: FlowId,
    /// Its key in the journal.
    pub(crate) key: String,
    /// Tries that failed before this process took the flow over.
    pub(crate) failed: u32,
}

/// Tries of steps that have no more than this many are counted across a crash. The others wait for a store that is
/// away, and a record of each failure would be one more thing to ask of it.
const COUNTED_TRIES: u32 = 20;

/// Runs the step and records its result, success or final failure; answers with the recorded
/// JSON.
///
/// Killed before the record is durable, the step runs again on the next start; killed after it,
/// the record is found. A result that cannot be written because the store is away is kept and
/// tried again, and only this flow waits.
pub(crate) async fn perform<S: Step>(shared: Arc<Tether>, job: Job<S>) -> StoreResult<String> {
    let span = tracing::info_span!("step", flow = %job.flow_id, step = S::NAME);
    perform_within(shared, job).instrument(span).await
}

async fn perform_within<S: Step>(shared: Arc<Tether>, job: Job<S>) -> StoreResult<String> {
    let Some(outcome) = try_by_policy(&shared, &job).await else {
        return Err(StoreError::Unavailable("the engine has stopped".to_owned()));
    };
    let result_json = encode::<S>(&outcome).await;
    let entry = JournalEntry {
        key: job.key,
        result_json,
    };
    let write = || {
        shared
            .flows
            .journal(shared.epoch, &job.flow_id, entry.clone())
    };
    shared.persist(write).await?;
    Ok(entry.result_json)
}

/// Nothing when the engine has stopped before the step is tried again: the next node does that.
async fn try_by_policy<S: Step>(
    shared: &Tether,
    job: &Job<S>,
) -> Option<Result<S::Out, StepError>> {
    let mut call = Call {
        flow_id: job.flow_id.clone(),
        attempt: job.failed + 1,
    };
    loop {
        let error = match try_once(job, &call).await {
            Ok(out) => return Some(Ok(out)),
            Err(error) => error,
        };
        let pause = job
            .policy
            .retry
            .next_pause(call.attempt)
            .filter(|_| error.retry);
        let Some(pause) = pause else {
            return Some(Err(error));
        };
        tracing::debug!(attempt = call.attempt, %error, "a step failed and will be tried again");
        note_failure(shared, job, call.attempt).await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = shared.stopped() => return None,
        }
        call.attempt += 1;
    }
}

/// A failure that cannot be written is forgotten by a crash, and nothing else.
async fn note_failure<S: Step>(shared: &Tether, job: &Job<S>, attempt: u32) {
    if job.policy.retry.max_attempts > COUNTED_TRIES {
        return;
    }
    let entry = failed_try(attempt, &job.key);
    let noted = shared.flows.journal(shared.epoch, &job.flow_id, entry);
    if let Err(error) = noted.await {
        tracing::debug!(attempt, %error, "a failed attempt could not be recorded");
    }
}

async fn try_once<S: Step>(job: &Job<S>, call: &Call) -> Result<S::Out, StepError> {
    // In a block of its own, so that a panic before the first await is contained as well.
    let work = contained(async { job.step.run(&job.world, call).await });
    match tokio::time::timeout(job.policy.timeout, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(words)) => Err(StepError::last(format!(
            "step {:?} panicked: {words}",
            S::NAME
        ))),
        Err(_) => {
            let timeout = job.policy.timeout;
            Err(StepError::retryable(format!(
                "step {:?} timed out after {timeout:?}",
                S::NAME
            )))
        }
    }
}

async fn encode<S: Step>(outcome: &Result<S::Out, StepError>) -> String {
    let encoded = contained(async { serde_json::to_string(outcome) }).await;
    let why = match encoded {
        Ok(Ok(result_json)) => return result_json,
        Ok(Err(error)) => error.to_string(),
        Err(words) => words,
    };
    let error = StepError::last(format!("step {:?}: its result is not JSON: {why}", S::NAME));
    serde_json::to_string(&Err::<(), _>(error)).expect("a text and a flag are JSON")
}
