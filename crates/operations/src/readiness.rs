//! Whether the engine can be reached, and whether any process works on a task queue.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

/// Whoever asks why a payment does not run waits so long for the engine's word.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

/// An engine outside this process, which has task queues.
#[async_trait]
pub trait RemoteEngine: Debug + Send + Sync {
    /// Why it cannot be reached, if it cannot.
    fn trouble(&self) -> Option<String>;

    /// How many processes work on a task queue. The error says why that is not known.
    async fn workers(&self, task_queue: &str) -> Result<usize, String>;
}

/// Whether flows can be started now.
#[derive(Clone, Debug)]
pub struct Readiness(Option<Arc<dyn RemoteEngine>>);

impl Readiness {
    /// None for the embedded engine, which has no task queues and is always there.
    pub fn new(engine: Option<Arc<dyn RemoteEngine>>) -> Self {
        Self(engine)
    }

    /// What is wrong, if anything is.
    pub fn trouble(&self) -> Option<String> {
        self.0.as_ref()?.trouble()
    }

    /// Whether flows of this task queue wait for a process that works on it. While the engine does
    /// not say, it is not claimed.
    pub async fn nobody_works_on(&self, task_queue: &str) -> bool {
        let Some(queues) = &self.0 else {
            return false;
        };
        let asked = tokio::time::timeout(QUEUE_PATIENCE, queues.workers(task_queue));
        matches!(asked.await, Ok(Ok(0)))
    }

    /// Whether flows may be put on this task queue.
    pub async fn takes(&self, task_queue: &str) -> QueueState {
        let Some(queues) = &self.0 else {
            return QueueState::NoQueues;
        };
        let asked = tokio::time::timeout(QUEUE_PATIENCE, queues.workers(task_queue));
        match asked.await {
            Ok(Ok(0)) => QueueState::Unpolled,
            Ok(Ok(_)) => QueueState::Polled,
            Ok(Err(away)) => QueueState::Unknown(away),
            Err(_) => QueueState::Unknown("Temporal did not answer in time".to_owned()),
        }
    }
}

/// What is known of a task queue.
#[derive(Debug)]
pub enum QueueState {
    /// The embedded engine has none.
    NoQueues,
    Polled,
    Unpolled,
    Unknown(String),
}
