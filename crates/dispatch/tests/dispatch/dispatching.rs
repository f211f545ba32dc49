//! The dispatcher's cycle, one at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_conformance::postgres::{shared, sql};
use tollgate_core::id::FlowId;
use tollgate_core::item::QueueStatus;
use tollgate_core::item_type::{ItemTypeChange, ItemTypeConfig};
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::{
    Author, Engine, FlowView, START_PAUSES, Start, Started, Store, Unreachable,
};
use tollgate_dispatch::{Dispatcher, change_item_type};

use crate::town::{Mood, Scripted, Town, item_type};

fn dispatcher(town: &Town, engine: &Arc<Scripted>) -> Dispatcher {
    Dispatcher::new(item_type(), town.store.clone(), engine.clone(), 1)
}

#[tokio::test]
async fn due_items_are_started_under_their_own_ids_and_dispatched() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 3).await;
    let cycle = dispatcher(&town, &engine).cycle().await.unwrap();
    assert_eq!((cycle.claimed, cycle.started, cycle.failed), (3, 3, 0));
    assert_eq!(
        engine.started(),
        ["exec-thing-a0", "exec-thing-a1", "exec-thing-a2"]
    );
    let delays: Vec<_> = engine
        .starts
        .lock()
        .unwrap()
        .iter()
        .map(|s| s.delay)
        .collect();
    assert!(
        delays.is_sorted() && delays[2] > Duration::ZERO,
        "each waits for its slot: {delays:?}"
    );
    let view = town.item("a0").await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Dispatched, 1));
    assert_eq!(
        dispatcher(&town, &engine).cycle().await.unwrap().claimed,
        0,
        "nothing is left"
    );
}

#[tokio::test]
async fn the_kill_switch_stops_claims_and_loses_nothing() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 3).await;
    town.configure(ItemTypeConfig {
        enabled: false,
        ..ItemTypeConfig::default()
    })
    .await;
    let dispatcher = dispatcher(&town, &engine);
    assert!(dispatcher.cycle().await.unwrap().skipped);
    assert_eq!(town.item("a0").await.queue_status, QueueStatus::Ready);
    town.configure(ItemTypeConfig::default()).await;
    assert_eq!(
        dispatcher.cycle().await.unwrap().started,
        3,
        "no restart was needed"
    );
}

/// An engine while whose first start somebody throws the kill switch.
struct Thrown {
    engine: Arc<Scripted>,
    store: Arc<dyn Store>,
}

#[async_trait]
impl Engine for Thrown {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let off = ItemTypeChange {
            enabled: Some(false),
            ..ItemTypeChange::default()
        };
        let author = Author::new("ops", "stop");
        let thrown = change_item_type(&*self.store, &item_type(), &off, author).await;
        thrown.unwrap();
        self.engine.start(flows).await
    }
    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        self.engine.view(id, wait).await
    }
}

#[tokio::test]
async fn the_kill_switch_stops_a_backlog_before_its_next_batch() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.configure(ItemTypeConfig {
        batch_size: 10,
        ..ItemTypeConfig::default()
    })
    .await;
    town.admit("a", "default", 35).await;
    let (engine, store) = (engine.clone(), town.store.clone());
    let thrown = Arc::new(Thrown { engine, store });
    let dispatcher = Dispatcher::new(item_type(), town.store.clone(), thrown, 1);
    assert_eq!(dispatcher.cycle().await.unwrap().started, 10);
    assert!(dispatcher.cycle().await.unwrap().skipped);
}

#[tokio::test]
async fn between_full_cycles_only_what_is_due_soon_is_claimed_and_then_as_far_ahead_as_ever() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit_in("b", "default", Duration::from_secs(4)).await;
    let dispatcher = dispatcher(&town, &engine);
    let look = dispatcher.look().await.unwrap();
    assert_eq!(look.claimed, 0, "it can wait for the next full cycle");
    assert!(
        look.next_in
            .is_some_and(|next| next > Duration::from_secs(2))
    );
    town.admit("a", "default", 1).await;
    assert_eq!(dispatcher.look().await.unwrap().claimed, 2);
    town.admit_in("c", "default", Duration::from_secs(4)).await;
    assert_eq!(dispatcher.cycle().await.unwrap().claimed, 1);
}

/// Runs a dispatcher until the item was started.
async fn runs_until_started(town: &Town, engine: &Arc<Scripted>, id: &str) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let running = tokio::spawn(Arc::new(dispatcher(town, engine)).run(stopped));
    let started = async {
        while !engine.started().iter().any(|flow| flow.ends_with(id)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), started).await;
    waited.expect("it is started");
    stop.send(true).unwrap();
    running.await.unwrap();
}

