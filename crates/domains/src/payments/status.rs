//! A payment's business status, and the moves of it that a send can cause.

use tollgate_core::job::JobMoves;
use tollgate_core::ports::{ItemView, Resolution, Resolved, StatusMove, refuses_another_key};
use tollgate_dispatch::Moves;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStatus {
    /// Taken in; its init flow has not ended.
    Initializing,
    /// Planned; waits for its slot.
    Scheduled,
    /// The bank has it.
    Accepted,
    /// The bank has it and the item has ended.
    Processing,
    /// Definitely refused.
    Rejected,
    /// Sent, and the answer is lost.
    InDoubt,
    /// Withdrawn by a person before it was sent.
    Cancelled,
    /// A person decided that nobody pays it any more.
    Failed,
}

impl PaymentStatus {
    pub const ALL: [Self; 8] = [
        Self::Initializing,
        Self::Scheduled,
        Self::Accepted,
        Self::Processing,
        Self::Rejected,
        Self::InDoubt,
        Self::Cancelled,
        Self::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Scheduled => "SCHEDULED",
            Self::Accepted => "ACCEPTED",
            Self::Processing => "PROCESSING",
            Self::Rejected => "REJECTED",
            Self::InDoubt => "IN_DOUBT",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }
}

pub(super) fn moves() -> Moves {
    use PaymentStatus::{Accepted, InDoubt, Rejected, Scheduled};
    let to = |from: &[PaymentStatus], to: PaymentStatus| {
        let from: Vec<_> = from.iter().map(|s| s.as_str()).collect();
        StatusMove::new(&from, to.as_str())
    };
    Moves {
        done: to(&[Scheduled, InDoubt], Accepted),
        refused: to(&[Scheduled, InDoubt], Rejected),
        in_doubt: to(&[Scheduled], InDoubt),
        not_done: to(&[InDoubt], Scheduled),
    }
}

/// Payments with these statuses were never made: rules that count do not count them.
pub(super) fn never_paid() -> Vec<String> {
    use PaymentStatus::{Cancelled, Failed, Rejected};
    let statuses = [Cancelled, Rejected, Failed].map(|status| status.as_str().to_owned());
    statuses.into()
}

/// A person withdraws it.
pub fn cancelled() -> StatusMove {
    StatusMove::new(
        &[PaymentStatus::Scheduled.as_str()],
        PaymentStatus::Cancelled.as_str(),
    )
}

/// A person has a payment sent again that was definitely refused.
pub fn reopened() -> StatusMove {
    StatusMove::new(
        &[PaymentStatus::Rejected.as_str()],
        PaymentStatus::Scheduled.as_str(),
    )
}

/// How payments move when a job acts on many of them.
pub fn job_moves() -> JobMoves {
    JobMoves {
        cancelled: cancelled(),
        reopened: reopened(),
    }
}

/// Why a payment cannot be reopened: all that was attempted must be known not to have been done.
pub fn refuses_reopen(view: &ItemView) -> Option<String> {
    if view.status != PaymentStatus::Rejected.as_str() {
        return Some(format!(
            "it is {}, not {}",
            view.status,
            PaymentStatus::Rejected.as_str()
        ));
    }
    refuses_another_key(view.attempts.iter().map(|attempt| attempt.state))
}

/// A person decides what became of a payment in doubt.
pub fn resolution(resolved: Resolved, sends: u32) -> Resolution {
    let to = match resolved {
        Resolved::Done => PaymentStatus::Processing,
        Resolved::NotDone => PaymentStatus::Scheduled,
        Resolved::Failed => PaymentStatus::Failed,
    };
    Resolution {
        resolved,
        sends,
        record: StatusMove::new(&[PaymentStatus::InDoubt.as_str()], to.as_str()),
    }
}

/// The bank has it, whoever wrote that down: a run that lost the item may have settled it.
pub(super) fn notified() -> StatusMove {
    use PaymentStatus::{Accepted, InDoubt, Processing, Scheduled};
    let from = [Scheduled, InDoubt, Accepted].map(PaymentStatus::as_str);
    StatusMove::new(&from, Processing.as_str())
}

/// Its refusal is told; the record has said so since the answer was written.
pub(super) fn rejected() -> StatusMove {
    moves().refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_that_was_in_doubt_can_reach_every_end() {
        let from_doubt = |status: &StatusMove| status.from.contains(&"IN_DOUBT".to_owned());
        let moves = moves();
        assert!(from_doubt(&moves.done) && from_doubt(&moves.refused) && from_doubt(&notified()));
        assert!(!from_doubt(&moves.in_doubt), "it is there already");
    }
}
