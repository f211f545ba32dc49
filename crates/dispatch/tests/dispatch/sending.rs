//! The sender on a bank with faults, judged by the bank's ledger.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, BatchId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::marker::Marker;
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{
    Claim, NewTurn, Profile, Request, Settlement, StatusMove, StoreError, Then, Turn, TurnsWanted,
};
use tollgate_dispatch::{Gate, GateOptions, Job, Moves, Sender, Sent};
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions, Faults};

use crate::town::{Town, item, item_type};

/// Real time: a clock that a test moves on has jumped, and then evidence takes this long again.
const SETTLE: Duration = Duration::from_secs(2);

struct Post {
    town: Town,
    bank: Bank,
    sender: Sender,
}

impl Post {
    async fn new(options: BankOptions) -> Self {
        let town = Town::new(100).await;
        let honours_keys = options.honours_keys;
        let bank = Bank::start(options).unwrap();
        let sender = sender(&town, &bank.url(), honours_keys);
        town.admit("a", "default", 1).await;
        Self { town, bank, sender }
    }

    /// Claims what is due and sends it: one run.
    async fn run(&self) -> Sent {
        self.run_with(|_| {}).await
    }

    async fn run_with(&self, change: impl FnOnce(&mut Job)) -> Sent {
        let mut job = job(self.claim().await);
        change(&mut job);
        self.sender.send(&job).await.unwrap()
    }

    /// Claims the one item; returns its run.
    async fn claim(&self) -> u32 {
        let claim = Claim {
            item_type: item_type(),
            lane: LaneName::new("default"),
            batch: BatchId::new("BATCH-1"),
            ahead: Duration::from_secs(6),
            stale_after: Duration::from_mins(2),
            limit: 1,
            credit_horizon: Duration::from_secs(8),
        };
        self.town.store.claim(claim).await.unwrap()[0].run
    }

    fn effects(&self) -> u32 {
        self.bank
            .ledger()
            .effective()
            .get("a0")
            .copied()
            .unwrap_or(0)
    }
}

fn sender(town: &Town, url: &str, honours_idempotency_key: bool) -> Sender {
    let profile = Profile {
        honours_idempotency_key,
        key_retention: Duration::from_hours(1),
        settle: SETTLE,
        timeout: Duration::from_secs(2),
        means_not_done: vec![429],
        recognised_by: Marker::Contract,
        asks_by_key: false,
    };
    let options = HttpOptions {
        name: "bank".into(),
        url: url.into(),
        lane: LaneName::new("default"),
        profile,
        max_connections: 4,
    };
    let connector = Arc::new(HttpConnector::new(options).unwrap());
    let gate = Arc::new(Gate::new(town.store.clone(), GateOptions::default()));
    Sender::new(town.store.clone(), gate, connector)
}

fn job(run: u32) -> Job {
    let body = r#"{"paymentId":"a0","amount":"1.00","currency":"EUR","debtor":{},"creditor":{}}"#;
    Job {
        item: item("a0"),
        run,
        request: Request {
            reference: "a0".into(),
            idempotency_key: "thing-a0".into(),
            body_json: body.into(),
            sent_by: None,
        },
        moves: Moves {
            done: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "ACCEPTED"),
            refused: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "REJECTED"),
            in_doubt: StatusMove::new(&["SCHEDULED"], "IN_DOUBT"),
            not_done: StatusMove::new(&["IN_DOUBT"], "SCHEDULED"),
        },
        accounts: vec![],
        refused_then: Then::Finish,
        if_done: None,
    }
}

