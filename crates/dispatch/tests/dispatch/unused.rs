//! Turns that were taken and not used: what was certainly not sent is on record as such.

use std::time::Duration;

use tollgate_core::id::LaneName;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{ActionResult, Author, Settlement};
use tollgate_core::ports::{NewTurn, StatusMove, Then, Turn, TurnsWanted};
use tollgate_dispatch::Sent;

use crate::cutting::Edge;
use crate::money::{Street, job};
use crate::town::{Town, item};

/// Sends this item on a lane whose last turn lies an hour ahead, by a clock that was set back
/// since: its turn is given for a second later. Meanwhile something happens and the clock jumps:
/// the turn is dropped.
async fn send_and_drop(street: &Street, id: &str, meanwhile: impl AsyncFnOnce(&Town)) -> Sent {
    let hour = Duration::from_hours(1);
    let run = street.claimed(id).await.run;
    let before = street.town.item(id).await.attempts.len();
    street.town.time.advance(hour);
    street.town.admit("first", "default", 1).await;
    let first = street.claimed("first0").await.run;
    street.sender().send(&job("first0", first)).await.unwrap();
    street.town.time.turn_back(hour);
    let (sender, job) = (street.sender(), job(id, run));
    let sending = tokio::spawn(async move { sender.send(&job).await.unwrap() });
    let opened = async {
        while street.town.item(id).await.attempts.len() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let opened = tokio::time::timeout(Duration::from_secs(10), opened).await;
    opened.expect("no turn was given");
    meanwhile(&street.town).await;
    street.town.time.advance(hour);
    sending.await.unwrap()
}

async fn pause(town: &Town) {
    let pause = LaneChange {
        pause: Some(Some(Pause::now("ops", "because"))),
        ..LaneChange::default()
    };
    town.change("default", pause).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_turn_with_none_after_it_is_on_record_as_not_sent() {
    let street = Street::new("", false).await;
    street.town.admit("a", "default", 1).await;
    let sent = send_and_drop(&street, "a0", pause).await;
    assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
    let view = street.town.item("a0").await;
    assert_eq!(view.attempts[0].state, AttemptState::Retry);
    assert_eq!(
        (view.attempts.len(), view.status.as_str()),
        (1, "SCHEDULED")
    );
    assert_eq!(view.queue_status, QueueStatus::Ready);
    // Nobody has to ask about it.
    street.pay("a0", Edge::Never).await;
    let arrivals = street.bank.ledger().arrivals();
    assert_eq!(
        (street.sends("a0").len(), arrivals),
        (1, 2),
        "and the first"
    );
    assert_eq!(street.check("a0").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_held_after_a_dropped_turn_can_be_cancelled() {
    let street = Street::new("", true).await;
    let deadline = street.town.store.now().await.unwrap() + Duration::from_mins(10);
    street.town.admit_until("a0", "default", deadline).await;
    let sent = send_and_drop(&street, "a0", async |_| {}).await;
    assert_eq!(sent, Sent::Held);
    let view = street.town.item("a0").await;
    assert_eq!(view.attempts[0].state, AttemptState::Retry);
    let status = StatusMove::new(&["SCHEDULED"], "CANCELLED");
    let author = Author::new("ops", "too late");
    let cancelled = street.town.store.cancel(&item("a0"), status, author).await;
    assert_eq!(cancelled.unwrap(), ActionResult::Yes);
    assert!(street.sends("a0").is_empty());
}

/// A question that was never asked must not look like one that was answered with "unknown to me".
#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_turn_was_dropped_is_no_evidence() {
    let street = Street::new("", false).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    in_doubt(&street, run).await;
    let sent = send_and_drop(&street, "a0", pause).await;
    assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
    let view = street.town.item("a0").await;
    let asked = &view.attempts[1];
    assert_eq!(asked.kind, AttemptKind::Probe);
    assert_eq!(asked.state, AttemptState::Unknown, "{asked:?}");
    assert_eq!(view.queue_status, QueueStatus::Ready);
}

/// A send whose answer is lost, without a bank.
async fn in_doubt(street: &Street, run: u32) {
    let store = &street.town.store;
    let job = job("a0", run);
    let new = NewTurn {
        item: item("a0"),
        run,
        kind: AttemptKind::Send,
        key: job.request.idempotency_key.clone(),
        planned: tollgate_core::Timestamp::UNIX_EPOCH,
        seen: None,
        missed: None,
        may_be_late: false,
    };
    let wanted = TurnsWanted {
        watch: None,
        lane: LaneName::new("default"),
        lead: Duration::ZERO,
        attempts: vec![new],
    };
    let Turn::At { attempt, .. } = store.take_turns(wanted).await.unwrap().turns[0] else {
        panic!("no turn")
    };
    let (after, why) = (Duration::ZERO, "lost".to_owned());
    let settlement = Settlement {
        attempt,
        item: item("a0"),
        run,
        outcome: tollgate_core::outcome::Outcome::Unknown("lost".into()),
        record: Some(job.moves.in_doubt),
        then: Then::Requeue { after, why },
        disproves: false,
        close_lane: None,
        accounts: vec![],
    };
    assert!(store.settle(settlement).await.unwrap());
}
