//! An item type's dispatch configuration: read anew in every cycle, so that a change needs no restart.

use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::{Deserialize, Serialize};

/// What an operator may set; names and units are those of the table EXEC_RATE_CONFIG it replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ItemTypeConfig {
    /// The kill switch: when false nothing is claimed and items stay READY.
    pub enabled: bool,
    /// Items per claim.
    pub batch_size: u32,
    /// Items per flow, at most: with 1 each has a flow of its own, and gets its context as a parameter.
    pub items_per_flow: u32,
    /// The longest pause between two cycles; the dispatcher also wakes for the next due item.
    pub dispatch_interval_secs: u32,
    /// Items without a slot are started at random within this time.
    pub jitter_window_ms: u32,
    /// How far ahead of its time an item is claimed. Longer only means more running flows.
    pub pre_start_buffer_mins: Decimal,
    /// After this many failed starts an item is DEAD.
    pub max_dispatch_retries: u32,
    /// A claim older than this is claimed again, under a new token.
    pub stale_claim_threshold_mins: Decimal,
    /// Which flow executes an item of this type.
    pub exec_workflow_type: String,
    /// Which flow executes several; a type without one has a flow per item.
    pub exec_batch_workflow_type: String,
    pub exec_task_queue: String,
}

impl Default for ItemTypeConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            batch_size: 500,
            items_per_flow: DEFAULT_ITEMS_PER_FLOW,
            dispatch_interval_secs: 5,
            jitter_window_ms: 4000,
            pre_start_buffer_mins: Decimal::new(1, 1),
            max_dispatch_retries: 5,
            stale_claim_threshold_mins: Decimal::from(2),
            exec_workflow_type: String::new(),
            exec_batch_workflow_type: String::new(),
            exec_task_queue: String::new(),
        }
    }
}

/// What of it a person changes; what is left out keeps its value. Which flow runs an item is not
/// among it: a release of the program decides that.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemTypeChange {
    pub enabled: Option<bool>,
    pub batch_size: Option<u32>,
    /// Left out, it is lowered with `batch_size` where that is smaller.
    pub items_per_flow: Option<u32>,
    pub dispatch_interval_secs: Option<u32>,
    pub jitter_window_ms: Option<u32>,
    pub pre_start_buffer_mins: Option<Decimal>,
    pub max_dispatch_retries: Option<u32>,
    pub stale_claim_threshold_mins: Option<Decimal>,
    pub exec_task_queue: Option<String>,
}

/// The longest name of a task queue.
const MOST_QUEUE_CHARS: usize = 200;

impl ItemTypeChange {
    pub fn applied_to(&self, old: ItemTypeConfig) -> Result<ItemTypeConfig, String> {
        let stale = self.stale_claim_threshold_mins;
        let queue = self.exec_task_queue.as_ref();
        if queue.is_some_and(|queue| !is_queue_name(queue)) {
            return Err(format!(
                "execTaskQueue must be 1 to {MOST_QUEUE_CHARS} printable ASCII characters without spaces"
            ));
        }
        let batch_size = self.batch_size.unwrap_or(old.batch_size);
        let at_most = old.items_per_flow.min(batch_size.max(1));
        let new = ItemTypeConfig {
            enabled: self.enabled.unwrap_or(old.enabled),
            batch_size,
            items_per_flow: self.items_per_flow.unwrap_or(at_most),
            dispatch_interval_secs: self
                .dispatch_interval_secs
                .unwrap_or(old.dispatch_interval_secs),
            jitter_window_ms: self.jitter_window_ms.unwrap_or(old.jitter_window_ms),
            pre_start_buffer_mins: self
                .pre_start_buffer_mins
                .unwrap_or(old.pre_start_buffer_mins),
            max_dispatch_retries: self
                .max_dispatch_retries
                .unwrap_or(old.max_dispatch_retries),
            stale_claim_threshold_mins: stale.unwrap_or(old.stale_claim_threshold_mins),
            exec_task_queue: queue.cloned().unwrap_or(old.exec_task_queue),
            ..old
        };
        new.validate().map(|()| new)
    }
}

