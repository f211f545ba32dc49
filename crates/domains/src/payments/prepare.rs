//! The pure part of intake, step by step: validate, apply rules, build the
//! context (the route comes from `routes.rs`), determine the execution time. Given the same payment and time, the same result.

use serde::{Deserialize, Serialize};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{NewItem, NewRecord};
use tollgate_core::{SignedDuration, Timestamp};

use super::request::{Details, Party, PaymentRequest};
use super::routes::{DEFAULT_GATEWAY, Route};
use super::status::PaymentStatus;

/// An `executeAt` this far in the past still means now.
const MAX_PAST: SignedDuration = SignedDuration::from_hours(24);
const MAX_AHEAD: SignedDuration = SignedDuration::from_hours(24 * 400);

/// Why a payment is not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NotTaken {
    Invalid(Details),
    /// A rule said no: its name and message.
    Refused {
        rule: String,
        message: String,
    },
}

/// What the exec flow gets: everything it needs, nothing it must fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PaymentContext {
    pub(super) payment_id: String,
    pub(super) amount: String,
    pub(super) currency: String,
    pub(super) debtor: Party,
    pub(super) creditor: Party,
    /// What the bank is told.
    pub(super) gateway: String,
    /// Which bank, by its gateway; the default one if none is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) connector: Option<String>,
    pub(super) reference: Option<String>,
}

/// The checks that depend on the time, and the rules.
pub(super) fn check(payment: &PaymentRequest, now: Timestamp) -> Result<(), NotTaken> {
    validate(payment, now).map_err(NotTaken::Invalid)?;
    apply_rules(payment)
}

/// Everything that is written for a payment that passed its checks.
pub(super) fn build(
    payment: &PaymentRequest,
    route: Route,
    init_flow: &FlowId,
) -> Result<NewItem, serde_json::Error> {
    Ok(NewItem {
        id: payment.payment_id.clone(),
        context_json: serde_json::to_string(&build_context(payment, route.connector))?,
        lane: route.lane,
        requested: determine_exec_time(payment),
        deadline: payment.deadline,
        hold_if_late: payment.hold_if_late,
        record: NewRecord {
            owner: payment.debtor.account.clone(),
            status: PaymentStatus::Scheduled.as_str().to_owned(),
            money: payment.money,
            content_hash: payment.content_hash(),
            document: serde_json::to_string(payment)?,
        },
        init_flow: init_flow.clone(),
    })
}

fn validate(payment: &PaymentRequest, now: Timestamp) -> Result<(), Details> {
    let mut wrong = Details::new();
    let mut blame = |field: &str, what: &str| {
        wrong.insert(field.to_owned(), what.to_owned());
    };
    if let Some(at) = payment.execute_at {
        if at < now - MAX_PAST {
            blame("executeAt", "is more than 24 hours in the past");
        }
        if at > now + MAX_AHEAD {
            blame("executeAt", "is more than 400 days ahead");
        }
    }
    if let Some(deadline) = payment.deadline
        && deadline < payment.execute_at.unwrap_or(now)
    {
        blame(
            "deadline",
            "is before the payment can run (executeAt, or now)",
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn apply_rules(payment: &PaymentRequest) -> Result<(), NotTaken> {
    if payment.debtor.account == payment.creditor.account {
        return Err(NotTaken::Refused {
            rule: "distinct_accounts".to_owned(),
            message: "debtor and creditor are the same account".to_owned(),
        });
    }
    Ok(())
}

fn build_context(payment: &PaymentRequest, connector: Option<String>) -> PaymentContext {
    PaymentContext {
        payment_id: payment.payment_id.to_string(),
        amount: payment.money.decimal(),
        currency: payment.money.currency.code().to_owned(),
        debtor: payment.debtor.clone(),
        creditor: payment.creditor.clone(),
        gateway: payment
            .gateway
            .clone()
            .unwrap_or_else(|| DEFAULT_GATEWAY.to_owned()),
        connector,
        reference: payment.reference.clone(),
    }
}

/// What was asked for. An omitted or past time means now, and now is the store's to say.
fn determine_exec_time(payment: &PaymentRequest) -> Option<Timestamp> {
    payment.execute_at
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payment(fields: &serde_json::Value) -> PaymentRequest {
        let mut body = json!({
            "paymentId": "p", "amount": "1", "currency": "EUR",
            "debtor": {"account": "a", "name": "A"}, "creditor": {"account": "b", "name": "B"},
        });
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        PaymentRequest::parse(&body).unwrap()
    }

    #[test]
    fn times_are_judged_by_the_clock_they_are_given() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let wrong = |fields| match check(&payment(&fields), now) {
            Ok(()) => vec![],
            Err(NotTaken::Invalid(details)) => details.into_keys().collect(),
            Err(NotTaken::Refused { rule, .. }) => vec![rule],
        };
        assert!(wrong(json!({})).is_empty());
        assert!(
            wrong(json!({"executeAt": "2026-11-15T12:00:00Z"})).is_empty(),
            "24 h ago means now"
        );
        assert_eq!(
            wrong(json!({"executeAt": "2026-11-15T11:59:59Z"})),
            ["executeAt"]
        );
        assert_eq!(
            wrong(json!({"executeAt": "2999-01-01T00:00:00Z"})),
            ["executeAt"]
        );
        assert_eq!(
            wrong(json!({"deadline": "2026-11-16T11:00:00Z"})),
            ["deadline"]
        );
        assert_eq!(
            wrong(json!({"creditor": {"account": "a", "name": "X"}})),
            ["distinct_accounts"]
        );
    }
}
