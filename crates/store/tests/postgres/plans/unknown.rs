//! A table of which PostgreSQL knows nothing yet, as in the minutes of a first large import, or after a quiet night: it takes
//! conditions for rare that all rows meet.

use std::time::Duration;

use tollgate_conformance::postgres::{self as cluster, Cluster};
use tollgate_core::ports::{Plans, Queue, SharedClock};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use super::explained::{Plan, plans_in};
use super::operations::{HOUR, bank};
use super::{BIG, EXPLAIN, MOST_ROWS_READ};
use crate::trouble::{claim, item, open, payments};

/// More than a statement may read.
const WAITING: u32 = 12_000;
const AT_ONCE: u32 = 1000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dispatcher_asks_all_the_time_does_not_depend_on_statistics() {
    let server = Cluster::start();
    let url = server.database().await;
    let store = open(PostgresOptions::at(&url)).await;
    for table in ["item_queue", "item_body"] {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = off)");
        cluster::sql(&url, &off).await;
    }
    for first in (0..WAITING).step_by(AT_ONCE as usize) {
        admit(&store, first).await;
    }
    drop(store);
    let database = url.rsplit('/').next().unwrap();
    for setting in EXPLAIN {
        let set = format!("ALTER DATABASE {database} SET {setting}");
        server.sql(&set).await;
    }
    let store = open(PostgresOptions::at(&url)).await;
    let due = store.lanes_due(&payments(), HOUR, HOUR).await.unwrap();
    assert!(due.lanes.contains(&bank()), "{due:?}");
    let soon = store.now().await.unwrap() + Duration::from_secs(1);
    assert_ne!(store.backlog(&bank(), soon, 1000).await.unwrap(), 0);
    assert_ne!(store.claim(claim()).await.unwrap().len(), 0);
    admit(&store, WAITING).await;
    let log = server.log();
    let plans = plans_in(&log);
    let much: Vec<String> = plans.iter().filter_map(reads_much).collect();
    assert!(much.is_empty(), "{}", much.join("\n\n"));
    let asked = |text: &str| plans.iter().any(|plan| plan.statement.contains(text));
    assert!(asked("FROM lane_plan p") && asked("WITH RECURSIVE kinds"));
}

async fn admit(store: &PostgresStore, first: u32) {
    let items = (first..first + AT_ONCE).map(|n| item(&format!("p-{n:06}")));
    store.admit(&payments(), items.collect()).await.unwrap();
}

fn reads_much(plan: &Plan<'_>) -> Option<String> {
    let big = plan.scans.iter().filter(|scan| BIG.contains(&scan.table));
    let rows = big.map(|scan| scan.rows_read).max().unwrap_or(0);
    (rows > MOST_ROWS_READ).then(|| format!("reads {rows} rows:\n{plan}"))
}
