//! The audit log, as the hot path writes it.

use rusqlite::{Connection, params};

use crate::audit::Entry;
use crate::sqlite::connection::value::Us;

pub(super) fn audit(c: &Connection, now: Us, entry: &Entry<'_>) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO audit_log (batch_id, item_type, item_id, action, status_before,
                                status_after, actor, detail, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        entry.batch,
        entry.item.map(|i| i.item_type.as_str()),
        entry.item.map(|i| i.id.as_str()),
        entry.action,
        entry.before,
        entry.after,
        entry.actor,
        entry.detail,
        now,
    ])?;
    Ok(())
}
