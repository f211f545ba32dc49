//! The audit log: where the cold half writes it.

use tollgate_core::Timestamp;

use crate::audit::Entry;
use crate::sql::{Tx, params};

pub(super) async fn audit(tx: &Tx, entry: &Entry<'_>, now: Timestamp) {
    const AUDIT: &str = "INSERT INTO audit_log (batch_id, item_type, item_id, action,
             status_before, status_after, actor, detail, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let written = params![
        entry.batch,
        entry.item.map(|item| &item.item_type),
        entry.item.map(|item| &item.id),
        entry.action,
        entry.before,
        entry.after,
        entry.actor,
        entry.detail,
        now,
    ];
    tx.execute(AUDIT, written).await;
}
