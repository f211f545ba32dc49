//! `Flows`: the embedded engine's memory, fenced by the node's epoch.

use std::time::Duration;

use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    DueFlow, FlowEnd, FlowView, JournalEntry, NewFlow, StoreError, StoreResult,
};

use super::fixture::{Fixture, HOUR, MINUTE, SECOND, claim_all, payment, plan};

fn flow(id: &str) -> NewFlow {
    NewFlow {
        id: FlowId::new(id),
        name: "sample".into(),
        input_json: format!("\"input of {id}\""),
        delay: Duration::ZERO,
        is_child: false,
    }
}
fn after(id: &str, delay: Duration) -> NewFlow {
    NewFlow { delay, ..flow(id) }
}
fn entry(key: &str, result: &str) -> JournalEntry {
    JournalEntry {
        key: key.into(),
        result_json: result.into(),
    }
}
fn ids(flows: &[DueFlow]) -> Vec<&str> {
    flows.iter().map(|f| f.id.as_str()).collect()
}
async fn begin(f: &dyn Fixture, flows: Vec<NewFlow>) -> Epoch {
    let epoch = f.store().take_node().await.unwrap();
    f.store().start_flows(flows).await.unwrap();
    epoch
}
async fn due(f: &dyn Fixture, epoch: Epoch) -> Vec<DueFlow> {
    f.store().due_flows(epoch, 100).await.unwrap().flows
}
async fn note(f: &dyn Fixture, epoch: Epoch, id: &str, entry: JournalEntry) {
    f.store()
        .journal(epoch, &FlowId::new(id), entry)
        .await
        .unwrap();
}
async fn end(f: &dyn Fixture, epoch: Epoch, id: &str, end: FlowEnd) {
    f.store()
        .end_flow(epoch, &FlowId::new(id), end)
        .await
        .unwrap();
}
async fn view(f: &dyn Fixture, id: &str) -> FlowView {
    f.store().flow(&FlowId::new(id)).await.unwrap()
}

pub async fn each_node_that_takes_over_has_a_higher_epoch(f: &dyn Fixture) {
    let first = f.store().take_node().await.unwrap();
    let second = f.store().take_node().await.unwrap();
    f.restart().await;
    let third = f.store().take_node().await.unwrap();
    assert!(
        first < second && second < third,
        "{first:?} {second:?} {third:?}"
    );
}

pub async fn a_node_that_was_taken_over_from_writes_nothing_more(f: &dyn Fixture) {
    let old = begin(f, vec![flow("a"), flow("b")]).await;
    due(f, old).await;
    let new = f.store().take_node().await.unwrap();
    let (store, a) = (f.store(), FlowId::new("a"));
    let fenced = |answer: StoreResult<()>| {
        assert!(matches!(answer, Err(StoreError::Fenced(_))), "{answer:?}");
    };
    fenced(store.due_flows(old, 10).await.map(drop));
    fenced(store.journal(old, &a, entry("k", "1")).await);
    fenced(store.flow_progress(old, &a, "1".into()).await);
    fenced(store.end_flow(old, &a, FlowEnd::Done("1".into())).await);
    let ahead = Epoch(new.0 + 1);
    fenced(store.journal(ahead, &a, entry("k", "1")).await);
    let flows = due(f, new).await;
    assert_eq!(ids(&flows).len(), 2, "nothing was handed to the old node");
    assert!(flows.iter().all(|flow| flow.journal.is_empty()));
    let running = FlowView::Running {
        progress_json: None,
    };
    assert_eq!(view(f, "a").await, running);
}

pub async fn starting_a_flow_twice_changes_nothing(f: &dyn Fixture) {
    let epoch = f.store().take_node().await.unwrap();
    let store = f.store();
    let started = store.start_flows(vec![flow("a"), flow("a"), flow("b")]);
    assert_eq!(started.await.unwrap(), [true, false, true]);
    let mut other = flow("a");
    other.input_json = "\"another\"".into();
    assert_eq!(
        store.start_flows(vec![other.clone()]).await.unwrap(),
        [false]
    );
    let flows = due(f, epoch).await;
    let a = flows.iter().find(|flow| flow.id.as_str() == "a").unwrap();
    assert_eq!(a.input_json, "\"input of a\"");
    assert_eq!((a.name.as_str(), a.is_child), ("sample", false));
    end(f, epoch, "a", FlowEnd::Done("1".into())).await;
    assert_eq!(store.start_flows(vec![other]).await.unwrap(), [false]);
    assert_eq!(ids(&due(f, epoch).await), [""; 0], "it has ended for good");
}

