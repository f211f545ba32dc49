//! The limit of W2: bare SQL on the same queue table, one connection, that claims 500 and completes
//! 500. No fence, no lane, no flow, no record.

use anyhow::{Result, ensure};

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Lap;

const CLAIM: &str = "WITH due AS MATERIALIZED (
         SELECT item_type, item_id FROM item_queue
         WHERE item_type = 'PAYMENT' AND lane = 'bench' AND queue_part = 'O' AND queue_status = 'READY'
           AND scheduled_exec_time <= (SELECT tg_now())
         ORDER BY scheduled_exec_time LIMIT 500 FOR UPDATE SKIP LOCKED
     )
     UPDATE item_queue q SET queue_status = 'CLAIMED', claimed_at = (SELECT tg_now())
     FROM due WHERE q.item_type = due.item_type AND q.item_id = due.item_id
     RETURNING q.item_id";
const COMPLETE: &str = "UPDATE item_queue SET queue_status = 'DISPATCHED', finished_at = tg_now()
     WHERE item_type = 'PAYMENT' AND item_id = ANY($1) AND queue_status = 'CLAIMED'";

pub(super) async fn measure(url: &str, count: u32) -> Result<Sample> {
    let client = target::connect(url).await?;
    client
        .batch_execute("SET plan_cache_mode = force_custom_plan")
        .await?;
    let (claim, complete) = (
        client.prepare(CLAIM).await?,
        client.prepare(COMPLETE).await?,
    );

    let lap = Lap::begin()?;
    let mut done = 0;
    loop {
        let claimed = client.query(&claim, &[]).await?;
        if claimed.is_empty() {
            break;
        }
        let ids: Vec<&str> = claimed.iter().map(|row| row.get(0)).collect();
        done += client.execute(&complete, &[&ids]).await?;
    }
    let sample = lap.sample(count)?;
    ensure!(done == u64::from(count), "{done} of {count} were completed");
    Ok(sample)
}
