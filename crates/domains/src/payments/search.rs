//! Finding payments by what they were taken in with.

use super::prepare::PaymentContext;
use super::request::PaymentRequest;

/// What must be in a payment's document. What is not said is not asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sought<'a> {
    /// Of debtor or creditor.
    pub account: Option<&'a str>,
    pub reference: Option<&'a str>,
    /// The one that was chosen for it.
    pub gateway: Option<&'a str>,
}

impl Sought<'_> {
    /// Of a payment that is accepted and has no gateway yet.
    pub fn is_asked_in(&self, document: &str) -> bool {
        let Ok(payment) = serde_json::from_str::<PaymentRequest>(document) else {
            return false;
        };
        let accounts = [&payment.debtor.account, &payment.creditor.account];
        self.are_there(&accounts, payment.reference.as_deref()) && self.gateway.is_none()
    }

    fn are_there(&self, accounts: &[&String], reference: Option<&str>) -> bool {
        self.account
            .is_none_or(|it| accounts.iter().any(|account| *account == it))
            && self.reference.is_none_or(|it| reference == Some(it))
    }

    /// A body that cannot be read has none of it.
    pub fn is_in(&self, body: &str) -> bool {
        let Ok(payment) = PaymentContext::read(body) else {
            return false;
        };
        let accounts = [&payment.debtor.account, &payment.creditor.account];
        self.are_there(&accounts, payment.reference.as_deref())
            && self.gateway.is_none_or(|it| payment.gateway == it)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payment_is_found_by_its_accounts_reference_and_gateway() {
        let request = json!({"paymentId": "p", "amount": "1.00", "currency": "USD",
            "debtor": {"account": "A-1", "name": "A"}, "creditor": {"account": "B-2", "name": "B"},
            "reference": "rent"});
        let mut body = json!(PaymentRequest::parse(&request).unwrap());
        body["route"] = json!({"gateway": "north"});
        let body = &body.to_string();
        let with = |account, reference, gateway| Sought {
            account,
            reference,
            gateway,
        };
        let table = [
            (Sought::default(), true),
            (with(Some("A-1"), None, None), true),
            (with(Some("B-2"), Some("rent"), Some("north")), true),
            (with(Some("B"), None, None), false),
            (with(None, Some("ren"), None), false),
            (with(None, None, Some("south")), false),
        ];
        for (sought, expected) in table {
            assert_eq!(sought.is_in(body), expected, "{sought:?}");
        }
        assert!(!Sought::default().is_in("{}"));
    }
}
