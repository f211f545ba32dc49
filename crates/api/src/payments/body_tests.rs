//! That the contract's `NewPayment` is what the domain reads. The domain reads it field by field, so that all that is
//! wrong is told at once.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate_domains::payments::PaymentRequest;

fn schema() -> Value {
    let document: Value = serde_json::from_str(crate::openapi_json()).unwrap();
    document["components"]["schemas"]["NewPayment"].clone()
}

#[test]
fn the_example_is_a_payment_with_every_field_but_the_gateway() {
    let schema = schema();
    PaymentRequest::parse(&schema["example"]).unwrap();
    for field in schema["properties"].as_object().unwrap().keys() {
        let is_there = schema["example"][field] != Value::Null;
        assert_eq!(is_there, field != "gateway", "{field}");
    }
}

#[test]
fn the_schema_has_the_fields_that_the_domain_reads_and_no_others() {
    let schema = schema();
    let known = schema["properties"].as_object().unwrap().keys();
    let known: BTreeSet<&str> = known.map(String::as_str).collect();
    assert_eq!(known, BTreeSet::from(PaymentRequest::FIELDS));
}

#[test]
fn what_the_schema_requires_the_domain_requires_and_no_more() {
    let schema = schema();
    let wrong = PaymentRequest::parse(&Value::Object(serde_json::Map::new())).unwrap_err();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(required.len(), wrong.len(), "{wrong:?}");
    assert!(required.iter().all(|field| wrong.contains_key(*field)));
}

#[test]
fn a_field_that_the_schema_does_not_know_is_refused() {
    let mut payment = schema()["example"].clone();
    payment["ammount"] = "1.00".into();
    let wrong = PaymentRequest::parse(&payment).unwrap_err();
    assert!(wrong.contains_key("ammount"), "{wrong:?}");
}
