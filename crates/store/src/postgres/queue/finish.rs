//! Ends of items, of many in one statement.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::Transaction;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{StatusMove, StoreResult};

use crate::postgres::connection::group::Job;
use crate::postgres::connection::run::{Params, all};

/// One item's end.
#[derive(Debug, Clone)]
pub(crate) struct Finish {
    pub(crate) item: Item,
    pub(crate) run: u32,
    pub(crate) status: StatusMove,
}

impl Job for Finish {
    type Answer = bool;
}

/// Found by their keys alone, and judged once they are locked: with the states in the search, the
/// planner goes through all that is under way, since it takes that for nothing. Locked in the
/// order of their keys, as everywhere where several are held at once.
const FINISH: &str = "WITH named AS MATERIALIZED (
         SELECT q.item_type, q.item_id, q.queue_status, q.finished_at, q.run = e.run AS is_this_run
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (item_type, item_id, run)
         JOIN item_queue q ON q.item_type = e.item_type AND q.item_id = e.item_id
         ORDER BY q.item_type, q.item_id FOR UPDATE OF q
     ), owned AS MATERIALIZED (
         SELECT item_type, item_id FROM named
         WHERE is_this_run AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
     ), finished AS (
         UPDATE item_queue q SET queue_status = 'DISPATCHED', finished_at = (SELECT tg_now()),
                dispatched_at = coalesce(q.dispatched_at, (SELECT tg_now())),
                status = CASE WHEN q.status = ANY($5) THEN $4 ELSE q.status END,
                updated_at = CASE WHEN q.status = ANY($5) THEN (SELECT tg_now())
                                  ELSE q.updated_at END
         FROM owned WHERE q.item_type = owned.item_type AND q.item_id = owned.item_id
     )
     SELECT item_type, item_id FROM owned";

/// Those that had ended before: repeated, since the answer was lost.
const IS_FINISHED: &str = "SELECT q.item_type, q.item_id
     FROM unnest($1::text[], $2::text[], $3::bigint[]) AS e (item_type, item_id, run)
     JOIN item_queue q ON q.item_type = e.item_type AND q.item_id = e.item_id
     WHERE q.run = e.run AND q.finished_at IS NOT NULL";

pub(crate) async fn finish_all(
    tx: &Transaction<'_>,
    jobs: Vec<Finish>,
) -> StoreResult<Vec<StoreResult<bool>>> {
    // Nearly always one kind, as all items of a type end alike.
    let mut kinds: BTreeMap<(&str, &[String]), Vec<usize>> = BTreeMap::new();
    for (n, job) in jobs.iter().enumerate() {
        let kind = (job.status.to.as_str(), job.status.from.as_slice());
        kinds.entry(kind).or_default().push(n);
    }
    let mut answers = vec![Ok(false); jobs.len()];
    for ((to, from), numbers) in kinds {
        let keys = Keys::of(&jobs, &numbers);
        let mut ended = keys.ask(tx, FINISH, &[&to, &from]).await?;
        let others: Vec<usize> = numbers
            .iter()
            .copied()
            .filter(|n| !ended.contains(&jobs[*n].item))
            .collect();
        if !others.is_empty() {
            let keys = Keys::of(&jobs, &others);
            ended.extend(keys.ask(tx, IS_FINISHED, &[]).await?);
        }
        for n in numbers {
            answers[n] = Ok(ended.contains(&jobs[n].item));
        }
    }
    Ok(answers)
}

/// Items and their runs, as a statement takes them.
struct Keys<'j> {
    types: Vec<&'j str>,
    ids: Vec<&'j str>,
    runs: Vec<i64>,
}

impl<'j> Keys<'j> {
    fn of(jobs: &'j [Finish], numbers: &[usize]) -> Self {
        let chosen = || numbers.iter().map(|n| &jobs[*n]);
        Self {
            types: chosen().map(|job| job.item.item_type.as_str()).collect(),
            ids: chosen().map(|job| job.item.id.as_str()).collect(),
            runs: chosen().map(|job| i64::from(job.run)).collect(),
        }
    }

    async fn ask(
        &self,
        tx: &Transaction<'_>,
        sql: &str,
        more: Params<'_>,
    ) -> StoreResult<HashSet<Item>> {
        let keys: Params<'_> = &[&self.types, &self.ids, &self.runs];
        let rows = all(tx, sql, &[keys, more].concat()).await?;
        let item = |row: &tokio_postgres::Row| {
            Item::new(
                &ItemType::new(row.get::<_, String>(0)),
                &ItemId::new(row.get::<_, String>(1)),
            )
        };
        Ok(rows.iter().map(item).collect())
    }
}
