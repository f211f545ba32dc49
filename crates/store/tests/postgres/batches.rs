//! What a claim lists, and in which order what it has claimed is locked.

use std::time::Duration;

use tokio_postgres::NoTls;
use tollgate_conformance::postgres::{count, shared};
use tollgate_core::id::{BatchId, FlowId, Item};
use tollgate_core::ports::{Claim, Queue, StartRecord, Started, StatusMove};
use tollgate_store::postgres::PostgresOptions;

use crate::trouble::{claim, item, open, payments};

#[tokio::test]
async fn batches_that_have_ended_are_forgotten_however_much_credit_there_is() {
    let url = shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let items = (0..20).map(|n| item(&format!("p{n}"))).collect();
    store.admit(&payments(), items).await.unwrap();
    for n in 0..20 {
        let wish = Claim {
            batch: BatchId::new(format!("BATCH-{n}")),
            limit: 1,
            ..claim()
        };
        let [claimed] = &store.claim(wish).await.unwrap()[..] else {
            panic!("one item is claimed at a time");
        };
        let (item, status) = (
            Item::new(&payments(), &claimed.id),
            StatusMove::new(&["SCHEDULED"], "PROCESSING"),
        );
        assert!(store.finish(&item, claimed.run, status).await.unwrap());
        let listed = count(&url, "SELECT count(*) FROM batch").await;
        assert!(listed <= 8, "{listed} batches are listed");
    }
}

#[tokio::test]
async fn starts_are_locked_in_the_order_of_their_keys() {
    let url = shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let items = ["c", "a", "b"].map(item).to_vec();
    store.admit(&payments(), items).await.unwrap();
    let claimed = store.claim(claim()).await.unwrap();
    assert_eq!(claimed.len(), 3);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let hold = "BEGIN; SELECT item_id FROM item_queue WHERE item_id = 'b' FOR UPDATE";
    client.batch_execute(hold).await.unwrap();

    let starts = claimed.into_iter().rev().map(|claimed| StartRecord {
        flow: FlowId::new(format!("exec-{}", claimed.id)),
        id: claimed.id,
        fence: claimed.fence,
        started: Started::New,
    });
    let (starts, batch) = (starts.collect(), claim().batch);
    let recording = tokio::spawn({
        let store = store.clone();
        async move { store.record_starts(&payments(), &batch, starts, 5).await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while count(&url, waiting).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // In a subquery, since a lock and a count do not go together.
    let free = "SELECT count(*) FROM (SELECT item_id FROM item_queue
         WHERE item_id = 'c' FOR UPDATE SKIP LOCKED) t";
    assert_eq!(count(&url, free).await, 1, "c comes after b");
    let taken = free.replace("'c'", "'a'");
    assert_eq!(count(&url, &taken).await, 0, "a comes before b");

    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(recording.await.unwrap().unwrap(), 3);
}
