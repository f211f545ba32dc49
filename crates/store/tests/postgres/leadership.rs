//! Leader and standbys: who may take over, what that does to the one before, and calls between processes.

use std::time::Duration;

use tollgate_conformance::postgres::shared;
use tollgate_core::id::FlowId;
use tollgate_core::leadership::Seen;
use tollgate_core::ports::{
    Call, FlowEnd, FlowView, Flows, Leadership, NewFlow, Showing, StoreError, Term,
};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::trouble::through_a_proxy;

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(PostgresOptions::at(url)).await.unwrap()
}

async fn two() -> (PostgresStore, PostgresStore) {
    let url = shared().database().await;
    (open(&url).await, open(&url).await)
}

async fn seen(store: &PostgresStore) -> Seen {
    store.look().await.unwrap().seen
}

/// Takes over from what it sees now.
async fn lead(store: &PostgresStore) -> Term {
    let seen = seen(store).await;
    store.lead(Some(seen), "s").await.unwrap().unwrap()
}

fn flow(id: &str) -> NewFlow {
    NewFlow {
        id: FlowId::new(id),
        name: "sample".into(),
        input_json: "1".into(),
        delay: Duration::ZERO,
        is_child: false,
    }
}

fn fenced<T: std::fmt::Debug>(answer: &Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Fenced(_))), "{answer:?}");
}

#[tokio::test]
async fn a_takeover_is_from_exactly_what_was_seen() {
    let (a, b) = two().await;
    let fresh = seen(&a).await;
    assert_eq!((fresh.epoch.0, fresh.leader), (0, None));
    let term = a.lead(Some(fresh), "margin").await.unwrap().unwrap();
    assert!(
        b.lead(Some(fresh), "").await.unwrap().is_none(),
        "the second"
    );
    let before = seen(&b).await;
    assert_eq!(before.leader, Some(a.process()));
    assert_eq!(b.look().await.unwrap().settings, "margin");
    a.beat(term.epoch).await.unwrap();
    assert!(
        b.lead(Some(before), "").await.unwrap().is_none(),
        "it has beaten"
    );
    let now = seen(&b).await;
    assert_ne!(now.beat, before.beat);
    assert!(b.lead(Some(now), "").await.unwrap().is_some());
    fenced(&a.beat(term.epoch).await);
}

#[tokio::test]
async fn of_many_who_take_over_at_once_one_wins() {
    let url = shared().database().await;
    let mut all = vec![];
    for _ in 0..6 {
        all.push(open(&url).await);
    }
    let now = seen(&all[0]).await;
    let taken = futures::future::join_all(all.iter().map(|store| store.lead(Some(now), ""))).await;
    let won = taken.into_iter().filter(|term| matches!(term, Ok(Some(_))));
    assert_eq!(won.count(), 1);
    assert_eq!(seen(&all[0]).await.epoch.0, 1);
}

#[tokio::test]
async fn a_term_that_is_over_stays_over_also_when_its_process_leads_again() {
    let (a, b) = two().await;
    let first = lead(&a).await;
    a.start_flows(vec![flow("f")]).await.unwrap();
    let due = first.store.due_flows(first.epoch, 10).await.unwrap();
    assert_eq!(due.flows.len(), 1);
    lead(&b).await;
    let again = lead(&a).await;
    assert_eq!(again.epoch.0, 3);
    // Whatever the first term still holds is refused, by its own store.
    let item = tollgate_core::id::Item::new(
        &tollgate_core::id::ItemType::new("PAYMENT"),
        &tollgate_core::id::ItemId::new("p"),
    );
    let pause = Duration::ZERO;
    fenced(&first.store.put_back(&item, 1, pause, "late").await);
    fenced(&first.store.due_flows(first.epoch, 10).await);
    assert!(!again.store.put_back(&item, 1, pause, "none").await.unwrap());
    let due = again.store.due_flows(again.epoch, 10).await.unwrap();
    assert_eq!(due.flows.len(), 1, "due again");
}

