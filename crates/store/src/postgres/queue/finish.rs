//! Ends of items, of many in one statement.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use tollgate_core::id::Item;
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

/// Which of them were ended. Each is judged as it is locked, one after the other, in the order of their keys as everywhere
/// where several are held at once.
const FINISH: &str = "SELECT tg_finish($1, $2, $3, $4, $5)";

/// Those that had ended before: repeated, since the answer was lost.
const IS_FINISHED: &str = "SELECT e.n
     FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS e (item_type, item_id, run, n)
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
    let mut ended = vec![false; jobs.len()];
    for ((to, from), mut numbers) in kinds {
        numbers.sort_by(|a, b| jobs[*a].item.cmp(&jobs[*b].item));
        ask(tx, FINISH, &jobs, &numbers, &[&to, &from], &mut ended).await?;
        numbers.retain(|n| !ended[*n]);
        if !numbers.is_empty() {
            ask(tx, IS_FINISHED, &jobs, &numbers, &[], &mut ended).await?;
        }
    }
    Ok(ended.into_iter().map(Ok).collect())
}

/// Marks those of the jobs with these numbers that the statement names, by their places among them.
async fn ask(
    tx: &Transaction<'_>,
    sql: &str,
    jobs: &[Finish],
    numbers: &[usize],
    more: Params<'_>,
    ended: &mut [bool],
) -> StoreResult<()> {
    let chosen = || numbers.iter().map(|n| &jobs[*n]);
    let types: Vec<&str> = chosen().map(|job| job.item.item_type.as_str()).collect();
    let ids: Vec<&str> = chosen().map(|job| job.item.id.as_str()).collect();
    let runs: Vec<i64> = chosen().map(|job| i64::from(job.run)).collect();
    let keys: Params<'_> = &[&types, &ids, &runs];
    for row in all(tx, sql, &[keys, more].concat()).await? {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        if let Some(n) = numbers.get(place) {
            ended[*n] = true;
        }
    }
    Ok(())
}
