//! An invoice's business status, and the moves of it that a charge can cause.

use tollgate_core::ports::{Resolution, Resolved, StatusMove};
use tollgate_dispatch::Moves;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvoiceStatus {
    /// Outstanding: it waits for its time, or for the next retry.
    Pending,
    /// Its customer was charged, once.
    Paid,
    /// Declined often enough, refused, or failed by a check.
    Failed,
    /// A charge went out, and its answer is lost.
    InDoubt,
    /// Withdrawn by a person before it was charged.
    Cancelled,
}
use InvoiceStatus::{Cancelled, Failed, InDoubt, Paid, Pending};

impl InvoiceStatus {
    pub const ALL: [Self; 5] = [Pending, Paid, Failed, InDoubt, Cancelled];
    /// It is to be charged, or may have been.
    pub const OUTSTANDING: [Self; 2] = [Pending, InDoubt];

    pub fn as_str(self) -> &'static str {
        match self {
            Pending => "PENDING",
            Paid => "PAID",
            Failed => "FAILED",
            InDoubt => "IN_DOUBT",
            Cancelled => "CANCELLED",
        }
    }
}

fn to(from: &[InvoiceStatus], to: InvoiceStatus) -> StatusMove {
    let from: Vec<_> = from.iter().map(|status| status.as_str()).collect();
    StatusMove::new(&from, to.as_str())
}

pub(super) fn moves() -> Moves {
    Moves {
        done: paid(),
        refused: failed(),
        in_doubt: to(&[Pending], InDoubt),
        not_done: pending_again(),
    }
}

pub(super) fn paid() -> StatusMove {
    to(&[Pending, InDoubt], Paid)
}

pub(super) fn failed() -> StatusMove {
    to(&[Pending, InDoubt], Failed)
}

/// Declined, or proved not to have been charged: whatever was in doubt is so no more.
pub(super) fn pending_again() -> StatusMove {
    to(&[InDoubt], Pending)
}

/// Nothing moves: the item alone ends.
pub(super) fn as_it_is() -> StatusMove {
    to(&[], Paid)
}

/// A person wants it charged after all.
pub(super) fn reopened() -> StatusMove {
    to(&[Failed], Pending)
}

/// A person withdraws it.
pub(super) fn cancelled() -> StatusMove {
    to(&[Pending], Cancelled)
}

/// What a person may still put right.
pub(super) fn uncharged() -> Vec<String> {
    [Pending, Failed]
        .map(|status| status.as_str().to_owned())
        .into()
}

/// It is outstanding, and nothing would ever charge it.
pub(super) fn rescued() -> StatusMove {
    to(&[Pending], Pending)
}

/// A person decides what became of an invoice in doubt.
pub fn resolution(resolved: Resolved, sends: u32) -> Resolution {
    let end = match resolved {
        Resolved::Done => Paid,
        Resolved::NotDone => Pending,
        Resolved::Failed => Failed,
    };
    Resolution {
        resolved,
        sends,
        record: to(&[InDoubt], end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invoice_that_is_paid_stays_paid() {
        let all = [
            moves().done,
            moves().refused,
            moves().in_doubt,
            moves().not_done,
            pending_again(),
            as_it_is(),
            reopened(),
            cancelled(),
            rescued(),
            resolution(Resolved::NotDone, 1).record,
        ];
        for status in all {
            assert!(!status.from.contains(&"PAID".to_owned()), "{status:?}");
        }
    }
}
