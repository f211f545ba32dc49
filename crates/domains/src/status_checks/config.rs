//! How a check works, fixed when it starts: part of the flows' input, so that a replay sees the same.

use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use tollgate_core::flow::Policy;
use tollgate_core::retry;

use super::TURN_PATIENCE;

/// What a try needs besides its waits and its call.
const SLACK: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowConfig {
    pub max_parallel_es_queries: u32,
    pub max_payments_per_chunk: u32,
    pub activity_timeout_seconds: u64,
    /// Tries in all; the first counts.
    pub max_retry_attempts: u32,
    pub initial_interval_ms: u64,
    pub backoff_coefficient: Decimal,
    pub max_interval_ms: u64,
}

impl Default for WorkflowConfig {
    fn default() -> Self {
        Self {
            max_parallel_es_queries: 10,
            max_payments_per_chunk: 5,
            activity_timeout_seconds: 30,
            max_retry_attempts: 3,
            initial_interval_ms: 1000,
            backoff_coefficient: Decimal::TWO,
            max_interval_ms: 10_000,
        }
    }
}

impl WorkflowConfig {
    /// Of one call to a service.
    pub fn call_timeout(&self) -> Duration {
        Duration::from_secs(self.activity_timeout_seconds)
    }

    /// A try may wait for a line as long as a call may last, and for its turn; the call's own timeout
    /// begins after that.
    pub(super) fn policy(&self) -> Policy {
        Policy {
            timeout: self.call_timeout() * 2 + TURN_PATIENCE + SLACK,
            retry: retry::Policy {
                max_attempts: self.max_retry_attempts,
                first_pause: Duration::from_millis(self.initial_interval_ms),
                factor: self.backoff_coefficient,
                longest_pause: Duration::from_millis(self.max_interval_ms),
            },
        }
    }

    pub(super) fn batch(&self) -> usize {
        at_least_one(self.max_parallel_es_queries)
    }
    pub(super) fn chunk(&self) -> usize {
        at_least_one(self.max_payments_per_chunk)
    }
}

fn at_least_one(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_tried_three_times_after_one_and_two_seconds() {
        let retry = WorkflowConfig::default().policy().retry;
        let pauses = [1, 2, 3].map(|attempt| retry.next_pause(attempt).map(|p| p.as_secs()));
        assert_eq!(pauses, [Some(1), Some(2), None]);
        let patient = WorkflowConfig {
            max_retry_attempts: 9,
            ..WorkflowConfig::default()
        };
        let longest = patient.policy().retry.next_pause(8);
        assert_eq!(longest, Some(Duration::from_secs(10)), "the cap");
    }

    #[test]
    fn a_fraction_grows_the_pauses_and_is_read_back_as_it_was_written() {
        let slower = WorkflowConfig {
            max_retry_attempts: 4,
            backoff_coefficient: Decimal::new(15, 1),
            ..WorkflowConfig::default()
        };
        let retry = slower.policy().retry;
        let pauses = [1, 2, 3, 4].map(|attempt| retry.next_pause(attempt).map(|p| p.as_millis()));
        assert_eq!(pauses, [Some(1000), Some(1500), Some(2250), None]);
        let text = serde_json::to_string(&slower).unwrap();
        let read: WorkflowConfig = serde_json::from_str(&text).unwrap();
        assert_eq!(read, slower);
    }

    #[test]
    fn it_is_written_as_the_contract_writes_it() {
        let json = serde_json::to_value(WorkflowConfig::default()).unwrap();
        assert_eq!(json["maxParallelEsQueries"], 10);
        assert_eq!(json["maxPaymentsPerChunk"], 5);
        assert_eq!(json["activityTimeoutSeconds"], 30);
        assert_eq!(json["maxRetryAttempts"], 3);
        assert_eq!(json["backoffCoefficient"], 2.0);
        // As checks that began before it could be a fraction were written.
        let mut before = json;
        before["backoffCoefficient"] = serde_json::json!(2);
        let read: WorkflowConfig = serde_json::from_value(before).unwrap();
        assert_eq!(read, WorkflowConfig::default());
    }
}
