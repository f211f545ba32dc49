//! What a rule may know of a payment: the variables of its expression.

use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;

use super::{DEFAULT_GATEWAY, Party, PaymentRequest};
use crate::expression::{Expression, Facts, Value, Vocabulary, map, plain};

const PARTY: &[&str] = &["account", "name"];

static VOCABULARY: Vocabulary = Vocabulary {
    variables: &[
        "paymentId",
        "amountMinor",
        "currency",
        "debtor",
        "creditor",
        "gateway",
        "lane",
        "executeAt",
        "deadline",
        "reference",
        "metadata",
        "now",
        "holdIfLate",
    ],
    objects: &[("debtor", PARTY), ("creditor", PARTY)],
};

/// The error fits behind the rule's name.
pub(super) fn compile(source: &str) -> Result<Expression, String> {
    let (sample, lane) = (sample(), LaneName::new("default"));
    let sample = of(&sample, DEFAULT_GATEWAY, &lane, Timestamp::UNIX_EPOCH);
    Expression::compile(&VOCABULARY, &sample, source)
}

/// What is known of a payment at this moment.
pub(super) fn of(
    payment: &PaymentRequest,
    gateway: &str,
    lane: &LaneName,
    now: Timestamp,
) -> Facts {
    let seconds = |time: Timestamp| Value::Int(time.as_second());
    // Without a time it runs as soon as it can.
    let execute_at = payment.execute_at.unwrap_or(now);
    let reference = payment.reference.as_deref().unwrap_or_default();
    let metadata = payment.metadata.iter().flatten();
    let metadata = map(metadata.map(|(key, value)| (key.clone(), plain(value))));
    let known = vec![
        ("paymentId", payment.payment_id.as_str().into()),
        ("amountMinor", Value::Int(payment.money.minor)),
        ("currency", payment.money.currency.code().into()),
        ("debtor", party(&payment.debtor)),
        ("creditor", party(&payment.creditor)),
        ("gateway", gateway.into()),
        ("lane", lane.as_str().into()),
        ("executeAt", seconds(execute_at)),
        ("deadline", payment.deadline.map_or(Value::Null, seconds)),
        ("reference", reference.into()),
        ("metadata", metadata),
        ("now", seconds(now)),
        ("holdIfLate", Value::Bool(payment.hold_if_late)),
    ];
    Facts::new(known, payment.money.currency)
}

fn party(party: &Party) -> Value {
    let fields = [("account", &party.account), ("name", &party.name)];
    map(fields.map(|(name, text)| (name.to_owned(), text.as_str().into())))
}

/// A payment with as little in it as there can be.
fn sample() -> PaymentRequest {
    let written = json!({
        "paymentId": "sample", "amount": "0.01", "currency": "EUR",
        "debtor": {"account": "debtor", "name": "debtor"},
        "creditor": {"account": "creditor", "name": "creditor"},
    });
    PaymentRequest::parse(&written).expect("it has every field that is required")
}

#[cfg(test)]
mod tests;
