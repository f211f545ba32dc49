//! How long a list is, by its index and only so far. In the order of the index: for what most rows have, PostgreSQL
//! would rather read the table.

use tollgate_core::ports::{Counted, StoreResult};

use crate::sql::{Params, Sql, Tx, params};

pub(super) async fn counted(tx: &Tx, list: &Counted, at_most: u32) -> StoreResult<u64> {
    let (sql, wanted) = asked(list, at_most);
    tx.one(sql, wanted).await?.get("n")
}

fn asked(list: &Counted, at_most: u32) -> (Sql, Params) {
    match list {
        Counted::Dead(item_type) => (DEAD, params![item_type, at_most]),
        Counted::Imports(item_type) => (IMPORTS.into(), params![item_type, at_most]),
        Counted::Jobs => (JOBS.into(), params![at_most]),
        Counted::StatusChecks => (STATUS_CHECKS.into(), params![at_most]),
        Counted::Audit => (AUDIT.into(), params![at_most]),
        Counted::AuditOfItem(item) => {
            let of_item = params![&item.item_type, &item.id, at_most];
            (AUDIT_OF_ITEM.into(), of_item)
        }
        Counted::AuditOfAction(action) => (AUDIT_OF_ACTION.into(), params![action, at_most]),
        Counted::AuditOfActor(actor) => (AUDIT_OF_ACTOR.into(), params![actor, at_most]),
        Counted::AuditOfPeople => (AUDIT_OF_PEOPLE, params![at_most]),
    }
}

const DEAD: Sql = Sql::each(
    "SELECT count(*) AS n FROM (SELECT 1 FROM item_queue INDEXED BY item_queue_dead_due
         WHERE item_type = $1 AND queue_status = 'DEAD'
         ORDER BY scheduled_exec_time, item_id LIMIT $2)",
    "SELECT count(*) AS n FROM (SELECT 1 FROM item_queue
         WHERE item_type = $1 AND queue_part = 'D'
         ORDER BY scheduled_exec_time, item_id LIMIT $2) t",
);
const IMPORTS: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM bulk
         WHERE item_type = $1 AND state <> 'DISCARDED' AND opened_at > 0
         ORDER BY opened_at, bulk_id LIMIT $2) t";
const JOBS: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM job
         WHERE started_at IS NOT NULL AND started_at > 0 ORDER BY started_at, job_id LIMIT $1) t";
const STATUS_CHECKS: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM status_check
         WHERE opened_at > 0 ORDER BY opened_at, check_id LIMIT $1) t";
const AUDIT: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log
         WHERE audit_id > 0 ORDER BY audit_id LIMIT $1) t";
const AUDIT_OF_ITEM: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log
         WHERE item_type = $1 AND item_id = $2 ORDER BY audit_id LIMIT $3) t";
const AUDIT_OF_ACTION: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log
         WHERE action = $1 ORDER BY audit_id LIMIT $2) t";
const AUDIT_OF_ACTOR: &str = "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log
         WHERE actor = $1 ORDER BY audit_id LIMIT $2) t";
/// The names are those of the index.
const AUDIT_OF_PEOPLE: Sql = Sql::each(
    "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log INDEXED BY audit_log_people
         WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                   'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                   'tollgate')
           AND audit_id > 0 ORDER BY audit_id LIMIT $1)",
    "SELECT count(*) AS n FROM (SELECT 1 FROM audit_log
         WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
                   'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
                   'tollgate')
           AND audit_id > 0 ORDER BY audit_id LIMIT $1) t",
);
