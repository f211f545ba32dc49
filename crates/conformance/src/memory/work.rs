//! Two ways to run a step's work from flow code that is never suspended by a runtime.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::flow::StepError;

/// How the work of steps is run. Flow code is polled with a no-op waker either way.
#[derive(Debug, Clone)]
pub enum Work {
    /// One poll with a no-op waker: for worlds without real IO. Work that has to wait is an error.
    Inline,
    /// `block_on` of a multi-threaded runtime with timers, from a thread outside of it: for
    /// worlds over a real store. The step's timeout holds.
    Blocking(Handle),
}

impl Work {
    /// `None` when inline work had to wait.
    pub(super) fn run<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = Result<T, StepError>>,
    ) -> Option<Result<T, StepError>> {
        match self {
            Self::Inline => {
                let mut context = Context::from_waker(Waker::noop());
                match pin!(work).poll(&mut context) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                }
            }
            Self::Blocking(runtime) => Some(runtime.block_on(async {
                let timed_out = || StepError::retryable(format!("timed out after {timeout:?}"));
                let in_time = tokio::time::timeout(timeout, work).await;
                in_time.unwrap_or_else(|_| Err(timed_out()))
            })),
        }
    }
}