#[tokio::test]
async fn a_dispatcher_runs_a_full_cycle_at_least_once_in_its_interval() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.configure(ItemTypeConfig {
        dispatch_interval_secs: 1,
        pre_start_buffer_mins: 10.into(),
        ..ItemTypeConfig::default()
    })
    .await;
    town.admit("first", "default", 1).await;
    let later = async {
        while engine.started().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        town.admit_in("later", "default", Duration::from_mins(5))
            .await;
    };
    tokio::join!(runs_until_started(&town, &engine, "later"), later);
}

#[tokio::test]
async fn changes_of_an_item_type_at_once_never_undo_each_other() {
    let town = Town::new(100).await;
    let change = |n: u32| ItemTypeChange {
        enabled: (n == 0).then_some(false),
        batch_size: (n == 1).then_some(77),
        jitter_window_ms: (n == 2).then_some(99),
        ..ItemTypeChange::default()
    };
    let apply = async |n| {
        let author = Author::new("ops", "because");
        let changed = change_item_type(&*town.store, &item_type(), &change(n), author).await;
        changed.unwrap();
    };
    tokio::join!(apply(0), apply(1), apply(2));
    let found = tollgate_dispatch::item_type(&*town.store, &item_type()).await;
    let config = found.unwrap().unwrap().config;
    let changed = (config.enabled, config.batch_size, config.jitter_window_ms);
    assert_eq!(changed, (false, 77, 99));
}

#[tokio::test]
async fn failed_starts_are_retried_and_then_dead() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Failing));
    town.admit("a", "default", 1).await;
    let dispatcher = dispatcher(&town, &engine);
    let pauses = [1, 2, 3, 6, 7, 20].map(|failures| START_PAUSES.pause_after(failures).as_secs());
    assert_eq!(pauses, [5, 10, 20, 160, 300, 300]);
    for failures in 1..=5 {
        assert_eq!(dispatcher.cycle().await.unwrap().failed, 1);
        assert_eq!(town.item("a0").await.retry_count, failures);
        let early = dispatcher.cycle().await.unwrap();
        assert_eq!(early.claimed, 0, "after failure {failures}");
        town.time.advance(START_PAUSES.pause_after(failures));
    }
    let view = town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.last_error.as_deref()),
        (QueueStatus::Dead, Some("scripted"))
    );
    assert_eq!(
        dispatcher.cycle().await.unwrap().claimed,
        0,
        "the dead are left alone"
    );
}

#[tokio::test]
async fn an_engine_that_is_away_counts_for_nobody() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Away));
    town.admit("a", "default", 2).await;
    let dispatcher = dispatcher(&town, &engine);
    for _ in 0..10 {
        assert!(dispatcher.cycle().await.unwrap().unreachable);
    }
    let view = town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.retry_count),
        (QueueStatus::Ready, 0)
    );
    *engine.mood.lock().unwrap() = Mood::Willing;
    assert_eq!(dispatcher.cycle().await.unwrap().started, 2);
}

#[tokio::test]
async fn an_engine_that_goes_away_in_between_keeps_what_it_has_taken() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Leaving));
    town.admit("a", "default", 3).await;
    let cycle = dispatcher(&town, &engine).cycle().await.unwrap();
    assert_eq!((cycle.claimed, cycle.started, cycle.failed), (3, 1, 0));
    assert!(cycle.unreachable);
    assert_eq!(town.item("a0").await.queue_status, QueueStatus::Dispatched);
    let view = town.item("a1").await;
    assert_eq!(
        (view.queue_status, view.retry_count),
        (QueueStatus::Ready, 0)
    );
}

#[tokio::test]
async fn a_round_is_many_cycles_within_its_time_and_tells_what_they_did() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 2).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let dispatcher = dispatcher(&town, &engine);
    let length = Duration::from_secs(1);
    let began = tokio::time::Instant::now();
    let round = dispatcher.round(length, stopped.clone());
    let later = async {
        tokio::time::sleep(length / 3).await;
        town.admit("b", "default", 1).await;
    };
    let (round, ()) = tokio::join!(round, later);
    let round = round.unwrap();
    assert!(round.cycles >= 3, "{round:?}");
    assert_eq!(
        (round.claimed, round.started),
        (3, 3),
        "also what came later"
    );
    assert!(began.elapsed() < length * 3, "it ends");

    stop.send(true).unwrap();
    let cut_short = dispatcher.round(Duration::from_mins(5), stopped).await;
    assert_eq!(
        cut_short.unwrap().cycles,
        1,
        "a process that stops waits no longer"
    );
}

