//! Counting a lane's windows anew from the slots of what waits or is under way.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::actor;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{Author, Recounted, StoreResult};

use super::replan::write_audit;
use crate::postgres::connection::run::{Params, all, execute, optional};
use crate::postgres::connection::value::Us;

/// The difference is looked for without a lock; only if there is one the plan is held and it is
/// looked for again.
pub(super) async fn recount(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Recounted> {
    const HOLD: &str = "SELECT generation FROM lane_plan WHERE lane = $1 FOR UPDATE";
    const CORRECT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT $1::text, $2::bigint, * FROM unnest($3::bigint[], $4::bigint[])
         ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = excluded.used";
    let mut recounted = Recounted::default();
    if differing(tx, lane).await?.is_empty() {
        return Ok(recounted);
    }
    let Some(row) = optional(tx, HOLD, &[&lane.as_str()]).await? else {
        return Ok(recounted);
    };
    let generation: i64 = row.get(0);
    let (mut windows, mut held) = (vec![], vec![]);
    for row in differing(tx, lane).await? {
        recounted.add(row.get(1), row.get(2));
        windows.push(row.get::<_, Us>(0));
        held.push(row.get::<_, i64>(2));
    }
    if recounted.windows > 0 {
        let params: Params<'_> = &[&lane.as_str(), &generation, &windows, &held];
        execute(tx, CORRECT, params).await?;
        super::forget_pointers(tx, lane).await?;
        let author = Author::new(actor::RECONCILIATION, "counters differed from slots");
        write_audit(
            tx,
            "RECOUNTED",
            &author,
            &format!("lane {lane}: {recounted}"),
        )
        .await?;
    }
    Ok(recounted)
}

/// Windows ahead whose counter is not what lies in them: window, counter, slots.
async fn differing(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Vec<Row>> {
    const DIFFERING: &str = "WITH plan AS MATERIALIZED (
             SELECT generation, (SELECT tg_now()) AS now FROM lane_plan
             WHERE lane = $1 AND replan_since IS NULL
         ), held AS (
             SELECT q.window_start, count(*) AS n
             FROM (SELECT window_start, generation FROM item_queue
                   WHERE lane = $1 AND queue_part = 'O'
                   UNION ALL
                   SELECT window_start, generation FROM item_queue
                   WHERE lane = $1 AND queue_part = 'H') q
             JOIN plan ON q.generation = plan.generation AND q.window_start > plan.now
             GROUP BY q.window_start
         ), counted AS (
             SELECT w.window_start, w.used FROM lane_window w
             JOIN plan ON w.generation = plan.generation AND w.window_start > plan.now
             WHERE w.lane = $1
         )
         SELECT window_start, coalesce(used, 0), coalesce(n, 0)
         FROM held FULL JOIN counted USING (window_start)
         WHERE coalesce(used, 0) <> coalesce(n, 0)";
    all(tx, DIFFERING, &[&lane.as_str()]).await
}
