//! `OperatorActions`: what a person may do to an item, in whatever state it is.

use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, Item, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    ActionResult, Claim, ItemView, NewItem, Settlement, Started, StatusMove, Then, Turn,
    TurnsWanted,
};

use super::fixture::{
    Fixture, SECOND, claim_all, many, new_item, new_item_at, ops, payment, payments, plan, send,
    settlement, start, wanted,
};
use super::planning::{secs, withdrawn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Nobody,
    Ready,
    Retried,
    InDoubt,
    Claimed,
    Dispatched,
    Finished,
    Dead,
    Cancelled,
    Held,
    HeldInDoubt,
}
use State as S;
pub(super) const STATES: [State; 11] = [
    S::Nobody,
    S::Ready,
    S::Retried,
    S::InDoubt,
    S::Claimed,
    S::Dispatched,
    S::Finished,
    S::Dead,
    S::Cancelled,
    S::Held,
    S::HeldInDoubt,
];

/// Brings a new item, on a lane of its own, into a state.
pub(super) async fn bring(f: &dyn Fixture, state: State, id: &str) -> Item {
    let (item, lane, store) = (payment(id), LaneName::new(id), f.store());
    store.change_lane(&lane, plan(10, 4), ops()).await.unwrap();
    if state == S::Nobody {
        return item;
    }
    let new = NewItem {
        lane: lane.clone(),
        ..new_item(id)
    };
    f.place(vec![new]).await;
    if state == S::Cancelled {
        assert_eq!(f.cancel(id).await, ActionResult::Yes);
    }
    if matches!(state, S::Ready | S::Cancelled) {
        return item;
    }
    claim(f, &lane, state).await;
    match state {
        S::Retried => send_and_requeue(f, &item, Outcome::retry("busy")).await,
        S::InDoubt => send_and_requeue(f, &item, Outcome::Unknown("lost".into())).await,
        S::Finished => assert!(store.finish(&item, 1, withdrawn()).await.unwrap()),
        S::Held => assert!(store.hold(&item, 1).await.unwrap()),
        S::HeldInDoubt => {
            send_and_requeue(f, &item, Outcome::Unknown("lost".into())).await;
            claim(f, &lane, S::Claimed).await;
            assert!(store.hold(&item, 2).await.unwrap());
        }
        _ => {}
    }
    item
}

pub(super) async fn claim(f: &dyn Fixture, lane: &LaneName, state: State) {
    let claim = Claim {
        lane: lane.clone(),
        ..claim_all()
    };
    let claimed = f.claim(claim).await.remove(0);
    let started = match state {
        S::Claimed => return,
        S::Dead => Started::Failed("no".into()),
        _ => Started::New,
    };
    let (kind, batch) = (payments(), BatchId::new("BATCH-1"));
    let starts = vec![start(&claimed, started)];
    let moved = f.store().record_starts(&kind, &batch, starts, 1).await;
    assert_eq!(moved.unwrap(), 1);
}

async fn send_and_requeue(f: &dyn Fixture, item: &Item, outcome: Outcome) {
    let lane = LaneName::new(item.id.as_str());
    let wanted = TurnsWanted {
        lane,
        ..wanted(vec![send(item)])
    };
    let Turn::At { attempt, .. } = f.store().take_turns(wanted).await.unwrap().turns[0] else {
        panic!("{item} was given no turn")
    };
    let then = Then::Requeue {
        after: SECOND,
        why: "again".into(),
    };
    let settled = Settlement {
        then,
        ..settlement(item, attempt, outcome)
    };
    assert!(f.settle(settled).await);
}

fn seen(view: &ItemView) -> (QueueStatus, String, Timestamp, Timestamp, u32) {
    let ItemView {
        queue_status,
        status,
        slot,
        due,
        run,
        ..
    } = view;
    (*queue_status, status.clone(), *slot, *due, *run)
}

