//! One day of the archive: its payments, as a move has left them.

use serde_json::json;
use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::ItemType;
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
    let body = body.to_string();
    let item = json!({
        "schema": 1, "itemType": "PAYMENT", "id": id, "status": status, "queueStatus": "DISPATCHED",
        "currency": "USD", "amountMinor": 12550, "lane": "default", "createdAt": at, "finishedAt": at,
        "updatedAt": at, "requestedTime": at, "windowStart": at, "scheduledTime": at,
        "scheduledExecTime": at, "generation": 0, "deadline": null, "holdAfter": null,
        "duplicateKey": null, "owner": null, "counted": false, "byOwner": false, "run": 1,
        "retryCount": 0, "failures": 0, "fence": 1, "claimedAt": at, "dispatchedAt": at,
        "dispatchBatchId": null, "execFlow": null, "lastError": null, "heldBy": null,
        "passedRules": null, "contentHash": format!("hash of {number}"), "body": body,
        "initFlow": format!("init-payment-p{number:04}"), "bulkId": null, "attempts": [], "audit": [],
    });
    serde_json::from_value(item).unwrap()
}
