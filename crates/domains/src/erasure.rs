//! What stays of a body when a person's data go: ids, amounts, times and where it went. Everything else goes, also what
//! a later release may add, until it is named here.

use serde_json::{Map, Value, json};
use tollgate_core::account::is_same;
use tollgate_core::erasure::{BodyRules, ERASED};
use tollgate_core::id::{ItemId, ItemType};

use crate::{invoices, notifications, payments};

/// What an erasure asks about bodies.
pub const RULES: BodyRules = BodyRules {
    erase: erased_body,
    is_of: is_of_account,
    payment: payment_of_notification,
};

/// Debtor or creditor, however the account is written; or the customer, whose id is compared as it is: it is no account.
fn is_of_account(item_type: &ItemType, body: &str, account: &str) -> bool {
    let Ok(body) = serde_json::from_str::<Value>(body) else {
        return false;
    };
    if *item_type == payments::item_type() {
        let parties = [&body["debtor"], &body["creditor"]];
        let mut accounts = parties.iter().filter_map(|party| party["account"].as_str());
        return accounts.any(|it| is_same(it, account));
    }
    *item_type == invoices::item_type() && body["customerId"] == account
}

fn payment_of_notification(body: &str) -> Option<ItemId> {
    let context: Value = serde_json::from_str(body).ok()?;
    let message: Value = serde_json::from_str(context["body"].as_str()?).ok()?;
    message["data"]["paymentId"].as_str().map(ItemId::new)
}

/// A body without a person's data: readable as before. Erasing it again changes nothing.
fn erased_body(item_type: &ItemType, body: &str) -> String {
    let Ok(Value::Object(body)) = serde_json::from_str(body) else {
        return "{}".to_owned();
    };
    let erased = if *item_type == payments::item_type() {
        payment(&body)
    } else if *item_type == invoices::item_type() {
        invoice(&body)
    } else if *item_type == notifications::item_type() {
        notification(&body)
    } else {
        Map::new()
    };
    Value::Object(erased).to_string()
}

fn payment(body: &Map<String, Value>) -> Map<String, Value> {
    const STAYS: [&str; 6] = [
        "paymentId",
        "money",
        "executeAt",
        "deadline",
        "holdIfLate",
        "route",
    ];
    let mut kept = only(body, &STAYS);
    for party in ["debtor", "creditor"] {
        kept.insert(party.to_owned(), json!({"account": ERASED, "name": ERASED}));
    }
    kept
}

fn invoice(body: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = only(body, &["invoiceId", "amount", "corrections"]);
    kept.insert("customerId".to_owned(), json!(ERASED));
    kept
}

/// The message that it posts is a text within it. One that waits is still delivered.
fn notification(body: &Map<String, Value>) -> Map<String, Value> {
    const DATA: [&str; 5] = ["paymentId", "status", "amount", "currency", "gateway"];
    let mut kept = only(body, &["receiver", "refused"]);
    let message = body.get("body").and_then(Value::as_str).unwrap_or_default();
    let message: Map<String, Value> = serde_json::from_str(message).unwrap_or_default();
    let mut told = only(&message, &["type", "timestamp"]);
    if let Some(Value::Object(data)) = message.get("data") {
        told.insert("data".to_owned(), Value::Object(only(data, &DATA)));
    }
    kept.insert("body".to_owned(), json!(Value::Object(told).to_string()));
    kept
}

fn only(object: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    let kept = object
        .iter()
        .filter(|(key, _)| keys.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_found_by_its_account_in_any_spelling_and_an_invoice_by_its_customer_as_given() {
        let payment = json!({"debtor": {"account": "DE02 1203 0000 0000 2020 51"},
            "creditor": {"account": "FR76-3000"}})
        .to_string();
        for (account, expected) in [
            ("DE02120300000000202051", true),
            ("fr763000", true),
            ("DE02", false),
        ] {
            let found = is_of_account(&payments::item_type(), &payment, account);
            assert_eq!(found, expected, "{account}");
        }
        let invoice = json!({"customerId": "acme-1"}).to_string();
        let is_of = |id| is_of_account(&invoices::item_type(), &invoice, id);
        assert!(is_of("acme-1") && !is_of("ACME1"));
    }

    #[test]
    fn nothing_of_a_person_stays_in_a_body_and_it_can_still_be_read() {
        let payment = json!({"paymentId": "p", "money": {"minor": 100, "currency": "EUR"},
            "debtor": {"account": "DE-SECRET", "name": "SECRET"},
            "creditor": {"account": "FR-SECRET", "name": "SECRET"}, "reference": "SECRET",
            "metadata": {"SECRET": "SECRET"}, "gateway": "north", "deadlineGiven": "SECRET",
            "route": {"gateway": "north"}, "later": "SECRET"});
        let invoice = json!({"invoiceId": "i", "customerId": "SECRET", "corrections": 1,
            "amount": {"value": "1.00", "currency": "EUR"}, "schedule": {"cron": "SECRET"},
            "settledBy": {"actor": "SECRET", "reason": "SECRET", "reference": "SECRET"}});
        let message = json!({"type": "payment.processing", "timestamp": "2026-11-16T16:00:00Z",
            "data": {"paymentId": "p", "status": "PROCESSING", "reference": "SECRET"}});
        let notification = json!({"receiver": "shop:443/", "body": message.to_string()});
        let table = [
            (payments::item_type(), payment),
            (invoices::item_type(), invoice),
            (notifications::item_type(), notification),
        ];
        for (kind, body) in table {
            let erased = erased_body(&kind, &body.to_string());
            assert!(!erased.contains("SECRET"), "{erased}");
            assert_eq!(
                erased_body(&kind, &erased),
                erased,
                "erasing twice is erasing once"
            );
            if kind == payments::item_type() {
                let read: payments::PaymentRequest = serde_json::from_str(&erased).unwrap();
                assert_eq!(
                    (read.money.minor, read.debtor.account),
                    (100, ERASED.into())
                );
            }
        }
        assert_eq!(erased_body(&payments::item_type(), "not JSON SECRET"), "{}");
    }
}
