//! Admissions of one lane beside each other.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::id::Item;
use tollgate_core::ports::{ActionResult, Admission, Author, NewRequest, Queue, Requests};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::trouble::{item, open, payments};
use tollgate_conformance::postgres as cluster;

/// Statements that wait for a lock and begin in some way.
async fn wait_for_waiting(url: &str, statement: &str) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'
           AND query LIKE '{statement}%'"
    );
    let waits = async {
        while cluster::count(url, &waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(BOUND, waits).await.unwrap();
}

const BOUND: Duration = Duration::from_secs(20);

async fn patient(url: &str) -> Arc<PostgresStore> {
    let options = PostgresOptions {
        lock_timeout: Duration::from_secs(30),
        statement_timeout: Duration::from_secs(30),
        ..PostgresOptions::at(url)
    };
    open(options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admission_that_waits_for_an_id_keeps_no_lane_waiting() {
    let url = cluster::shared().database().await;
    let store = patient(&url).await;
    let mut other = cluster::connect(&url).await;
    let taken = other.transaction().await.unwrap();
    let take = "INSERT INTO item_body SELECT 'PAYMENT', 'p1', '', '{}', ''";
    taken.batch_execute(take).await.unwrap();
    let first = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.admit(&payments(), vec![item("p1")]).await.unwrap() }
    });
    wait_for_waiting(&url, "INSERT INTO item_body").await;

    let beside = vec![item("p2")];
    let beside = tokio::time::timeout(BOUND, store.admit(&payments(), beside)).await;
    let beside = beside.expect("the lane is held by an admission that waits for an id");
    assert!(matches!(beside.unwrap()[..], [Admission::New(_)]));

    taken.rollback().await.unwrap();
    assert!(matches!(first.await.unwrap()[..], [Admission::New(_)]));
}

/// It came with a file, and somebody accepts and withdraws the same payment meanwhile. Two answers are possible, and one of
/// them only: it is withdrawn and not planned, or planned and not withdrawn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_withdrawn_that_an_admission_plans_meanwhile() {
    let url = cluster::shared().database().await;
    let store = patient(&url).await;
    let mut other = cluster::connect(&url).await;
    let lane = other.transaction().await.unwrap();
    let hold = "SELECT 1 FROM lane_plan FOR UPDATE";
    lane.batch_execute(hold).await.unwrap();
    let admitted = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.admit(&payments(), vec![item("p1")]).await.unwrap() }
    });
    wait_for_waiting(&url, "SELECT%lane_plan").await;

    store.accept(request("p1")).await.unwrap();
    let withdrawn = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.withdraw(&payment("p1"), author()).await.unwrap() }
    });
    wait_for_waiting(&url, "LOCK TABLE lane_plan").await;

    lane.rollback().await.unwrap();
    assert!(matches!(admitted.await.unwrap()[..], [Admission::New(_)]));
    assert_eq!(withdrawn.await.unwrap(), ActionResult::NoSuchItem);
    assert_eq!(withdraw(&store).await, ActionResult::NoSuchItem);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_planned_that_was_withdrawn_before_its_body_was_written() {
    let url = cluster::shared().database().await;
    let store = patient(&url).await;
    let mut other = cluster::connect(&url).await;
    let taken = other.transaction().await.unwrap();
    let take = "INSERT INTO item_body SELECT 'PAYMENT', 'p0', '', '{}', ''";
    taken.batch_execute(take).await.unwrap();
    let admitted = tokio::spawn({
        let store = Arc::clone(&store);
        let items = vec![item("p0"), item("p1")];
        async move { store.admit(&payments(), items).await.unwrap() }
    });
    wait_for_waiting(&url, "INSERT INTO item_body").await;

    store.accept(request("p1")).await.unwrap();
    assert_eq!(withdraw(&store).await, ActionResult::Yes);

    taken.rollback().await.unwrap();
    let admitted = admitted.await.unwrap();
    assert!(matches!(admitted[0], Admission::New(_)), "{admitted:?}");
    assert_eq!(admitted[1], Admission::Cancelled);
    let queued = "SELECT count(*) FROM item_queue WHERE item_id = 'p1'";
    assert_eq!(cluster::count(&url, queued).await, 0);
    let bodies = "SELECT count(*) FROM item_body WHERE item_id = 'p1'";
    assert_eq!(cluster::count(&url, bodies).await, 0);
}

/// Two contents of one id come in one admission, and the second of them is accepted as a request meanwhile: before the
/// bodies are written, or while the admission waits for the lane. The request was answered first, and its body is the one that is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_accepted_meanwhile_gets_its_own_content() {
    for (hold, waiting) in [
        (
            "INSERT INTO item_body SELECT 'PAYMENT', 'p0', '', '{}', ''",
            "INSERT INTO item_body",
        ),
        ("SELECT 1 FROM lane_plan FOR UPDATE", "SELECT%lane_plan"),
    ] {
        let url = cluster::shared().database().await;
        let store = patient(&url).await;
        let mut other = cluster::connect(&url).await;
        let holder = other.transaction().await.unwrap();
        holder.batch_execute(hold).await.unwrap();
        let mut first = item("p1");
        "of the first".clone_into(&mut first.record.content_hash);
        r#"{"content":"first"}"#.clone_into(&mut first.body);
        let second = item("p1");
        let stored = format!(
            "SELECT count(*) FROM item_body WHERE item_id = 'p1' AND content_hash = '{}'",
            second.record.content_hash
        );
        let admitted = tokio::spawn({
            let store = Arc::clone(&store);
            let items = vec![item("p0"), first, second];
            async move { store.admit(&payments(), items).await.unwrap() }
        });
        wait_for_waiting(&url, waiting).await;

        store.accept(request("p1")).await.unwrap();

        holder.rollback().await.unwrap();
        let admitted = admitted.await.unwrap();
        assert!(matches!(admitted[0], Admission::New(_)), "{admitted:?}");
        assert_eq!(admitted[1], Admission::Conflict);
        assert!(matches!(admitted[2], Admission::New(_)), "{admitted:?}");
        assert_eq!(cluster::count(&url, &stored).await, 1);
    }
}

async fn withdraw(store: &PostgresStore) -> ActionResult {
    let item = payment("p1");
    let withdrawn = store.withdraw(&item, author());
    withdrawn.await.unwrap()
}

fn payment(id: &str) -> Item {
    Item::new(&payments(), &item(id).id)
}

/// For the same content as that of [`item`].
fn request(id: &str) -> NewRequest {
    let new = item(id);
    NewRequest {
        item: payment(id),
        content_hash: new.record.content_hash,
        money: new.record.money,
        document: "{}".into(),
        again: false,
    }
}

fn author() -> Author {
    Author::new("ops", "because")
}