/// What a task queue may be called.
pub fn is_queue_name(name: &str) -> bool {
    let is_short = (1..=MOST_QUEUE_CHARS).contains(&name.len());
    is_short && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// With 50 items a flow costs its engine next to nothing per item, and a flow that is cut off holds up few
/// (docs/decisions/0044).
pub const DEFAULT_ITEMS_PER_FLOW: u32 = 50;
/// The most items of one flow.
const MOST_ITEMS_PER_FLOW: u32 = 500;
/// The largest claim.
const MOST_ITEMS: u32 = 10_000;
const LONGEST_INTERVAL_SECS: u32 = 3600;
/// The longest that starts are spread over.
const LONGEST_JITTER_MS: u32 = 3_600_000;
/// The farthest that an item is claimed ahead of its time.
const FARTHEST_AHEAD_MINS: u64 = 60;
/// The shortest and the longest that a claim may stand still.
const SHORTEST_STALE: Duration = Duration::from_secs(1);
const LONGEST_STALE_MINS: u64 = 24 * 60;
const MOST_RETRIES: u32 = 1000;

impl ItemTypeConfig {
    pub fn ahead(&self) -> Duration {
        minutes(self.pre_start_buffer_mins)
    }
    pub fn stale_after(&self) -> Duration {
        minutes(self.stale_claim_threshold_mins)
    }
    pub fn interval(&self) -> Duration {
        Duration::from_secs(u64::from(self.dispatch_interval_secs))
    }

    /// How many items one flow is given at most.
    pub fn flow_size(&self) -> usize {
        if self.exec_batch_workflow_type.is_empty() {
            return 1;
        }
        usize::try_from(self.items_per_flow.min(self.batch_size)).unwrap_or(1)
    }

    /// The first thing that is wrong, as a sentence that names the field and the remedy.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=MOST_ITEMS).contains(&self.batch_size) {
            return Err(format!("batchSize must be between 1 and {MOST_ITEMS}"));
        }
        if !(1..=MOST_ITEMS_PER_FLOW).contains(&self.items_per_flow) {
            return Err(format!(
                "itemsPerFlow must be between 1 and {MOST_ITEMS_PER_FLOW}"
            ));
        }
        if self.items_per_flow > self.batch_size {
            return Err(format!(
                "itemsPerFlow must not be above batchSize, which is {}: a flow holds items of one claim",
                self.batch_size
            ));
        }
        if !(1..=LONGEST_INTERVAL_SECS).contains(&self.dispatch_interval_secs) {
            return Err(format!(
                "dispatchIntervalSecs must be between 1 and {LONGEST_INTERVAL_SECS}"
            ));
        }
        let farthest = Duration::from_mins(FARTHEST_AHEAD_MINS);
        if self.pre_start_buffer_mins < Decimal::ZERO || self.ahead() > farthest {
            return Err(format!(
                "preStartBufferMins must be between 0 and {FARTHEST_AHEAD_MINS}"
            ));
        }
        if self.jitter_window_ms > LONGEST_JITTER_MS {
            return Err(format!(
                "jitterWindowMs must be between 0 and {LONGEST_JITTER_MS}"
            ));
        }
        if !(1..=MOST_RETRIES).contains(&self.max_dispatch_retries) {
            return Err(format!(
                "maxDispatchRetries must be between 1 and {MOST_RETRIES}"
            ));
        }
        let longest = Duration::from_mins(LONGEST_STALE_MINS);
        if !(SHORTEST_STALE..=longest).contains(&self.stale_after()) {
            return Err(format!(
                "staleClaimThresholdMins must be between one second (0.0167) and a day ({LONGEST_STALE_MINS})"
            ));
        }
        if self.exec_workflow_type.is_empty() {
            return Err("execWorkflowType must name the flow that executes these items".into());
        }
        Ok(())
    }
}

fn minutes(mins: Decimal) -> Duration {
    let millis = mins.max(Decimal::ZERO).checked_mul(Decimal::from(60_000));
    let millis = millis.and_then(|millis| millis.to_u64());
    Duration::from_millis(millis.unwrap_or(u64::MAX / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid() -> ItemTypeConfig {
        ItemTypeConfig {
            exec_workflow_type: "PaymentExecWorkflow".into(),
            ..ItemTypeConfig::default()
        }
    }

    #[test]
    fn defaults_are_those_of_the_sources() {
        let config = valid();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!((config.batch_size, config.dispatch_interval_secs), (500, 5));
        assert_eq!(config.stale_after(), Duration::from_mins(2));
        assert_eq!(config.ahead(), Duration::from_secs(6));
    }

    #[test]
    fn each_refusal_names_its_field() {
        type Spoil = fn(&mut ItemTypeConfig);
        let cases: [(Spoil, &str); 12] = [
            (|c| c.batch_size = 0, "batchSize"),
            (
                |c| c.items_per_flow = 0,
                "itemsPerFlow must be between 1 and 500",
            ),
            (
                |c| c.items_per_flow = 501,
                "itemsPerFlow must be between 1 and 500",
            ),
            (
                |c| (c.items_per_flow, c.batch_size) = (11, 10),
                "itemsPerFlow must not be above batchSize, which is 10",
            ),
            (|c| c.dispatch_interval_secs = 0, "dispatchIntervalSecs"),
            (
                |c| c.pre_start_buffer_mins = Decimal::from(-1),
                "preStartBufferMins",
            ),
            (
                |c| c.pre_start_buffer_mins = Decimal::MAX,
                "preStartBufferMins",
            ),
            (
                |c| c.stale_claim_threshold_mins = Decimal::ZERO,
                "staleClaimThresholdMins",
            ),
            (
                |c| c.stale_claim_threshold_mins = Decimal::from(1441),
                "staleClaimThresholdMins",
            ),
            (|c| c.jitter_window_ms = 3_600_001, "jitterWindowMs"),
            (|c| c.max_dispatch_retries = 0, "maxDispatchRetries"),
            (|c| c.exec_workflow_type.clear(), "execWorkflowType"),
        ];
        for (spoil, said) in cases {
            let mut config = valid();
            spoil(&mut config);
            assert!(config.validate().unwrap_err().contains(said), "{said}");
        }
    }

    #[test]
    fn what_a_change_leaves_out_keeps_its_value() {
        let stop = ItemTypeChange {
            enabled: Some(false),
            ..ItemTypeChange::default()
        };
        let stopped = stop.applied_to(valid()).unwrap();
        let expected = ItemTypeConfig {
            enabled: false,
            ..valid()
        };
        assert_eq!(stopped, expected);
        let smaller = ItemTypeChange {
            batch_size: Some(7),
            ..ItemTypeChange::default()
        };
        let smaller = smaller.applied_to(stopped).unwrap();
        assert_eq!((smaller.enabled, smaller.batch_size), (false, 7));
        assert_eq!(smaller.items_per_flow, 7, "lowered with the claim");
        let wrong = ItemTypeChange {
            batch_size: Some(0),
            ..ItemTypeChange::default()
        };
        assert!(wrong.applied_to(smaller).unwrap_err().contains("batchSize"));
    }
}
