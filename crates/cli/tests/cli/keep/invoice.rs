//! An archived invoice answers as an archived payment does: a repeat is a repeat, and no action on it is possible, whether its day is in
//! the database or in files only.

use serde_json::{Value, json};
use tollgate_core::id::ItemType;

use super::archive::{Scene, done, reaches, says};
use super::day::{DAY, paid};
use crate::fixture::http::{Response, get, post};
use crate::fixture::served::Served;

const FIRST: &str = "restore the day first: tollgate archive restore 2024-02-29";

fn invoice(value: &str) -> Value {
    let amount = json!({"value": value, "currency": "DKK"});
    json!({"invoiceId": "inv_1", "customerId": "c_1", "amount": amount})
}

fn create(server: &Served, value: &str) -> Response {
    post(server.address, "/invoices", &invoice(value)).unwrap()
}

#[test]
fn an_archived_invoice_is_a_repeat_and_cannot_be_acted_on() {
    let scene = Scene::empty(None, tempfile::tempdir().unwrap());
    scene.put(&ItemType::new("INVOICE"), &[paid(&invoice("100.00"))]);
    let server = scene.start(0);
    reaches(&server, "EXPORTED");
    let shown = get(server.address, "/invoices/inv_1").unwrap();
    assert_eq!(shown.body["archived"], DAY, "{}", shown.text);
    let repeat = is_a_repeat(&server);
    assert_eq!(repeat["scheduledTime"], format!("{DAY}T12:00:00Z"));
    for refused in acts(&server) {
        says(&refused, &[DAY, "in the archive", "use a new id"]);
        assert!(!refused.text.contains("restore"), "{}", refused.text);
    }

    assert_eq!(done(&server, "run")["dropped"], 1);
    let gone = get(server.address, "/invoices/inv_1").unwrap();
    assert_eq!((gone.status, &gone.body["code"]), (410, &json!("archived")));
    says(&gone, &[DAY, "SHA-256"]);
    let repeat = is_a_repeat(&server);
    assert_eq!(repeat["scheduledTime"], Value::Null, "it is in the file");
    for refused in acts(&server) {
        says(&refused, &[DAY, FIRST, "use a new id"]);
    }
}

fn is_a_repeat(server: &Served) -> Value {
    let repeat = create(server, "100.00");
    assert_eq!(repeat.status, 200, "{}", repeat.text);
    let said = (&repeat.body["status"], &repeat.body["archived"]);
    assert_eq!(said, (&json!("PAID"), &json!(DAY)));
    assert_eq!(repeat.body["amount"], invoice("100.00")["amount"]);
    let other = create(server, "100.01");
    let said = (other.status, &other.body["code"]);
    assert_eq!(said, (409, &json!("id_conflict")), "{}", other.text);
    repeat.body
}

/// What is answered to everything that a person can do to an invoice.
fn acts(server: &Served) -> Vec<Response> {
    let acts = [
        ("reschedule", json!({"reason": "a test"})),
        ("cancel", json!({"reason": "a test"})),
        (
            "correct",
            json!({"reason": "a test", "amount": {"value": "90.00", "currency": "DKK"}}),
        ),
        (
            "settle",
            json!({"reason": "a test", "reference": "transfer 7"}),
        ),
    ];
    let each = acts.iter().map(|(act, body)| {
        let refused = post(server.address, &format!("/invoices/inv_1/{act}"), body).unwrap();
        let said = (refused.status, &refused.body["code"]);
        assert_eq!(said, (409, &json!("archived")), "{act}: {}", refused.text);
        refused
    });
    each.collect()
}
