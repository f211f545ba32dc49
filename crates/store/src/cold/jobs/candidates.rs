//! Items that a job may want: a page of them by an index, each as whoever would move it finds it.

use tollgate_core::id::ItemId;
use tollgate_core::item::QueueStatus;
use tollgate_core::job::Candidate;
use tollgate_core::ports::{CandidatesBy, CandidatesWanted, ItemState, StoreResult};

use crate::sql::{Row, Sql, Tx, params};

/// One statement for each index. SQLite keeps no statistics, and would take the index of another question.
const HELD: Sql = Sql::each(
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_queue q INDEXED BY item_queue_held_page
     WHERE q.item_type = $1 AND q.item_id > $2 AND q.queue_status = 'HELD'
     ORDER BY q.item_id LIMIT $3",
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_queue q
     WHERE q.item_type = $1 AND q.item_id > $2 AND q.queue_part = 'H'
     ORDER BY q.item_id LIMIT $3",
);

const DEAD: Sql = Sql::each(
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_queue q INDEXED BY item_queue_dead
     WHERE q.item_type = $1 AND q.item_id > $2 AND q.queue_status = 'DEAD'
     ORDER BY q.item_id LIMIT $3",
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_queue q
     WHERE q.item_type = $1 AND q.item_id > $2 AND q.queue_part = 'D'
     ORDER BY q.item_id LIMIT $3",
);

/// On PostgreSQL no index lists the usual ends: they are looked for along the ids.
const OF_STATUS: Sql = Sql::each(
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_queue q INDEXED BY item_queue_status
     WHERE q.item_type = $1 AND q.item_id > $2 AND q.status = $4
     ORDER BY q.item_id LIMIT $3",
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM ((SELECT * FROM item_queue WHERE item_type = $1 AND item_id > $2 AND status = $4
              AND status NOT IN ('PROCESSING', 'DELIVERED')
            ORDER BY item_id LIMIT $3)
           UNION ALL
           (SELECT * FROM item_queue WHERE $4 IN ('PROCESSING', 'DELIVERED')
              AND item_type = $1 AND item_id > $2 AND status = $4
            ORDER BY item_id LIMIT $3)) q
     ORDER BY q.item_id",
);

const OF_IMPORT: Sql = Sql::each(
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_body b INDEXED BY item_body_bulk
     JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id
     WHERE b.item_type = $1 AND b.item_id > $2 AND b.bulk_id = $4
     ORDER BY b.item_id LIMIT $3",
    "SELECT q.item_id, q.amount_minor, q.currency, q.lane, q.queue_status, q.run, q.status,
            q.scheduled_exec_time, q.deadline, q.created_at, q.finished_at IS NOT NULL AS has_ended,
            EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                      AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                           AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                                  AND (d.state = 'DECLINED' OR d.reopened)), 0)))) AS may_be_done
     FROM item_body b
     JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id
     WHERE b.item_type = $1 AND b.item_id > $2 AND b.bulk_id = $4
     ORDER BY b.item_id LIMIT $3",
);

pub(super) async fn page(tx: &Tx, wanted: &CandidatesWanted) -> StoreResult<Vec<Candidate>> {
    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
    let (kind, limit) = (&wanted.item_type, wanted.limit);
    let rows = match &wanted.by {
        CandidatesBy::Held => tx.rows(HELD, params![kind, after, limit]).await,
        CandidatesBy::Dead => tx.rows(DEAD, params![kind, after, limit]).await,
        CandidatesBy::Status(status) => {
            tx.rows(OF_STATUS, params![kind, after, limit, status])
                .await
        }
        CandidatesBy::Import(bulk) => tx.rows(OF_IMPORT, params![kind, after, limit, bulk]).await,
    };
    rows.iter().map(candidate_from).collect()
}

fn candidate_from(row: &Row) -> StoreResult<Candidate> {
    Ok(Candidate {
        id: row.get("item_id")?,
        money: row.money()?,
        found: ItemState {
            queue_status: row.word("queue_status", QueueStatus::parse)?,
            lane: row.get("lane")?,
            run: row.get("run")?,
            may_be_done: row.get("may_be_done")?,
            // Judged when it is acted on.
            is_erased: false,
            has_ended: row.get("has_ended")?,
            record_status: row.get("status")?,
        },
        due: row.get("scheduled_exec_time")?,
        deadline: row.get("deadline")?,
        created_at: row.get("created_at")?,
    })
}
