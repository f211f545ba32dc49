//! The audit log, as the hot path writes it.

use deadpool_postgres::GenericClient;
use tollgate_core::ports::StoreResult;

use crate::audit::Entry;
use crate::postgres::connection::run::{Params, execute};
use crate::postgres::connection::value::storable;

pub(super) async fn audit(c: &impl GenericClient, entry: &Entry<'_>) -> StoreResult<()> {
    const AUDIT: &str = "INSERT INTO audit_log (batch_id, item_type, item_id, action,
             status_before, status_after, actor, detail, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, tg_now())";
    let item_type = entry.item.map(|i| i.item_type.as_str());
    let item_id = entry.item.map(|i| i.id.as_str());
    let (actor, detail) = (storable(entry.actor), storable(entry.detail));
    let params: Params<'_> = &[
        &entry.batch,
        &item_type,
        &item_id,
        &entry.action,
        &entry.before,
        &entry.after,
        &&*actor,
        &&*detail,
    ];
    execute(c, AUDIT, params).await.map(drop)
}
