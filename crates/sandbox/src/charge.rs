//! Reads the body of a charge by the provider's own understanding of the contract, and keeps what
//! was said to each key: a question names the key and nothing else.

use serde_json::{Map, Value, json};

use crate::order::{Malformed, Order, parse_amount, text};

/// What the ledger calls an invoice: payment 42 and invoice 42 never meet in it.
pub(crate) fn named(invoice_id: &str) -> String {
    format!("invoice/{invoice_id}")
}

/// A charge the provider can carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) invoice_id: String,
    /// The same as an order, under the invoice's name in the ledger.
    pub(crate) order: Order,
}

impl Charge {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let fields: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| Malformed::new("body", &error.to_string()))?;
        let invoice_id = text(&fields, "invoiceId")?;
        text(&fields, "customerId")?;
        let amount_text = text(&fields, "amount")?;
        let amount = parse_amount(&amount_text)?;
        let currency = text(&fields, "currency")?;
        let order = Order {
            payment_id: named(&invoice_id),
            amount,
            amount_text,
            currency,
        };
        Ok(Self { invoice_id, order })
    }
}

pub(crate) fn yes(reference: u64) -> String {
    json!({"charged": true, "reference": format!("charge-{reference}")}).to_string()
}

pub(crate) fn no() -> String {
    json!({"charged": false, "reason": "insufficient funds"}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_names_its_invoice_and_customer_and_a_bad_one_its_field() {
        let good = br#"{"invoiceId":"inv_1","customerId":"c_1","amount":"1.50","currency":"DKK"}"#;
        let charge = Charge::parse(good).unwrap();
        assert_eq!(charge.order.payment_id, "invoice/inv_1");
        let cases = [
            ("{", "body"),
            (r#"{"customerId":"c"}"#, "invoiceId"),
            (r#"{"invoiceId":"i"}"#, "customerId"),
            (r#"{"invoiceId":"i","customerId":"c","amount":1}"#, "amount"),
            (
                r#"{"invoiceId":"i","customerId":"c","amount":"1"}"#,
                "currency",
            ),
        ];
        for (body, field) in cases {
            let refused = Charge::parse(body.as_bytes()).map_err(|malformed| malformed.field);
            assert_eq!(refused, Err(field), "{body}");
        }
    }
}
