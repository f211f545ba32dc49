//! The audit log: where the cold half writes it, and how people read it (`log.rs`).

pub(crate) mod log;

use tollgate_core::id::Item;
use tollgate_core::ports::Author;

use crate::audit::Entry;
use crate::sql::{Params, Tx, params};

const AUDIT: &str = "INSERT INTO audit_log (batch_id, item_type, item_id, action, status_before,
         status_after, actor, detail, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, tg_now())";

pub(super) async fn audit(tx: &Tx, entry: &Entry<'_>) {
    tx.execute(AUDIT, written(entry)).await;
}

/// A move of an item, as the audit log calls it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move<'a> {
    pub(super) action: &'a str,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

impl<'a> Move<'a> {
    fn of(self, item: &'a Item, author: &'a Author) -> Entry<'a> {
        Entry {
            item: Some(item),
            action: self.action,
            before: Some(self.before),
            after: Some(self.after),
            actor: &author.actor,
            detail: &author.reason,
            ..Entry::default()
        }
    }
}

/// That somebody has moved an item, and why.
pub(super) async fn audit_move(
    tx: &Tx,
    item: &Item,
    action: &str,
    before: &str,
    after: &str,
    author: &Author,
) {
    let moved = Move {
        action,
        before,
        after,
    };
    audit(tx, &moved.of(item, author)).await;
}

/// The same move of many, at once.
pub(super) async fn audit_moves(tx: &Tx, items: &[Item], moved: Move<'_>, author: &Author) {
    let entries = items.iter().map(|item| written(&moved.of(item, author)));
    let entries = entries.collect();
    tx.execute_each(AUDIT, entries).await;
}

fn written(entry: &Entry<'_>) -> Params {
    params![
        entry.batch,
        entry.item.map(|item| &item.item_type),
        entry.item.map(|item| &item.id),
        entry.action,
        entry.before,
        entry.after,
        entry.actor,
        entry.detail,
    ]
}