fn loses_answers() -> Faults {
    "all: reset after".parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_sent_again_under_the_same_key_while_the_bank_honours_it() {
    let post = Post::new(BankOptions {
        faults: loses_answers(),
        ..BankOptions::default()
    })
    .await;
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    assert_eq!(post.town.item("a0").await.status, "IN_DOUBT");
    post.bank.set_faults(Faults::default());
    assert!(matches!(post.run().await, Sent::Done(_)));
    assert_eq!((post.effects(), post.bank.ledger().arrivals()), (1, 2));
    assert_eq!(post.town.item("a0").await.status, "ACCEPTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_that_promise_a_lost_answer_is_only_asked_about() {
    let options = BankOptions {
        faults: loses_answers(),
        honours_keys: false,
        ..BankOptions::default()
    };
    let post = Post::new(options).await;
    post.run().await;
    post.bank.set_faults(Faults::default());
    assert!(
        matches!(post.run().await, Sent::Done(_)),
        "the probe found it"
    );
    assert_eq!(post.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probes_404_before_the_settle_time_is_not_evidence() {
    let reset = "all: reset before".parse().unwrap();
    let post = Post::new(BankOptions {
        faults: reset,
        honours_keys: false,
        ..BankOptions::default()
    })
    .await;
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    post.bank.set_faults(Faults::default());
    // Asked at once: 404, which proves nothing yet.
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    assert_eq!(
        (post.effects(), post.town.item("a0").await.status.as_str()),
        (0, "IN_DOUBT")
    );
    tokio::time::sleep(SETTLE).await;
    // Asked again: 404, and now it is proof. Only then it is sent.
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    assert_eq!(post.effects(), 0);
    let view = post.town.item("a0").await;
    assert_eq!(view.status, "SCHEDULED", "nobody doubts any more");
    assert_eq!(view.attempts[0].state, AttemptState::Retry);
    assert!(matches!(post.run().await, Sent::Done(_)));
    assert_eq!(post.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_4xx_after_an_unknown_is_not_a_refusal() {
    // The bank remembers the key with other content and answers 422.
    let post = Post::new(BankOptions {
        faults: loses_answers(),
        ..BankOptions::default()
    })
    .await;
    post.run().await;
    post.bank.set_faults(Faults::default());
    let other =
        |job: &mut Job| job.request.body_json = job.request.body_json.replace("1.00", "2.00");
    let sent = post.run_with(other).await;
    assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
    assert_eq!(post.town.item("a0").await.status, "IN_DOUBT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_the_doubt_is_over_is_a_refusal() {
    let reset = "all: reset before".parse().unwrap();
    let options = BankOptions {
        faults: reset,
        honours_keys: false,
        ..BankOptions::default()
    };
    let post = Post::new(options).await;
    post.run().await;
    assert_eq!(post.town.item("a0").await.status, "IN_DOUBT");
    post.bank.set_faults(Faults::default());
    tokio::time::sleep(SETTLE).await;
    // The probe proves that nothing was done; then the bank refuses for good.
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    let broken = |job: &mut Job| job.request.body_json = "{}".into();
    assert!(matches!(post.run_with(broken).await, Sent::Refused(_)));
    let view = post.town.item("a0").await;
    assert_eq!(view.status, "REJECTED");
    assert!(view.finished_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_cannot_be_reached_spends_no_turn() {
    let post = Post::new(BankOptions::default()).await;
    let nobody = sender(&post.town, "http://127.0.0.1:1", true);
    let Post { town, bank, .. } = post;
    let post = Post {
        town,
        bank,
        sender: nobody,
    };
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    let view = post.town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.run, view.attempts.len()),
        (QueueStatus::Ready, 2, 0)
    );
    assert_eq!(
        view.status, "SCHEDULED",
        "definitely not done is not in doubt"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_asks_for_quiet_closes_its_lane() {
    let post = Post::new(BankOptions {
        limit_per_second: Some(0),
        ..BankOptions::default()
    })
    .await;
    assert!(matches!(post.run().await, Sent::Requeued(_)));
    let lane = post
        .town
        .store
        .lane(&LaneName::new("default"))
        .await
        .unwrap()
        .unwrap();
    assert!(lane.closed_until.is_some());
    assert_eq!(lane.closed_by, None, "the bank itself wants it");
    assert_eq!(post.effects(), 0);
}

/// Six runs found the lane closed: had they counted, the next pause would be a minute.
#[tokio::test(flavor = "multi_thread")]
async fn pauses_grow_by_the_items_failures_and_not_by_runs_on_a_closed_lane() {
    const RUNS: u32 = 6;
    let post = Post::new(BankOptions {
        faults: "sends: 503 before".parse().unwrap(),
        ..BankOptions::default()
    })
    .await;
    let store = &post.town.store;
    for run in 1..=RUNS {
        assert_eq!(post.claim().await, run);
        let mine = item("a0");
        let back = store.put_back(&mine, run, Duration::ZERO, "closed");
        assert!(back.await.unwrap());
    }
    let nobody = sender(&post.town, "http://127.0.0.1:1", true);
    for (n, secs) in [1, 2, 4].into_iter().enumerate() {
        let before = store.now().await.unwrap();
        let sent = match n {
            1 => nobody.send(&job(post.claim().await)).await.unwrap(),
            _ => post.run().await,
        };
        assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
        let due = post.town.item("a0").await.due;
        let pause = due.duration_since(before).as_secs();
        assert!((secs..secs + 20).contains(&pause), "{pause} s, not {secs}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_lane_sends_its_items_back_to_the_queue() {
    let post = Post::new(BankOptions::default()).await;
    let pause = Pause::now("ops", "bank down");
    post.town
        .change(
            "default",
            LaneChange {
                pause: Some(Some(pause)),
                ..LaneChange::default()
            },
        )
        .await;
    let due = post.town.item("a0").await.due;
    let Sent::Requeued(why) = post.run().await else {
        panic!("sent through a pause")
    };
    assert!(why.contains("ops") && why.contains("bank down"), "{why}");
    let back = post.town.item("a0").await;
    assert_eq!((back.run, back.due), (2, due), "it keeps its place");
    assert_eq!(post.bank.ledger().arrivals(), 0);
}

/// The first run has its turn, and nobody knows whether it was used.
async fn take_a_turn(post: &Post) -> AttemptId {
    post.claim().await;
    let wanted = TurnsWanted {
        watch: None,
        lane: LaneName::new("default"),
        lead: Duration::ZERO,
        attempts: vec![NewTurn {
            item: item("a0"),
            run: 1,
            kind: AttemptKind::Send,
            key: "thing-a0".into(),
            planned: Timestamp::UNIX_EPOCH,
            seen: None,
            missed: None,
            may_be_late: false,
        }],
    };
    let block = post.town.store.take_turns(wanted).await.unwrap();
    let Turn::At { attempt, .. } = block.turns[0] else {
        panic!("no turn")
    };
    attempt
}

/// Whoever sent it died before he could write it down: it is on the worklist nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_may_have_sent_is_in_doubt_while_a_404_proves_nothing() {
    let post = Post::new(BankOptions {
        honours_keys: false,
        ..BankOptions::default()
    })
    .await;
    take_a_turn(&post).await;
    let asked = post.sender.send(&job(1)).await.unwrap();
    assert!(matches!(asked, Sent::Requeued(_)), "{asked:?}");
    assert_eq!(post.town.item("a0").await.status, "IN_DOUBT");
    assert_eq!(post.effects(), 0);
}

/// The first run is told this when the item has been put back already: evidence, and not its item.
async fn hear_late(post: &Post, outcome: Outcome) {
    let store = &post.town.store;
    let attempt = take_a_turn(post).await;
    let mine = item("a0");
    let taken_from_it = store.put_back(&mine, 1, Duration::ZERO, "taken from it");
    assert!(taken_from_it.await.unwrap());
    let late = Settlement {
        attempt,
        item: item("a0"),
        run: 1,
        outcome,
        record: Some(job(1).moves.refused),
        then: Then::Finish,
        disproves: false,
        close_lane: None,
        accounts: vec![],
    };
    assert!(!store.settle(late).await.unwrap(), "not this run's item");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_came_after_the_item_was_put_back_still_ends_it() {
    let post = Post::new(BankOptions::default()).await;
    hear_late(&post, Outcome::Refused("no such account".into())).await;
    assert!(matches!(post.run().await, Sent::Refused(_)));
    let view = post.town.item("a0").await;
    assert_eq!(
        (view.status.as_str(), view.finished_at.is_some()),
        ("REJECTED", true)
    );
    assert_eq!(post.bank.ledger().arrivals(), 0, "nothing was sent again");
}

/// Whoever made the job had looked before the decline came.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_declined_since_it_was_chosen_is_not_sent_under() {
    let post = Post::new(BankOptions::default()).await;
    hear_late(&post, Outcome::Declined("no funds".into())).await;
    let run = post.claim().await;
    let stale = post.sender.send(&job(run)).await;
    assert!(
        matches!(stale, Err(StoreError::Unavailable(_))),
        "{stale:?}"
    );
    assert_eq!(post.bank.ledger().arrivals(), 0);
    let mut looked_again = job(run);
    looked_again.request.idempotency_key = "thing-a0-2".into();
    let sent = post.sender.send(&looked_again).await.unwrap();
    assert!(matches!(sent, Sent::Done(_)), "{sent:?}");
    assert_eq!(post.effects(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_doubt_is_sent_again_and_asked_about_under_its_own_key() {
    for honours_keys in [true, false] {
        let post = Post::new(BankOptions {
            faults: loses_answers(),
            honours_keys,
            ..BankOptions::default()
        })
        .await;
        post.run().await;
        post.bank.set_faults(Faults::default());
        let other = |job: &mut Job| job.request.idempotency_key = "another".into();
        let sent = post.run_with(other).await;
        assert!(matches!(sent, Sent::Done(_)), "{sent:?}");
        assert_eq!(post.effects(), 1);
        let entries = post.bank.ledger().entries().into_iter();
        let keys: Vec<_> = entries.filter_map(|entry| entry.key).collect();
        assert!(keys.iter().all(|key| key == "thing-a0"), "{keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_of_the_item_sends_nothing() {
    let post = Post::new(BankOptions::default()).await;
    assert!(matches!(post.run().await, Sent::Done(_)));
    let Sent::Superseded(_) = post.sender.send(&Job { run: 7, ..fresh() }).await.unwrap() else {
        panic!("a run that owns nothing has sent")
    };
    assert_eq!(post.bank.ledger().arrivals(), 1);
}

/// A job for an item that was never sent.
fn fresh() -> Job {
    Job {
        item: item("nobody"),
        ..job(7)
    }
}
