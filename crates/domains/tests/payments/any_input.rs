//! Whatever a caller sends is answered: a payment, or what is wrong by field. Never a panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tollgate_domains::payments::PaymentRequest;

fn good() -> Value {
    json!({
        "paymentId": "pay_1", "amount": "125.50", "currency": "USD",
        "debtor": {"account": "DE-1", "name": "Ann"}, "creditor": {"account": "US-2", "name": "Bob"},
        "executeAt": "2026-11-16T16:00:00[America/Phoenix]", "deadline": "2026-11-17T00:00:00Z",
        "onMissedDeadline": "hold", "gateway": "acme", "reference": "r", "metadata": {"k": [1, null]},
    })
}

/// Text that is often nearly right.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+]?[0-9]{0,30}[.,]?[0-9]{0,30}([eE][-+]?[0-9]{1,4})?",
        "[0-9]{1,6}-[0-9]{1,2}-[0-9]{1,2}T[0-9:.]{0,12}(Z|[-+][0-9:]{0,5})?(\\[[A-Za-z/_]{0,20}\\])?",
        "[A-Za-z0-9_.:-]{0,140}",
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(texts(), inner, 0..6)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_is_a_payment_or_has_named_faults(body in values()) {
        if let Err(wrong) = PaymentRequest::parse(&body) {
            prop_assert!(!wrong.is_empty());
        }
    }

    #[test]
    fn one_odd_field_is_taken_or_named_and_no_other_is_blamed(
        at in 0..PaymentRequest::FIELDS.len(), odd in values(), parties in any::<bool>(),
    ) {
        let mut body = good();
        let field = PaymentRequest::FIELDS[at];
        match &mut body[field] {
            Value::Object(party) if parties && party.contains_key("account") => {
                party.insert("account".into(), odd);
            }
            value => *value = odd,
        }
        match PaymentRequest::parse(&body) {
            Ok(payment) => {
                // What was taken can be journaled and read again, and is still the same payment.
                let json = serde_json::to_string(&payment).unwrap();
                let again: PaymentRequest = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(again.content_hash(), payment.content_hash());
            }
            Err(wrong) => {
                let blamed = wrong.keys().next().unwrap();
                let alike = ["amount", "currency"];
                let about_it = blamed.starts_with(field)
                    || (alike.contains(&field) && alike.contains(&blamed.as_str()))
                    // A hold needs a deadline.
                    || (field == "deadline" && blamed == "onMissedDeadline");
                prop_assert!(about_it, "{field} was odd, blamed was {wrong:?}");
            }
        }
    }
}

#[test]
fn a_number_with_many_digits_is_the_same_after_it_was_journaled() {
    let mut body = good();
    body["metadata"] = json!({"n": 1.009_753_233_639_149_1e126});
    let payment = PaymentRequest::parse(&body).unwrap();
    let json = serde_json::to_string(&payment).unwrap();
    let again: PaymentRequest = serde_json::from_str(&json).unwrap();
    assert_eq!(again.content_hash(), payment.content_hash());
}