#[tokio::test]
async fn a_leader_that_resigns_is_fenced_and_leaves_nobody() {
    let (a, b) = two().await;
    let term = lead(&a).await;
    a.resign(term.epoch).await.unwrap();
    let vacant = seen(&b).await;
    assert_eq!((vacant.epoch.0, vacant.leader), (2, None));
    fenced(&a.beat(term.epoch).await);
    fenced(&term.store.due_flows(term.epoch, 1).await);
    let next = lead(&b).await;
    a.resign(term.epoch).await.unwrap();
    assert_eq!(
        seen(&a).await.leader,
        Some(b.process()),
        "too late, and harmless"
    );
    b.beat(next.epoch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_whose_answer_was_lost_shows_its_process_as_leader() {
    let (store, proxy) = through_a_proxy().await;
    let now = seen(&store).await;
    proxy.cut_at_the_next_commit();
    let lost = store.lead(Some(now), "").await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    // The commit has left; on a busy machine the server may still be at it.
    for _ in 0..500 {
        if seen(&store).await.leader.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(seen(&store).await.leader, Some(store.process()));
    assert_eq!(lead(&store).await.epoch.0, 2);
}

#[tokio::test]
async fn processes_show_themselves_until_they_leave_or_are_forgotten() {
    let (a, b) = two().await;
    let mut showing = Showing {
        name: "host/1".into(),
        address: "127.0.0.1:1".into(),
        version: "1".into(),
        cannot_lead: String::new(),
    };
    a.show(&showing).await.unwrap();
    b.show(&showing).await.unwrap();
    showing.cannot_lead = "gate.margin".into();
    b.show(&showing).await.unwrap();
    let lines = a.look().await.unwrap().processes;
    let beats: Vec<_> = lines.iter().map(|line| (line.process, line.beat)).collect();
    assert_eq!(beats, [(a.process(), 1), (b.process(), 2)]);
    assert_eq!(lines[1].showing, showing);
    a.forget(vec![(b.process(), 1)]).await.unwrap();
    assert_eq!(
        a.look().await.unwrap().processes.len(),
        2,
        "it has shown itself since"
    );
    a.forget(vec![(b.process(), 2)]).await.unwrap();
    a.leave().await.unwrap();
    assert_eq!(b.look().await.unwrap().processes, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_heard_by_the_others_also_after_their_session_was_ended() {
    let url = shared().database().await;
    let (a, b) = (open(&url).await, open(&url).await);
    assert_eq!(a.called().await, Call::Anything, "connected");
    b.call(Call::Uploads).await.unwrap();
    assert_eq!(a.called().await, Call::Uploads);
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    tollgate_conformance::postgres::sql(&url, ended).await;
    assert_eq!(a.called().await, Call::Anything, "connected again");
    b.call(Call::Flows).await.unwrap();
    assert_eq!(a.called().await, Call::Flows);
}

#[tokio::test]
async fn ends_of_flows_are_told_to_those_who_do_not_run_them() {
    let (a, b) = two().await;
    let term = lead(&a).await;
    b.start_flows(vec![flow("done"), flow("failed"), flow("runs")])
        .await
        .unwrap();
    let ids: Vec<FlowId> = ["done", "failed", "runs", "none"].map(FlowId::new).to_vec();
    assert_eq!(b.ended_flows(ids.clone()).await.unwrap(), []);
    term.store.due_flows(term.epoch, 10).await.unwrap();
    for (id, end) in [
        ("done", FlowEnd::Done("7".into())),
        ("failed", FlowEnd::Failed("why".into())),
    ] {
        term.store
            .end_flow(term.epoch, &FlowId::new(id), end)
            .await
            .unwrap();
    }
    let mut ended = b.ended_flows(ids).await.unwrap();
    ended.sort_by(|a, b| a.0.cmp(&b.0));
    let told = [
        (
            FlowId::new("done"),
            FlowView::Done {
                result_json: "7".into(),
            },
        ),
        (
            FlowId::new("failed"),
            FlowView::Failed {
                error: "why".into(),
            },
        ),
    ];
    assert_eq!(ended, told);
}