pub async fn a_flow_started_by_many_at_once_is_new_once(f: &dyn Fixture) {
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let store = f.store();
            tokio::spawn(async move { store.start_flows(vec![flow("a"), flow("b")]).await })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap().unwrap().iter().filter(|n| **n).count();
    }
    assert_eq!(new, 2);
}

pub async fn a_due_flow_is_handed_out_once_per_epoch(f: &dyn Fixture) {
    let epoch = begin(f, vec![flow("a")]).await;
    assert_eq!(ids(&due(f, epoch).await), ["a"]);
    assert_eq!(ids(&due(f, epoch).await), [""; 0]);
    let next = f.store().take_node().await.unwrap();
    assert_eq!(ids(&due(f, next).await), ["a"], "and to the next node");
    f.restart().await;
    let next = f.store().take_node().await.unwrap();
    assert_eq!(ids(&due(f, next).await), ["a"], "also after a crash");
}

pub async fn a_running_flow_is_due_at_once_for_the_next_node_even_if_the_clock_was_set_back(
    f: &dyn Fixture,
) {
    let epoch = begin(f, vec![flow("a"), after("b", HOUR)]).await;
    assert_eq!(ids(&due(f, epoch).await), ["a"]);
    f.turn_back(HOUR).await;
    let next = f.store().take_node().await.unwrap();
    assert_eq!(ids(&due(f, next).await), ["a"]);
}

pub async fn what_a_node_that_is_gone_had_claimed_is_ready_again(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.dispatched(&["running"]).await;
    let claimed = f.claimed_one("claimed").await;
    f.store().take_node().await.unwrap();
    let status = async |id| f.view(&payment(id)).await.queue_status;
    assert_eq!(status("claimed").await, QueueStatus::Ready);
    assert_eq!(status("running").await, QueueStatus::Dispatched);
    let again = f.claim(claim_all()).await;
    assert_eq!(
        (again.len(), again[0].run),
        (1, 2),
        "a flow that the old claim started owns it no more"
    );
    assert!(again[0].fence > claimed.fence);
}

pub async fn a_start_delay_is_honoured_and_the_wait_is_told(f: &dyn Fixture) {
    let epoch = begin(f, vec![after("late", HOUR), after("soon", MINUTE)]).await;
    let none = f.store().due_flows(epoch, 10).await.unwrap();
    assert_eq!(ids(&none.flows), [""; 0]);
    let wait = none.next_in.expect("something waits");
    assert!(wait <= MINUTE && wait > MINUTE / 2, "{wait:?}");
    f.advance(wait).await;
    let some = f.store().due_flows(epoch, 10).await.unwrap();
    assert_eq!(ids(&some.flows), ["soon"]);
    assert!(some.next_in.is_some_and(|wait| wait > 30 * MINUTE));
    f.advance(HOUR).await;
    let last = f.store().due_flows(epoch, 10).await.unwrap();
    assert_eq!(
        (ids(&last.flows), last.next_in),
        (vec!["late"], None),
        "and then none"
    );
}

pub async fn due_flows_are_handed_out_within_the_limit_and_oldest_first(f: &dyn Fixture) {
    let epoch = begin(
        f,
        vec![
            after("c", 3 * SECOND),
            after("a", SECOND),
            after("b", 2 * SECOND),
        ],
    )
    .await;
    f.advance(MINUTE).await;
    let first = f.store().due_flows(epoch, 2).await.unwrap();
    assert_eq!(ids(&first.flows), ["a", "b"]);
    assert_eq!(first.next_in, Some(Duration::ZERO), "there is more");
    let rest = f.store().due_flows(epoch, 2).await.unwrap();
    assert_eq!((ids(&rest.flows), rest.next_in), (vec!["c"], None));
}