#[tokio::test]
async fn an_item_whose_start_was_made_but_not_recorded_is_claimed_again_as_its_next_run() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 1).await;
    // A dispatcher claimed it, started it, and died before it could say so.
    let claim = tollgate_core::ports::Claim {
        item_type: item_type(),
        lane: tollgate_core::id::LaneName::new("default"),
        batch: tollgate_core::id::BatchId::new("BATCH-dead"),
        ahead: Duration::from_secs(6),
        stale_after: Duration::from_mins(2),
        limit: 10,
        credit_horizon: Duration::from_secs(8),
    };
    tollgate_core::ports::Queue::claim(&*town.store, claim)
        .await
        .unwrap();
    engine.end(
        "exec-thing-a0",
        tollgate_core::ports::FlowView::Running {
            progress_json: None,
        },
    );
    let dispatcher = dispatcher(&town, &engine);
    assert_eq!(
        dispatcher.cycle().await.unwrap().claimed,
        0,
        "the claim is not stale yet"
    );
    town.time.advance(Duration::from_secs(121));
    let cycle = dispatcher.cycle().await.unwrap();
    assert_eq!((cycle.claimed, cycle.started, cycle.failed), (1, 1, 0));
    let view = town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.run),
        (QueueStatus::Dispatched, 2),
        "the flow that nobody has heard of no longer owns the item"
    );
}

/// The store goes away between claim and record: its process lives, so its claims need not go stale first.
#[tokio::test]
async fn claims_whose_end_is_not_known_are_given_back_by_the_next_cycle() {
    const REFUSE: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'no starts are recorded now'; END $$;
         CREATE TRIGGER refused BEFORE UPDATE ON item_queue FOR EACH ROW
            WHEN (NEW.queue_status = 'DISPATCHED') EXECUTE FUNCTION refuse()";
    let url = shared().database().await;
    let town = Town::on_postgres(&url, 10).await;
    let engine = Scripted::new(Mood::Willing);
    town.admit("a", "default", 200).await;
    town.time.advance(Duration::from_mins(1));
    let dispatcher = dispatcher(&town, &engine);
    sql(&url, REFUSE).await;
    assert!(dispatcher.cycle().await.is_err());
    let claimed = town.item("a0").await;
    assert_eq!(
        (claimed.queue_status, claimed.run),
        (QueueStatus::Claimed, 1)
    );
    sql(&url, "DROP TRIGGER refused ON item_queue").await;
    let cycle = dispatcher.cycle().await.unwrap();
    assert_eq!(cycle.started, 78, "the lane's whole credit is free again");
    let again = town.item("a0").await;
    assert_eq!(
        (again.queue_status, again.run),
        (QueueStatus::Dispatched, 2),
        "its first flow no longer owns it"
    );
}

#[tokio::test]
async fn a_backlog_never_becomes_more_flows_than_the_lane_can_send() {
    let (town, engine) = (Town::new(10).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 500).await;
    town.time.advance(Duration::from_mins(10));
    let dispatcher = dispatcher(&town, &engine);
    let first = dispatcher.cycle().await.unwrap();
    // 9.8 a second for the claim-ahead of 6 s and 2 s to spare.
    assert_eq!(first.started, 78);
    assert_eq!(
        dispatcher.cycle().await.unwrap().started,
        0,
        "no credit until something is sent"
    );
}

#[tokio::test]
async fn a_paused_lane_blocks_no_other() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.lane("other", 100).await;
    town.admit("a", "default", 2).await;
    town.admit("b", "other", 2).await;
    let pause = Pause::now("ops", "bank down");
    town.change(
        "default",
        LaneChange {
            pause: Some(Some(pause)),
            ..LaneChange::default()
        },
    )
    .await;
    let dispatcher = dispatcher(&town, &engine);
    dispatcher.cycle().await.unwrap();
    assert_eq!(engine.started(), ["exec-thing-b0", "exec-thing-b1"]);
    town.change(
        "default",
        LaneChange {
            pause: Some(None),
            ..LaneChange::default()
        },
    )
    .await;
    assert_eq!(dispatcher.cycle().await.unwrap().started, 2);
}

#[tokio::test]
async fn cycles_of_one_type_do_not_overlap() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 50).await;
    let dispatcher = dispatcher(&town, &engine);
    let (one, two) = tokio::join!(dispatcher.cycle(), dispatcher.cycle());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.skipped != two.skipped, "one ran, one was skipped");
    assert_eq!(one.started + two.started, 50);
}

#[tokio::test]
async fn a_full_batch_is_followed_by_another_at_once() {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.configure(ItemTypeConfig {
        batch_size: 10,
        ..ItemTypeConfig::default()
    })
    .await;
    town.admit("a", "default", 35).await;
    assert_eq!(
        dispatcher(&town, &engine).cycle().await.unwrap().started,
        35
    );
}
