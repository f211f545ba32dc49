//! The audit log as people ask for it, newest first: each question by its own index.

use tollgate_core::actor::Kind;
use tollgate_core::ports::{AuditEntry, AuditWanted, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

use crate::sql::{Row, Sql, Tx, params};

/// Entries of transactions beside each other are not exactly in the order of their times: a stretch of time is
/// looked for with so much around it.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// Newest first, or from `before` on the oldest first.
pub(crate) async fn entries(tx: &Tx, wanted: &AuditWanted, asked: u32) -> StoreResult<Vec<Row>> {
    let (from, before) = bounds(tx, wanted).await?;
    let sql = if wanted.before.is_some() {
        NEWER
    } else {
        OLDER
    };
    Ok(
        match (&wanted.item, &wanted.action, &wanted.actor, wanted.by) {
            (Some(item), _, _, _) => {
                let key = params![&item.item_type, &item.id, from, before, asked];
                tx.rows(sql.items, key).await
            }
            (None, Some(action), _, _) => {
                let key = params![action, from, before, asked];
                tx.rows(sql.actions, key).await
            }
            (None, None, Some(actor), _) => {
                let key = params![actor, from, before, asked];
                tx.rows(sql.actors, key).await
            }
            (None, None, None, Some(Kind::People)) => {
                tx.rows(sql.people, params![from, before, asked]).await
            }
            (None, None, None, Some(Kind::Machine) | None) => {
                tx.rows(sql.all, params![from, before, asked]).await
            }
        },
    )
}

/// One way through the log, by each of its indexes. The names of `people` are those of the index.
struct Way {
    items: &'static str,
    actions: &'static str,
    actors: &'static str,
    people: Sql,
    all: &'static str,
}

const OLDER: Way = Way {
    items: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log
             WHERE item_type = $1 AND item_id = $2 AND audit_id >= $3 AND audit_id < $4
             ORDER BY audit_id DESC LIMIT $5",
    actions: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE action = $1 AND audit_id >= $2 AND audit_id < $3
             ORDER BY audit_id DESC LIMIT $4",
    actors: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE actor = $1 AND audit_id >= $2 AND audit_id < $3
             ORDER BY audit_id DESC LIMIT $4",
    people: Sql::each(
        "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log INDEXED BY audit_log_people
             WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                       'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                       'tollgate')
               AND audit_id >= $1 AND audit_id < $2 ORDER BY audit_id DESC LIMIT $3",
        "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log
             WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                       'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                       'tollgate')
               AND audit_id >= $1 AND audit_id < $2 ORDER BY audit_id DESC LIMIT $3",
    ),
    all: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE audit_id >= $1 AND audit_id < $2
             ORDER BY audit_id DESC LIMIT $3",
};

const NEWER: Way = Way {
    items: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log
             WHERE item_type = $1 AND item_id = $2 AND audit_id >= $3 AND audit_id < $4
             ORDER BY audit_id LIMIT $5",
    actions: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE action = $1 AND audit_id >= $2 AND audit_id < $3
             ORDER BY audit_id LIMIT $4",
    actors: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE actor = $1 AND audit_id >= $2 AND audit_id < $3
             ORDER BY audit_id LIMIT $4",
    people: Sql::each(
        "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log INDEXED BY audit_log_people
             WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                       'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                       'tollgate')
               AND audit_id >= $1 AND audit_id < $2 ORDER BY audit_id LIMIT $3",
        "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log
             WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                       'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                       'tollgate')
               AND audit_id >= $1 AND audit_id < $2 ORDER BY audit_id LIMIT $3",
    ),
    all: "SELECT created_at, item_type, item_id, action, status_before,
                 status_after, actor, detail, audit_id, batch_id
             FROM audit_log WHERE audit_id >= $1 AND audit_id < $2
             ORDER BY audit_id LIMIT $3",
};

/// The entries of an item, with those that lie in the archive with it.
pub(crate) fn with_archived(
    wanted: &AuditWanted,
    mut entries: Vec<AuditEntry>,
    archived: Vec<AuditEntry>,
    asked: u32,
) -> Vec<AuditEntry> {
    if archived.is_empty() {
        return entries;
    }
    let is_beside = |entry: &AuditEntry| {
        wanted.after.is_none_or(|after| entry.id < after)
            && wanted.before.is_none_or(|before| entry.id > before)
    };
    entries.extend(archived.into_iter().filter(is_beside));
    entries.sort_by_key(|entry| entry.id);
    entries.dedup_by_key(|entry| entry.id);
    if wanted.before.is_none() {
        entries.reverse();
    }
    entries.truncate(usize::try_from(asked).unwrap_or(usize::MAX));
    entries
}

/// From which entry on, and before which.
async fn bounds(tx: &Tx, wanted: &AuditWanted) -> StoreResult<(i64, i64)> {
    let from = match wanted.from {
        Some(from) => first_since(tx, earlier(from)).await?,
        None => 0,
    };
    let to = match wanted.to {
        Some(to) => first_since(tx, later(to)).await?,
        None => i64::MAX,
    };
    let newer = wanted.before.map_or(0, |entry| entry.saturating_add(1));
    Ok((from.max(newer), to.min(wanted.after.unwrap_or(i64::MAX))))
}

fn earlier(at: Timestamp) -> Timestamp {
    at.checked_sub(SLACK).unwrap_or(Timestamp::MIN)
}

fn later(at: Timestamp) -> Timestamp {
    at.checked_add(SLACK).unwrap_or(Timestamp::MAX)
}

/// The first entry from this time on, by halves: entries come in the order of time, so the key serves it, and no
/// write pays for an index.
async fn first_since(tx: &Tx, at: Timestamp) -> StoreResult<i64> {
    const LAST: &str =
        "SELECT audit_id FROM audit_log WHERE audit_id > 0 ORDER BY audit_id DESC LIMIT 1";
    const NEXT: &str = "SELECT audit_id, created_at FROM audit_log WHERE audit_id >= $1
         ORDER BY audit_id LIMIT 1";
    let Some(last) = tx.row(LAST, params![]).await else {
        return Ok(0);
    };
    let (mut low, mut high) = (1, last.get::<i64>("audit_id")? + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match tx.row(NEXT, params![middle]).await {
            Some(row) if row.get::<Timestamp>("created_at")? < at => {
                low = row.get::<i64>("audit_id")? + 1;
            }
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use tollgate_core::actor;

    #[test]
    fn the_index_of_people_leaves_out_every_name_of_the_machine() {
        let names: Vec<String> = actor::ALL
            .into_iter()
            .filter(|name| *name != actor::LOCAL)
            .map(|name| format!("'{name}'"))
            .collect();
        let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let index = format!("NOT IN ({})", names.join(", "));
        for text in [
            include_str!("../../../migrations/sqlite/V1__spine.sql"),
            include_str!("../../../migrations/postgres/V1__spine.sql"),
            include_str!("log.rs"),
            include_str!("../lists/counts.rs"),
        ] {
            assert!(on_one_line(text).contains(&index), "{index}");
        }
    }
}
