//! A payment's business status, and the moves of it that a send can cause.

use tollgate_core::ports::StatusMove;
use tollgate_dispatch::Moves;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStatus {
    /// Taken in; its init flow has not ended.
    Initializing,
    /// Planned; waits for its slot.
    Scheduled,
    /// The bank has it.
    Accepted,
    /// All parties are notified.
    Processing,
    /// Definitely refused.
    Rejected,
    /// Sent, and the answer is lost.
    InDoubt,
}

impl PaymentStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Scheduled => "SCHEDULED",
            Self::Accepted => "ACCEPTED",
            Self::Processing => "PROCESSING",
            Self::Rejected => "REJECTED",
            Self::InDoubt => "IN_DOUBT",
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
        refused: to(&[Scheduled], Rejected),
        in_doubt: to(&[Scheduled], InDoubt),
    }
}

pub(super) fn notified() -> StatusMove {
    StatusMove::new(
        &[PaymentStatus::Accepted.as_str()],
        PaymentStatus::Processing.as_str(),
    )
}
