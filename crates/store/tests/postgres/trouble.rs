//! Database trouble: the store answers `Unavailable`, acknowledges nothing that is not
//! committed, and goes on by itself when the trouble is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, FlowId, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Accounts, Admission, Author, Claim, Flows, Lanes, NewFlow, NewItem, NewRecord, Queue,
    SharedClock, StoreError,
};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::proxy::Proxy;
use tollgate_conformance::postgres::{self as cluster, Cluster};

pub(crate) fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}

pub(crate) fn item(id: &str) -> NewItem {
    let money = Money {
        minor: 1,
        currency: Currency::from_code("USD").unwrap(),
    };
    let record = NewRecord::new("acme", "SCHEDULED", money, "hash".into());
    let flow = FlowId::new(format!("init-{id}"));
    let (id, lane) = (ItemId::new(id), LaneName::new("bank"));
    NewItem::new(id, lane, record, "{}", flow)
}

pub(crate) async fn open(options: PostgresOptions) -> Arc<PostgresStore> {
    let store = PostgresStore::open(options).await.unwrap();
    let plan = LaneChange {
        max_per_window: Some(100),
        window_size_secs: Some(4),
        ..LaneChange::default()
    };
    let (name, author) = (LaneName::new("bank"), Author::new("ops", "because"));
    store.change_lane(&name, plan, author).await.unwrap();
    Arc::new(store)
}

async fn admitted(store: &PostgresStore) -> u64 {
    let kind = payments();
    let totals = store.totals(&kind, Timestamp::MIN, Timestamp::MAX);
    totals.await.unwrap().iter().map(|t| t.count).sum()
}

/// Another session that holds the lane's plan, so that admissions wait inside their transactions.
async fn hold_the_lane(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("BEGIN; SELECT lane FROM lane_plan FOR UPDATE")
        .await
        .unwrap();
    client
}

/// Another session that holds the lane's claims, each of which waits on a connection of its own.
async fn hold_the_claims(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let hold = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('tollgate/claim/bank', 0))";
    client.batch_execute(hold).await.unwrap();
    client
}

pub(crate) fn claim() -> Claim {
    Claim {
        item_type: payments(),
        lane: LaneName::new("bank"),
        batch: BatchId::new("BATCH-1"),
        ahead: Duration::from_hours(1),
        stale_after: Duration::from_mins(2),
        limit: 5,
        credit_horizon: Duration::from_hours(1),
    }
}

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'";
const IDLE_IN_TRANSACTION: &str = "SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'tollgate'
       AND (state LIKE 'idle in transaction%' OR state = 'active')";

/// A server that was away is tried again after a second at the latest.
async fn back_again(store: &PostgresStore) {
    let trying = async {
        while store.now().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), trying)
        .await
        .expect("the store does not see that the server is back");
}

