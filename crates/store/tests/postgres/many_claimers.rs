//! Claims at full size: 64 claimers over 100,000 items, on two nodes.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::id::BatchId;
use tollgate_core::ports::{Claim, Queue};
use tollgate_store::postgres::PostgresOptions;

use crate::trouble::{claim, open};
use tollgate_conformance::postgres as cluster;

const ITEMS: usize = 100_000;
const CLAIMERS: usize = 64;
const LIMIT: u32 = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_claimers_never_share_an_item_nor_exceed_their_limit() {
    let url = cluster::shared().database().await;
    let options = PostgresOptions {
        wait_timeout: Duration::from_mins(1),
        lock_timeout: Duration::from_mins(1),
        // All that was claimed is counted by each claim, and they wait for each other.
        statement_timeout: Duration::from_mins(1),
        ..PostgresOptions::at(&url)
    };
    let nodes = [open(options.clone()).await, open(options).await];
    let fill = format!(
        "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
                requested_time, window_start, scheduled_time, generation, queue_status, status,
                updated_at, scheduled_exec_time, run, fence, retry_count)
         SELECT 'PAYMENT', 'p' || n, 'bank', 'USD', 1, 0, 0, 0, 0, 0, 'READY', 'SCHEDULED', 0, 0,
                1, 0, 0
         FROM generate_series(1, {ITEMS}) n;
         INSERT INTO item_body SELECT 'PAYMENT', 'p' || n, '', '{{}}', ''
         FROM generate_series(1, {ITEMS}) n"
    );
    cluster::sql(&url, &fill).await;
    let mut claimers = JoinSet::new();
    for n in 0..CLAIMERS {
        let node = nodes[n % nodes.len()].clone();
        claimers.spawn(async move {
            let mut mine = vec![];
            loop {
                let wish = Claim {
                    batch: BatchId::new(format!("BATCH-{n}-{}", mine.len())),
                    limit: LIMIT,
                    credit_horizon: Duration::from_hours(24),
                    // Longer than a busy machine takes for all of it; what is stale may be claimed again.
                    stale_after: Duration::from_hours(24),
                    ..claim()
                };
                let claimed = node.claim(wish).await.unwrap();
                assert!(claimed.len() <= LIMIT as usize, "{} claimed", claimed.len());
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.into_iter().map(|c| c.id));
            }
        });
    }
    let claimed: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    let different: HashSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), different.len()), (ITEMS, ITEMS));
}
