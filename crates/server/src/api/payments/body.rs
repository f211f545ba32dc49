//! A payment as callers write it, for the document. The domain reads it field by field, so that all that is
//! wrong is told at once; a test here keeps the two together.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::contract::words;

/// A payment to send.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewPayment, example = json!({
    "paymentId": "pay_001", "amount": "125.50", "currency": "USD",
    "debtor": {"account": "DE02120300000000202051", "name": "Acme"},
    "creditor": {"account": "DE02500105170137075030", "name": "Bolt"},
    "executeAt": "2026-11-16T16:00:00-07:00", "deadline": "2026-11-17T00:00:00Z",
    "onMissedDeadline": "run", "reference": "invoice 42", "metadata": {"order": "42"}
}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct PaymentBody {
    /// Payment id, chosen by the client. `bulk` and `check-status` are reserved.
    #[schema(schema_with = words::id)]
    payment_id: String,
    /// Decimal number with at most as many fraction digits as the currency has.
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    amount: String,
    /// ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$")]
    currency: String,
    debtor: Party,
    creditor: Party,
    /// Time with an offset, or with a time zone in brackets. Default: now. A time up to 24 hours in
    /// the past means now. A local time skipped by a clock change means the end of the gap.
    execute_at: Option<String>,
    deadline: Option<String>,
    /// `run` runs it late; `hold` waits for a person.
    #[schema(schema_with = words::run_or_hold)]
    on_missed_deadline: Option<String>,
    /// Gateway (bank). Default: chosen by the routes, or else `default`.
    #[schema(max_length = 64)]
    gateway: Option<String>,
    #[schema(max_length = 140)]
    reference: Option<String>,
    #[schema(schema_with = words::metadata)]
    metadata: Option<()>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Party {
    #[schema(min_length = 1, max_length = 64)]
    account: String,
    #[schema(min_length = 1, max_length = 140)]
    name: String,
}

#[cfg(test)]
mod tests {
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
}