/// In every state, by what it must say: nothing is done, or the item is where it should be.
async fn in_every_state(
    f: &dyn Fixture,
    wish: impl AsyncFn(&Item) -> ActionResult,
    refusal: impl Fn(State) -> Option<&'static str>,
    done: (&str, QueueStatus),
) {
    for (n, state) in STATES.into_iter().enumerate() {
        let item = bring(f, state, &format!("p{n}")).await;
        if state == S::Nobody {
            assert_eq!(wish(&item).await, ActionResult::NoSuchItem);
            continue;
        }
        let before = (seen(&f.view(&item).await), f.trail(&item).await);
        let answer = wish(&item).await;
        match (refusal(state), &answer) {
            (None, ActionResult::Yes) => {
                assert_eq!(f.view(&item).await.queue_status, done.1);
                let entry = f.store().audit(Some(&item), 1).await.unwrap().remove(0);
                assert_eq!(
                    (entry.action.as_str(), entry.actor.as_str()),
                    (done.0, "ops")
                );
                assert_eq!(entry.detail, "because");
                let (was, is) = (before.0.0.as_str(), done.1.as_str());
                assert_eq!(entry.status_before.as_deref(), Some(was));
                assert_eq!(entry.status_after.as_deref(), Some(is));
            }
            (Some(why), ActionResult::Refused(said)) => {
                assert!(said.contains(why), "{state:?}: {said}");
                let after = (seen(&f.view(&item).await), f.trail(&item).await);
                assert_eq!(after, before, "{state:?}");
            }
            (expected, _) => panic!("{state:?}: {answer:?} instead of {expected:?}"),
        }
    }
}

fn not_movable(state: State) -> Option<&'static str> {
    match state {
        S::Ready | S::Held | S::Retried | S::Nobody | S::Claimed | S::Dispatched | S::Dead => None,
        S::InDoubt | S::HeldInDoubt => Some("may have been executed"),
        S::Finished => Some("it has ended and is"),
        S::Cancelled => Some("CANCELLED already"),
    }
}

pub async fn only_what_has_not_ended_and_was_surely_not_done_is_cancelled(f: &dyn Fixture) {
    let cancel = async |item: &Item| f.cancel(item.id.as_str()).await;
    in_every_state(
        f,
        cancel,
        not_movable,
        ("CANCELLED", QueueStatus::Cancelled),
    )
    .await;
}

pub async fn only_what_has_not_ended_and_was_surely_not_done_is_rescheduled(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let reschedule = async |item: &Item| f.reschedule(item.id.as_str(), hour).await;
    in_every_state(
        f,
        reschedule,
        not_movable,
        ("RESCHEDULED", QueueStatus::Ready),
    )
    .await;
}

pub async fn whoever_was_about_to_send_what_a_person_moves_is_given_no_turn(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let movers: [(&str, &str); 2] = [("cancel", "CANCELLED"), ("reschedule", "READY")];
    for (how, status) in movers {
        let item = bring(f, S::Dispatched, how).await;
        let moved = match how {
            "cancel" => f.cancel(how).await,
            _ => f.reschedule(how, hour).await,
        };
        assert_eq!(moved, ActionResult::Yes);
        let wanted = TurnsWanted {
            lane: LaneName::new(how),
            ..wanted(vec![send(&item)])
        };
        let turn = f.store().take_turns(wanted).await.unwrap().turns.remove(0);
        let refused = matches!(&turn, Turn::NotYours(why) if why.contains(status));
        assert!(refused, "{how}: {turn:?}");
        assert!(!f.store().finish(&item, 1, withdrawn()).await.unwrap() || how == "cancel");
    }
}

/// Whoever is first wins, and nothing goes out after a yes.
pub async fn of_a_turn_and_a_cancellation_at_once_one_happens(f: &dyn Fixture) {
    for n in 0..20 {
        let id = format!("race-{n}");
        let item = bring(f, S::Dispatched, &id).await;
        let wanted = TurnsWanted {
            lane: LaneName::new(&*id),
            ..wanted(vec![send(&item)])
        };
        let store = f.store();
        let (turn, cancelled) = tokio::join!(store.take_turns(wanted), f.cancel(&id));
        let sent = matches!(turn.unwrap().turns[0], Turn::At { .. });
        let yes = cancelled == ActionResult::Yes;
        assert_ne!(sent, yes, "{id}: {cancelled:?}");
    }
}

