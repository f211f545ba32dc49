//! A failover is seen: the store's clock says on which timeline it was read.

use tollgate_conformance::postgres::Cluster;
use tollgate_core::ports::SharedClock;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

async fn timeline(cluster: &Cluster) -> u32 {
    let url = cluster.url("postgres", "postgres");
    let store = PostgresStore::open(PostgresOptions::at(url)).await.unwrap();
    store.read_clock().await.unwrap().timeline
}

#[tokio::test]
async fn a_promoted_replica_is_on_another_timeline_and_a_restart_is_not() {
    let primary = Cluster::start();
    let before = timeline(&primary).await;
    primary.crash_and_restart();
    assert_eq!(timeline(&primary).await, before);
    let replica = primary.replica();
    replica.promote();
    assert_ne!(timeline(&replica).await, before);
}
