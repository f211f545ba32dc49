//! The faults a plan can inject at one step of a flow.

use std::fmt;

use tollgate_core::flow::StepError;

/// One fault at one position: the `at`-th step that is really run, 1 for the first. Steps of
/// children count along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub at: usize,
    pub fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The first try fails before its work; the step's policy decides about a second.
    FailOnce,
    /// The step fails for good, without its work.
    FailForGood,
    /// The first try's work is done but its result is lost; the policy decides about a second.
    LoseResult,
    /// The work is done, then the process dies before the journal knows.
    CrashBeforeRecord,
    /// The process dies right after the journal knows.
    CrashAfterRecord,
}

impl Fault {
    pub const ALL: [Self; 5] = [
        Self::FailOnce,
        Self::FailForGood,
        Self::LoseResult,
        Self::CrashBeforeRecord,
        Self::CrashAfterRecord,
    ];

    /// The message of an error that came from a plan and not from the step.
    pub const INJECTED: &'static str = "injected by the plan";

    /// What the first try answers instead of its own result.
    pub(super) fn first_answer(self) -> Option<StepError> {
        match self {
            Self::FailOnce | Self::LoseResult => Some(StepError::retryable(Self::INJECTED)),
            Self::FailForGood => Some(StepError::last(Self::INJECTED)),
            Self::CrashBeforeRecord | Self::CrashAfterRecord => None,
        }
    }

    pub(super) fn skips_work(self) -> bool {
        matches!(self, Self::FailOnce | Self::FailForGood)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at step {}", self.fault, self.at)
    }
}