pub async fn only_what_is_held_is_released(f: &dyn Fixture) {
    let release = async |item: &Item| f.store().release_held(item, ops()).await.unwrap();
    let refusal = |state| match state {
        S::Held | S::HeldInDoubt => None,
        _ => Some("not HELD"),
    };
    in_every_state(f, release, refusal, ("RELEASED", QueueStatus::Ready)).await;
}

pub async fn cancelling_moves_the_record_from_where_it_may(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 2, hour)).await;
    assert_eq!(f.cancel("p00000").await, ActionResult::Yes);
    let view = f.view(&payment("p00000")).await;
    assert_eq!(view.status, "CANCELLED");
    assert!(view.finished_at.is_some(), "its life has ended");
    let elsewhere = StatusMove::new(&["IN_DOUBT"], "CANCELLED");
    let item = payment("p00001");
    let cancelled = f.store().cancel(&item, elsewhere, ops()).await.unwrap();
    assert_eq!(cancelled, ActionResult::Yes);
    assert_eq!(f.view(&item).await.status, "SCHEDULED");
    f.advance_to(hour + secs(60)).await;
    assert_eq!(f.claim(claim_all()).await, []);
}

pub async fn a_cancelled_item_gives_its_room_back_even_behind_full_windows(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 35, hour)).await;
    let used = async || -> Vec<u32> { f.windows().await.iter().map(|w| w.used).collect() };
    assert_eq!(used().await, [10, 10, 10, 5]);
    assert_eq!(f.cancel("p00024").await, ActionResult::Yes);
    assert_eq!(f.cancel("p00015").await, ActionResult::Yes);
    assert_eq!(used().await, [10, 9, 9, 5]);
    for (id, window) in [("a", 4), ("b", 8), ("c", 12)] {
        let slot = f.place(vec![new_item_at(id, hour)]).await.remove(0);
        let from = hour + secs(window);
        assert!((from..from + secs(4)).contains(&slot.scheduled), "{id}");
    }
    assert_eq!(used().await, [10, 10, 10, 6]);
}

pub async fn a_rescheduled_item_moves_with_its_slot_its_counters_and_its_queue_row(
    f: &dyn Fixture,
) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let later = hour + secs(3600);
    f.place(many("p", 25, hour)).await;
    assert_eq!(f.reschedule("p00003", later).await, ActionResult::Yes);
    let view = f.view(&payment("p00003")).await;
    assert_eq!((view.slot, view.due, view.requested), (later, later, later));
    assert_eq!(view.run, 2, "a flow that was started for its old time");
    let used: Vec<_> = f
        .windows()
        .await
        .iter()
        .map(|w| (w.start, w.used))
        .collect();
    let starts = [hour, hour + secs(4), hour + secs(8), later];
    assert_eq!(
        used,
        starts.into_iter().zip([9, 10, 5, 1]).collect::<Vec<_>>()
    );
    let slot = f.place(vec![new_item_at("q", hour)]).await.remove(0);
    assert!(slot.scheduled < hour + secs(4), "the room it left is found");
    assert_eq!(
        f.reschedule("p00003", Timestamp::UNIX_EPOCH).await,
        ActionResult::Yes
    );
    let now = f.now().await;
    let view = f.view(&payment("p00003")).await;
    assert!(
        view.slot >= now - secs(4) && view.slot < now + secs(4),
        "as soon as possible"
    );
    f.advance_to(hour - secs(3600)).await;
    assert_eq!(
        f.claim_ids(Claim {
            ahead: SECOND,
            ..claim_all()
        })
        .await,
        ["p00003"]
    );
}