pub async fn children_come_before_all_others(f: &dyn Fixture) {
    let child = |id: &str| NewFlow {
        is_child: true,
        ..after(id, 5 * SECOND)
    };
    let epoch = begin(f, vec![flow("a"), flow("b"), child("c"), child("d")]).await;
    f.advance(MINUTE).await;
    let first = f.store().due_flows(epoch, 3).await.unwrap().flows;
    assert!(
        first[0].is_child && first[1].is_child && !first[2].is_child,
        "{:?}",
        ids(&first)
    );
    assert_eq!(due(f, epoch).await.len(), 1);
}

pub async fn the_first_record_of_a_step_stays_and_survives(f: &dyn Fixture) {
    let epoch = begin(f, vec![flow("a"), flow("b")]).await;
    due(f, epoch).await;
    note(f, epoch, "a", entry("one", "1")).await;
    note(f, epoch, "a", entry("one", "2")).await;
    note(f, epoch, "a", entry("two", "\"zwei\"")).await;
    f.restart().await;
    let next = f.store().take_node().await.unwrap();
    let flows = due(f, next).await;
    let of = |id: &str| {
        let mut journal = flows
            .iter()
            .find(|f| f.id.as_str() == id)
            .unwrap()
            .journal
            .clone();
        journal.sort_by(|a, b| a.key.cmp(&b.key));
        journal
    };
    assert_eq!(of("a"), [entry("one", "1"), entry("two", "\"zwei\"")]);
    assert_eq!(of("b"), [], "each flow has its own");
}

pub async fn an_ended_flow_shows_its_end_and_has_no_journal(f: &dyn Fixture) {
    let epoch = begin(f, vec![flow("a"), flow("b")]).await;
    due(f, epoch).await;
    note(f, epoch, "a", entry("one", "1")).await;
    end(f, epoch, "a", FlowEnd::Done("\"fine\"".into())).await;
    end(f, epoch, "b", FlowEnd::Failed("broken".into())).await;
    let done = FlowView::Done {
        result_json: "\"fine\"".into(),
    };
    let failed = FlowView::Failed {
        error: "broken".into(),
    };
    for _ in 0..2 {
        assert_eq!(
            (view(f, "a").await, view(f, "b").await),
            (done.clone(), failed.clone())
        );
        let next = f.store().take_node().await.unwrap();
        assert_eq!(ids(&due(f, next).await), [""; 0]);
        f.restart().await;
    }
}

pub async fn a_flow_that_goes_on_as_new_is_due_with_its_new_input_and_an_empty_journal(
    f: &dyn Fixture,
) {
    let epoch = begin(f, vec![flow("a")]).await;
    due(f, epoch).await;
    note(f, epoch, "a", entry("one", "1")).await;
    let again = FlowEnd::Again {
        input_json: "\"round 2\"".into(),
    };
    end(f, epoch, "a", again).await;
    assert!(matches!(view(f, "a").await, FlowView::Running { .. }));
    let flows = due(f, epoch).await;
    assert_eq!(ids(&flows), ["a"], "in the same epoch");
    assert_eq!(flows[0].input_json, "\"round 2\"");
    assert_eq!(flows[0].journal, []);
    note(f, epoch, "a", entry("one", "2")).await;
    let next = f.store().take_node().await.unwrap();
    assert_eq!(due(f, next).await[0].journal, [entry("one", "2")]);
}

pub async fn the_latest_progress_is_shown_while_a_flow_runs(f: &dyn Fixture) {
    let epoch = begin(f, vec![flow("a")]).await;
    assert_eq!(view(f, "never").await, FlowView::NotFound);
    let running = |progress: Option<&str>| FlowView::Running {
        progress_json: progress.map(str::to_owned),
    };
    assert_eq!(view(f, "a").await, running(None), "pending is running");
    due(f, epoch).await;
    for progress in ["1", "2"] {
        let store = f.store();
        store
            .flow_progress(epoch, &FlowId::new("a"), progress.into())
            .await
            .unwrap();
        assert_eq!(view(f, "a").await, running(Some(progress)));
    }
    end(f, epoch, "a", FlowEnd::Done("3".into())).await;
    f.store()
        .flow_progress(epoch, &FlowId::new("a"), "4".into())
        .await
        .unwrap();
    let done = FlowView::Done {
        result_json: "3".into(),
    };
    assert_eq!(view(f, "a").await, done, "late progress shows nothing");
}