/// Asks until the answer is as wanted; a bound stands for "never".
async fn until(url: &str, question: &str, wanted: impl Fn(i64) -> bool) {
    for _ in 0..2000 {
        if wanted(cluster::count(url, question).await) {
            return;
        }
    }
    panic!("never became true: {question}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_backend_is_unavailable_and_the_next_call_works() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let holder = hold_the_lane(&url).await;
    let theirs = Arc::clone(&store);
    let waiting = tokio::spawn(async move { theirs.admit(&payments(), vec![item("a")]).await });
    until(&url, WAITING, |n| n == 1).await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    holder.batch_execute(terminate).await.unwrap();
    let answer = waiting.await.unwrap();
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(admitted(&store).await, 0);
    let again = store.admit(&payments(), vec![item("a")]).await.unwrap();
    assert!(matches!(again[..], [Admission::New(_)]), "{again:?}");
}

/// Another session that is about to take the id "a".
async fn take_an_id(url: &str) -> Client {
    const TAKE: &str = "BEGIN;
        INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id)
        VALUES ('PAYMENT', 'a', 'theirs', '{}', 'init-theirs');
        INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
            requested_time, window_start, scheduled_time, generation, queue_status, status,
            updated_at, scheduled_exec_time, run, fence, retry_count)
        VALUES ('PAYMENT', 'a', 'bank', 'EUR', 1, 0, 0, 0, 0, 0, 'READY', 'SCHEDULED', 0, 0, 1, 0, 0)";
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(TAKE).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_another_takes_at_the_same_moment_fails_no_batch() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    for (end, is_taken) in [("COMMIT", true), ("ROLLBACK", false)] {
        cluster::sql(&url, "TRUNCATE item_queue, item_body").await;
        let other = take_an_id(&url).await;
        let theirs = Arc::clone(&store);
        let both = vec![item("a"), item("b")];
        let waiting = tokio::spawn(async move { theirs.admit(&payments(), both).await });
        until(&url, WAITING, |n| n == 1).await;
        other.batch_execute(end).await.unwrap();
        let answers = waiting.await.unwrap().unwrap();
        let (a, b) = (&answers[0], &answers[1]);
        assert_eq!(matches!(a, Admission::Conflict), is_taken, "{a:?}");
        assert_eq!(matches!(a, Admission::New(_)), !is_taken, "{a:?}");
        assert!(matches!(b, Admission::New(_)), "{b:?}");
        assert_eq!(admitted(&store).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_and_comes_back_is_unavailable_and_then_works_again() {
    let cluster = Cluster::start();
    let url = cluster.database().await;
    let store = open(PostgresOptions::at(&url)).await;
    store.admit(&payments(), vec![item("a")]).await.unwrap();
    cluster.crash();
    for _ in 0..20 {
        let answer = store.admit(&payments(), vec![item("b")]).await;
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
        assert!(matches!(store.now().await, Err(StoreError::Unavailable(_))));
    }
    cluster.start_again();
    back_again(&store).await;
    let answer = store
        .admit(&payments(), vec![item("a"), item("b")])
        .await
        .unwrap();
    assert!(
        matches!(answer[..], [Admission::Repeat(_), Admission::New(_)]),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_loses_nothing_that_was_acknowledged() {
    let cluster = Arc::new(Cluster::start());
    let url = cluster.database().await;
    let store = open(PostgresOptions::at(&url)).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        callers.spawn(async move {
            let (mut acknowledged, mut troubles) = (vec![], 0);
            for n in 0.. {
                let last = over.load(Ordering::SeqCst);
                let id = format!("p{caller}-{n}");
                match store.admit(&payments(), vec![item(&id)]).await {
                    Ok(_) => acknowledged.push(id),
                    Err(StoreError::Unavailable(_)) => troubles += 1,
                    Err(other) => panic!("{other}"),
                }
                if last {
                    break;
                }
            }
            (acknowledged, troubles)
        });
    }
    let restarted = Arc::clone(&cluster);
    let restart = tokio::task::spawn_blocking(move || restarted.crash_and_restart());
    restart.await.unwrap();
    back_again(&store).await;
    over.store(true, Ordering::SeqCst);
    let (mut acknowledged, mut troubles) = (vec![], 0);
    for (ids, seen) in callers.join_all().await {
        acknowledged.extend(ids);
        troubles += seen;
    }
    assert!(troubles > 0, "nobody saw the restart");
    let items = acknowledged.iter().map(|id| item(id)).collect();
    for answer in store.admit(&payments(), items).await.unwrap() {
        assert!(
            matches!(answer, Admission::Repeat(_)),
            "acknowledged and lost: {answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_hang_up_leave_no_connection_in_a_transaction() {
    let url = cluster::shared().database().await;
    let options = PostgresOptions {
        connections: 8,
        ..PostgresOptions::at(&url)
    };
    let store = open(options).await;
    let (lane, claims) = (hold_the_lane(&url).await, hold_the_claims(&url).await);
    let mut callers = JoinSet::new();
    for n in 0..100 {
        let ours = Arc::clone(&store);
        callers.spawn(async move {
            let items = vec![item(&format!("p{n}"))];
            ours.admit(&payments(), items).await.map(drop)
        });
        let ours = Arc::clone(&store);
        callers.spawn(async move { ours.claim(claim()).await.map(drop) });
    }
    until(&url, WAITING, |n| n >= 4).await;
    callers.shutdown().await;
    lane.batch_execute("ROLLBACK").await.unwrap();
    claims.batch_execute("ROLLBACK").await.unwrap();
    until(&url, IDLE_IN_TRANSACTION, |n| n == 0).await;
    let half = "SELECT (SELECT count(*) FROM item_body) - (SELECT count(*) FROM item_queue)";
    assert_eq!(cluster::count(&url, half).await, 0);
    // All eight connections can be used at once.
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let store = Arc::clone(&store);
        callers.spawn(async move { store.now().await });
    }
    for answer in callers.join_all().await {
        answer.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_unavailable_and_leaves_room_for_what_is_urgent() {
    let url = cluster::shared().database().await;
    let options = PostgresOptions {
        connections: 6,
        wait_timeout: Duration::from_millis(100),
        ..PostgresOptions::at(&url)
    };
    let store = open(options).await;
    let holder = hold_the_claims(&url).await;
    let mut callers = JoinSet::new();
    for _ in 0..10 {
        let store = Arc::clone(&store);
        callers.spawn(async move { store.claim(claim()).await });
    }
    let (mut refused, mut answers) = (0, 0);
    while answers < 8 {
        match callers.join_next().await.unwrap().unwrap() {
            Err(StoreError::Unavailable(why)) => {
                assert!(why.contains("connections to PostgreSQL are busy"), "{why}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
        answers += 1;
    }
    assert_eq!(refused, 8, "two wait for their turn");
    store.now().await.unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
    for answer in callers.join_all().await {
        answer.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_unavailable_and_safe_to_repeat() {
    let (store, proxy) = through_a_proxy().await;
    proxy.cut_at_the_next_commit();
    let answer = store.admit(&payments(), vec![item("a")]).await;
    assert!(
        matches!(answer, Err(StoreError::Unavailable(_))),
        "{answer:?}"
    );
    let again = store.admit(&payments(), vec![item("a")]).await.unwrap();
    assert!(
        matches!(again[..], [Admission::Repeat(_)]),
        "it was committed: {again:?}"
    );
    assert_eq!(admitted(&store).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_whose_handout_was_lost_are_handed_out_again() {
    let (store, proxy) = through_a_proxy().await;
    let epoch = store.take_node().await.unwrap();
    let flow = |id: &str| NewFlow {
        id: FlowId::new(id),
        name: "sample".into(),
        input_json: "1".into(),
        delay: Duration::ZERO,
        is_child: false,
    };
    store.start_flows(vec![flow("a"), flow("b")]).await.unwrap();
    proxy.cut_at_the_next_commit();
    let lost = store.due_flows(epoch, 10).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    let given = store.due_flows(epoch, 10).await.unwrap();
    assert_eq!(given.flows.len(), 2, "live, and run by nobody");
    assert_eq!(store.due_flows(epoch, 10).await.unwrap().flows.len(), 0);
}

pub(crate) async fn through_a_proxy() -> (Arc<PostgresStore>, Proxy) {
    let url = cluster::shared().database().await;
    let (server, database) = url
        .strip_prefix("postgres://postgres@")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let proxy = Proxy::to(server.to_owned()).await;
    let store = open(PostgresOptions::at(proxy.url(database))).await;
    (store, proxy)
}
