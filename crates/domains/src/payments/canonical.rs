//! Sameness: the hash of a request as it was made, before defaults are filled in. `125.5` equals
//! `125.50`, the order of fields does not matter, and an omitted `executeAt` stays omitted.

use serde_json::{Value, json};

use super::{Party, PaymentRequest};
use crate::digest;

impl PaymentRequest {
    /// 64 hexadecimal digits.
    pub fn content_hash(&self) -> String {
        // All fields by name: one that is forgotten here would make two different payments the same.
        let Self {
            payment_id,
            money,
            debtor,
            creditor,
            execute_at,
            deadline,
            deadline_given: _, // how a deadline beyond all clocks was written; `deadline` stands for it
            hold_if_late,
            gateway,
            reference,
            metadata,
        } = self;
        let party = |Party { account, name }: &Party| json!([account, name]);
        let canonical = json!([
            payment_id,
            money.minor,
            money.currency,
            party(debtor),
            party(creditor),
            execute_at,
            deadline,
            hold_if_late,
            gateway,
            reference,
            metadata
                .as_ref()
                .map(|map| sorted(&Value::Object(map.clone()))),
        ]);
        digest::of(&canonical.to_string())
    }
}

/// Objects as lists of pairs in the order of their keys, whatever order the parser kept.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map
                .iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            pairs.sort_by_key(|(key, _)| *key);
            json!({ "object": pairs })
        }
        Value::Array(values) => values.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> String {
        let body: Value = serde_json::from_str(text).unwrap();
        PaymentRequest::parse(&body).unwrap().content_hash()
    }

    #[test]
    fn the_same_payment_written_differently_is_the_same() {
        let one = r#"{"paymentId":"p","amount":"125.5","currency":"USD","executeAt":"2026-11-16T16:00:00-07:00",
            "debtor":{"account":"a","name":"A"},"creditor":{"account":"b","name":"B"},"metadata":{"x":1,"y":{"p":1,"q":2}}}"#;
        let two = r#"{"metadata":{"y":{"q":2,"p":1},"x":1},"currency":"USD","amount":"125.50","reference":null,
            "executeAt":"2026-11-16T23:00:00Z","paymentId":"p",
            "creditor":{"name":"B","account":"b"},"debtor":{"name":"A","account":"a"}}"#;
        assert_eq!(hash(one), hash(two));
    }

    #[test]
    fn every_field_makes_a_difference() {
        let base = r#"{"paymentId":"p","amount":"1","currency":"USD","debtor":{"account":"a","name":"A"},"creditor":{"account":"b","name":"B"}}"#;
        let others = [
            (r#""p""#, r#""p2""#),
            (r#""1""#, r#""2""#),
            ("USD", "EUR"),
            (r#""account":"a""#, r#""account":"z""#),
            (r#""name":"B""#, r#""name":"Z""#),
            (r#"{"paymentId""#, r#"{"reference":"r","paymentId""#),
            (
                r#"{"paymentId""#,
                r#"{"executeAt":"2026-11-16T16:00:00Z","paymentId""#,
            ),
            (
                r#"{"paymentId""#,
                r#"{"deadline":"2026-11-16T16:00:00Z","paymentId""#,
            ),
            (r#"{"paymentId""#, r#"{"gateway":"g","paymentId""#),
            (r#"{"paymentId""#, r#"{"metadata":{},"paymentId""#),
        ];
        for (from, to) in others {
            assert_ne!(hash(base), hash(&base.replacen(from, to, 1)), "{to}");
        }
    }
}
