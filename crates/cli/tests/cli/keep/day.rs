//! One day of the archive: its payments, as a move has left them.

use serde_json::{Value, json};
use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::ItemType;
use tollgate_domains::invoices::InvoiceRequest;
use tollgate_domains::payments::PaymentRequest;

use crate::fixture::pair::payment;

/// Older than any archive keeps in the database.
pub(super) const DAY: &str = "2024-02-29";
/// More than one page.
pub(super) const COUNT: usize = 700;

pub(super) fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}

pub(super) fn day() -> ArchiveDay {
    DAY.parse().unwrap()
}

/// As a move would have written them.
pub(super) fn items() -> Vec<ArchivedItem> {
    (0..COUNT).map(item).collect()
}

fn item(number: usize) -> ArchivedItem {
    let id = format!("p{number:04}");
    let at = format!("{DAY}T12:00:00.{number:06}Z");
    let status = if number % 10 == 7 {
        "REJECTED"
    } else {
        "PROCESSING"
    };
    let mut body = json!(PaymentRequest::parse(&payment(&id)).unwrap());
    body["route"] = json!({"gateway": "default"});
    let hash = format!("hash of {number}");
    ended(
        &json!({
            "itemType": "PAYMENT", "id": id, "status": status, "currency": "USD", "amountMinor": 12550,
            "lane": "default", "owner": null, "byOwner": false, "contentHash": hash,
            "body": body.to_string(), "initFlow": format!("init-payment-{id}"),
        }),
        &at,
    )
}

/// An invoice that was paid on the day.
pub(super) fn paid(request: &Value) -> ArchivedItem {
    let invoice = InvoiceRequest::parse(request).unwrap();
    ended(
        &json!({
            "itemType": "INVOICE", "id": invoice.invoice_id, "status": "PAID",
            "currency": invoice.money.currency, "amountMinor": invoice.money.minor, "lane": "invoices",
            "owner": invoice.customer_id, "byOwner": true, "contentHash": invoice.content_hash(),
            "body": request.to_string(),
            "initFlow": format!("create-invoice-{}", invoice.invoice_id),
        }),
        &format!("{DAY}T12:00:00Z"),
    )
}

/// An item of which this is all that happened.
fn ended(what: &Value, at: &str) -> ArchivedItem {
    let mut item = json!({
        "schema": 1, "queueStatus": "DISPATCHED", "createdAt": at, "finishedAt": at,
        "updatedAt": at, "requestedTime": at, "windowStart": at, "scheduledTime": at,
        "scheduledExecTime": at, "generation": 0, "deadline": null, "holdAfter": null,
        "duplicateKey": null, "counted": false, "run": 1, "retryCount": 0, "failures": 0,
        "fence": 1, "claimedAt": at, "dispatchedAt": at, "dispatchBatchId": null,
        "execFlow": null, "lastError": null, "heldBy": null, "passedRules": null,
        "bulkId": null, "attempts": [], "audit": [],
    });
    let fields = what.as_object().unwrap().clone();
    item.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(item).unwrap()
}
