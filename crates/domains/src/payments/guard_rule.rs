//! Rules that count what was taken in before: duplicates, and a debtor's total of a day. The store
//! judges them while it writes; here is what they mean for one payment.

use serde::{Deserialize, Serialize};
use tollgate_core::guard::{Guard, Limit};
use tollgate_core::money::Money;

use super::PaymentRequest;
use super::status::never_paid;
use crate::digest;

/// Kept in the init flow's journal, so that a payment is admitted by the rules it was checked by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuardRule {
    pub(super) name: String,
    pub(super) message: String,
    pub(super) kind: GuardKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum GuardKind {
    /// Under its old name in the journals of flows that are under way.
    #[serde(rename = "NoTwin")]
    NoDuplicate {
        within_secs: u32,
    },
    DailyTotal {
        most: Money,
        zone: String,
    },
}

impl GuardRule {
    /// None if the rule is not about this payment.
    pub(super) fn guard(&self, payment: &PaymentRequest) -> Option<Guard> {
        let limit = match &self.kind {
            GuardKind::NoDuplicate { within_secs } => Limit::NoDuplicate {
                key: duplicate_key(payment),
                within_secs: *within_secs,
            },
            GuardKind::DailyTotal { most, .. } if most.currency != payment.money.currency => {
                return None;
            }
            GuardKind::DailyTotal { most, zone } => Limit::DailyTotal {
                zone: zone.clone(),
                most_minor: most.minor,
            },
        };
        Some(Guard {
            rule: self.name.clone(),
            message: self.message.clone(),
            limit,
            uncounted: never_paid(),
        })
    }
}

/// Debtor, creditor, amount and reference: whoever pays that twice has probably slipped.
fn duplicate_key(payment: &PaymentRequest) -> String {
    let (debtor, creditor) = (&payment.debtor.account, &payment.creditor.account);
    let money = (payment.money.minor, payment.money.currency);
    let same = serde_json::json!([debtor, creditor, money, payment.reference]);
    digest::of(&same.to_string())
}
