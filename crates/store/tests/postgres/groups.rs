//! Small writes that arrive together share a transaction, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::id::{FlowId, Item};
use tollgate_core::ports::{
    Admission, Claim, Flows, JournalEntry, NewFlow, Queue, StatusMove, StoreError,
};
use tollgate_store::postgres::PostgresOptions;

use crate::trouble::{claim, item, open, payments};
use tollgate_conformance::postgres as cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_items_that_arrive_together_share_commits_and_each_gets_its_own_answer() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let mut callers = JoinSet::new();
    for n in 0..400 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let id = format!("p{n}");
            let items = vec![item(&id), item(&id)];
            let answers = store.admit(&payments(), items).await.unwrap();
            let [Admission::New(new), Admission::Repeat(again)] = &answers[..] else {
                panic!("{id} was answered {answers:?}");
            };
            assert_eq!(new, again);
            assert_eq!(new.init_flow, FlowId::new(format!("init-{id}")));
        });
    }
    callers.join_all().await;
    let commits = "SELECT count(DISTINCT xmin::text) FROM item_body";
    let commits = cluster::count(&url, commits).await;
    assert!(commits < 200, "{commits} commits for 400 items");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_that_arrive_together_share_commits_and_each_gets_its_own_answer() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let items = (0..400).map(|n| item(&format!("p{n}"))).collect();
    store.admit(&payments(), items).await.unwrap();
    let claim = Claim {
        limit: 400,
        ..claim()
    };
    let claimed = store.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), 400);
    let mut callers = JoinSet::new();
    for (n, claimed) in claimed.into_iter().enumerate() {
        // Every tenth belongs to a run that has not come; all others are told twice.
        let is_ours = n % 10 > 0;
        let run = if is_ours { claimed.run } else { 7 };
        let to = if n % 2 == 0 { "EVEN" } else { "ODD" };
        for _ in 0..2 {
            let (store, item) = (Arc::clone(&store), Item::new(&payments(), &claimed.id));
            callers.spawn(async move {
                let status = StatusMove::new(&["SCHEDULED"], to);
                let finished = store.finish(&item, run, status).await.unwrap();
                assert_eq!(finished, is_ours, "{item:?}");
            });
        }
    }
    callers.join_all().await;
    for (status, expected) in [("SCHEDULED", 40), ("EVEN", 160), ("ODD", 200)] {
        let moved = format!("SELECT count(*) FROM item_queue WHERE status = '{status}'");
        assert_eq!(cluster::count(&url, &moved).await, expected, "{status}");
    }
    let commits = "SELECT count(DISTINCT xmin::text) FROM item_queue WHERE finished_at > 0";
    let commits = cluster::count(&url, commits).await;
    assert!(commits < 180, "{commits} commits for 360 ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_cannot_be_stored_harms_nobody_beside_it() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let epoch = store.take_node().await.unwrap();
    let mut callers = JoinSet::new();
    for n in 0..60 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let result_json = if n % 10 == 0 { "\0" } else { "1" }.to_owned();
            let entry = JournalEntry {
                key: format!("k{n}"),
                result_json,
            };
            let written = store.journal(epoch, &FlowId::new("f"), entry).await;
            match n % 10 {
                0 => assert!(matches!(written, Err(StoreError::Bug(_))), "{written:?}"),
                _ => written.unwrap(),
            }
        });
    }
    callers.join_all().await;
    let flow = NewFlow {
        id: FlowId::new("f"),
        name: "sample".into(),
        input_json: "1".into(),
        delay: Duration::ZERO,
        is_child: false,
    };
    store.start_flows(vec![flow]).await.unwrap();
    let due = store.due_flows(epoch, 1).await.unwrap();
    assert_eq!(due.flows[0].journal.len(), 54);
}

#[tokio::test]
async fn an_item_that_cannot_be_stored_is_refused_alone() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let mut bad = item("bad");
    bad.record.owner = "ac\0me".into();
    let answers = store
        .admit(&payments(), vec![item("a"), bad, item("b")])
        .await
        .unwrap();
    let [
        Admission::New(_),
        Admission::Refused(why),
        Admission::New(_),
    ] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert!(why.contains("NUL"), "{why}");
}
