//! W6: how long one claim takes on a queue of so many rows. Before each claim as many new items
//! become due as it will take, and what it took is finished, so that the queue stays as long as it
//! was; neither is timed. One database serves both kinds of queue: its rows are due from tomorrow
//! on, and a connection whose time is a month ahead finds them all due.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio_postgres::Client;
use tollgate_core::id::BatchId;
use tollgate_core::ports::Queue;

use super::{drain, target};
use crate::sample::{Latency, Sample};
use crate::stopwatch::Lap;

/// Items per claim.
const BATCH: u32 = 100;
/// Not counted: connections, plans and pages come into memory.
const WARM_UP: u32 = 20;

const DAY_US: i64 = 86_400_000_000;
pub(super) const TOMORROW_US: i64 = DAY_US;
/// Later than the last of ten million rows at a thousand a second.
const LATER_US: i64 = 30 * DAY_US;

const ARRIVE: &str = "WITH new AS MATERIALIZED (
         SELECT 'new-' || gen_random_uuid() AS id FROM generate_series(1, $1::bigint)
     ), bodies AS (
         INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id)
         SELECT 'PAYMENT', id, 'same', '{}', 'init-bench' FROM new
     )
     INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
                             requested_time, window_start, scheduled_time, generation, queue_status,
                             status, updated_at, scheduled_exec_time, run, fence, retry_count)
     SELECT 'PAYMENT', id, 'bench', 'EUR', 100, now.us, now.us, now.us, now.us, 0, 'READY',
            'SCHEDULED', now.us, now.us, 1, 0, 0
     FROM new, (SELECT tg_now() AS us) now";
const FINISH: &str = "UPDATE item_queue SET queue_status = 'DISPATCHED',
            dispatched_at = (SELECT tg_now()), finished_at = (SELECT tg_now())
     WHERE item_type = 'PAYMENT' AND item_id = ANY($1)";

pub(super) async fn measure(url: &str, due: bool, claims: u32) -> Result<Sample> {
    let url = if due {
        format!("{url}?options=-c%20tollgate.offset_us%3D{LATER_US}")
    } else {
        url.to_owned()
    };
    let store = target::open(&url).await?;
    let client = target::connect(&url).await?;
    let mut took = Vec::new();
    for number in 0..WARM_UP + claims {
        client.execute(ARRIVE, &[&i64::from(BATCH)]).await?;
        let batch = BatchId::new(format!("BATCH-{number:016x}"));
        let lap = Lap::begin()?;
        let claimed = store.claim(drain::claim(batch, BATCH)).await?;
        let wall = lap.wall();
        ensure!(
            claimed.len() == usize::try_from(BATCH)?,
            "{} were due",
            claimed.len()
        );
        if number >= WARM_UP {
            took.push(wall);
        }
        finish(&client, claimed.iter().map(|claimed| claimed.id.as_str())).await?;
    }
    Ok(sample(took, claims))
}

async fn finish(client: &Client, ids: impl Iterator<Item = &str>) -> Result<()> {
    let ids: Vec<&str> = ids.collect();
    client.execute(FINISH, &[&ids]).await?;
    Ok(())
}

fn sample(mut took: Vec<Duration>, claims: u32) -> Sample {
    took.sort_unstable();
    let at = |hundredths: usize| {
        let index = (took.len() * hundredths).div_ceil(100).saturating_sub(1);
        took.get(index)
            .map_or(f64::NAN, |wall| wall.as_secs_f64() * 1000.0)
    };
    Sample {
        count: claims,
        longest_ms: Some(at(100)),
        wall_secs: took.iter().sum::<Duration>().as_secs_f64(),
        latency: Some(Latency {
            p50_ms: at(50),
            p99_ms: at(99),
        }),
        ..Sample::default()
    }
}
