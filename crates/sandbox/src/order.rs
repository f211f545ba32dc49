//! Reads the body of a payment by the bank's own understanding of the contract. It looks no
//! further than a bank needs to: gateway and reference are the sender's business.

use rust_decimal::Decimal;
use serde_json::{Map, Value};

/// Keeps sums exact: a billion payments of this size still fit a `Decimal` with four decimals.
const MAX_AMOUNT: Decimal = Decimal::from_parts(0xA4C6_8000, 0x3_8D7E, 0, false, 0); // 10^15
const MAX_DECIMALS: u32 = 4;

/// A payment the bank can carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) payment_id: String,
    pub(crate) amount: Decimal,
    /// As the sender wrote it.
    pub(crate) amount_text: String,
    pub(crate) currency: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub(crate) struct Malformed {
    pub(crate) field: &'static str,
    reason: String,
}

impl Malformed {
    pub(crate) fn new(field: &'static str, reason: &str) -> Self {
        malformed(field, reason)
    }
}

impl Order {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let fields: Map<String, Value> =
            serde_json::from_slice(body).map_err(|error| malformed("body", &error.to_string()))?;
        let payment_id = text(&fields, "paymentId")?;
        let amount_text = text(&fields, "amount")?;
        let amount = parse_amount(&amount_text)?;
        let currency = text(&fields, "currency")?;
        for party in ["debtor", "creditor"] {
            if fields.get(party).is_none_or(Value::is_null) {
                return Err(malformed(party, "is missing"));
            }
        }
        Ok(Self {
            payment_id,
            amount,
            amount_text,
            currency,
        })
    }
}

pub(crate) fn text(fields: &Map<String, Value>, field: &'static str) -> Result<String, Malformed> {
    match fields.get(field) {
        None | Some(Value::Null) => Err(malformed(field, "is missing")),
        Some(Value::String(text)) if text.is_empty() => Err(malformed(field, "is empty")),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(malformed(field, "must be a string"))
        }
    }
}

pub(crate) fn parse_amount(text: &str) -> Result<Decimal, Malformed> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    Decimal::from_str_exact(text)
        .ok()
        .filter(|amount| is_plain && *amount <= MAX_AMOUNT && amount.scale() <= MAX_DECIMALS)
        .ok_or_else(|| {
            malformed(
                "amount",
                "must be a decimal from 0 to 10^15 with at most 4 decimals",
            )
        })
}

fn malformed(field: &'static str, reason: &str) -> Malformed {
    Malformed {
        field,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_amount_is_ten_to_the_fifteenth() {
        assert_eq!(MAX_AMOUNT.to_string(), "1000000000000000");
    }

    #[test]
    fn a_body_the_bank_cannot_read_is_refused_by_the_name_of_the_field() {
        let cases = [
            ("{", "body"),
            ("[]", "body"),
            (r#"{"amount":"1"}"#, "paymentId"),
            (r#"{"paymentId":7}"#, "paymentId"),
            (r#"{"paymentId":""}"#, "paymentId"),
            (r#"{"paymentId":"p","amount":1.5}"#, "amount"),
            (r#"{"paymentId":"p","amount":"-1"}"#, "amount"),
            (r#"{"paymentId":"p","amount":"1_000"}"#, "amount"),
            (r#"{"paymentId":"p","amount":"0.00001"}"#, "amount"),
            (r#"{"paymentId":"p","amount":"1000000000000001"}"#, "amount"),
            (r#"{"paymentId":"p","amount":"1"}"#, "currency"),
            (
                r#"{"paymentId":"p","amount":"1","currency":"EUR"}"#,
                "debtor",
            ),
            (
                r#"{"paymentId":"p","amount":"1","currency":"EUR","debtor":{}}"#,
                "creditor",
            ),
        ];
        for (body, field) in cases {
            let refused = Order::parse(body.as_bytes()).map_err(|malformed| malformed.field);
            assert_eq!(refused, Err(field), "{body}");
        }
    }
}
