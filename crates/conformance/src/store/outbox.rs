//! `Outbox`: every move of an item writes an event with it, in its order, and only while events are on.

use std::time::Duration;

use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::{Event, QueueStatus};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    ActionResult, Amendment, Claim, NewItem, NewRequest, OutboxEvent, RelayHold, RetriedUpTo,
    Settlement, StartRecord, Started, StatusMove, Then, Turn, TurnedOff,
};

use super::fixture::{
    Fixture, HOUR, MAX_RETRIES, SECOND, claim_all, many, new_item, ops, payment, plan, send,
    settlement,
};
use super::moves::{bring, cause};
use super::operator_actions::{self, STATES, State};

const LEASE: Duration = Duration::from_secs(10);
const LONGER: Duration = Duration::from_secs(11);

impl dyn Fixture + '_ {
    async fn events_on(&self) {
        assert!(self.store().turn_events_on(ops()).await.unwrap());
    }
    async fn events(&self) -> Vec<OutboxEvent> {
        self.store().events_to_publish(10_000).await.unwrap()
    }
    /// Where the item has moved, in this order.
    async fn moves_of(&self, item: &Item) -> Vec<String> {
        let events = self.events().await.into_iter();
        let mine = events.filter(|event| event.item == *item);
        mine.map(|event| event.status).collect()
    }
    async fn hold_events(&self, owner: &str) -> Option<RelayHold> {
        self.store().hold_relay(owner, LEASE).await.unwrap()
    }
    async fn drop_events(&self, hold: RelayHold, events: &[OutboxEvent]) -> bool {
        let numbers = events.iter().map(|event| event.number).collect();
        let dropped = self.store().events_published(hold, numbers).await;
        dropped.unwrap()
    }
    async fn set_aside(&self, hold: RelayHold, events: &[OutboxEvent]) -> bool {
        let numbers = events.iter().map(|event| event.number).collect();
        self.store().events_refused(hold, numbers).await.unwrap()
    }
    async fn retried(&self, after: RetriedUpTo, limit: u32) -> Vec<OutboxEvent> {
        self.store().events_to_retry(after, limit).await.unwrap()
    }
    /// An invoice that is being charged.
    async fn charged(&self, id: &str) -> Item {
        let (store, invoices) = (self.store(), ItemType::new("INVOICE"));
        store.admit(&invoices, vec![invoice(id)]).await.unwrap();
        let claim = Claim {
            item_type: invoices.clone(),
            ..claim_all()
        };
        let claimed = self.claim(claim.clone()).await.remove(0);
        let item = Item::new(&invoices, &claimed.id);
        let start = StartRecord {
            id: claimed.id,
            fence: claimed.fence,
            flow: item.exec_flow(claimed.run),
            started: Started::New,
        };
        let recorded = store
            .record_starts(&invoices, &claim.batch, vec![start], MAX_RETRIES)
            .await;
        assert_eq!(recorded.unwrap(), 1);
        item
    }
    /// Where an item is: its status, and the queue's word if that is one for people.
    async fn place_of(&self, item: &Item) -> (String, Option<QueueStatus>) {
        let view = self.view(item).await;
        let is_word = matches!(
            view.queue_status,
            QueueStatus::Held | QueueStatus::Dead | QueueStatus::Cancelled
        );
        (view.status, is_word.then_some(view.queue_status))
    }
}

fn invoice(id: &str) -> NewItem {
    let mut new = new_item(id);
    new.record.status = "PENDING".into();
    new
}

/// All states times all events: an event in the outbox for every change, and none without one.
pub async fn every_move_of_an_item_is_an_event_and_nothing_else_is(f: &dyn Fixture) {
    f.events_on().await;
    for before in QueueStatus::ALL {
        for event in Event::ALL {
            let id = format!("{before}-{event:?}");
            let item = payment(&id);
            let fence = bring(f, &id, before, event).await;
            let was = f.place_of(&item).await;
            let known = f.moves_of(&item).await;
            cause(f, &item, fence, event).await;
            let is = f.place_of(&item).await;
            let moves = f.moves_of(&item).await;
            let new = &moves[known.len()..];
            if was == is {
                assert_eq!(new, [""; 0], "{id}");
            } else {
                let word = match is.1 {
                    Some(word) if was.1 != is.1 => word.to_string(),
                    _ => is.0.clone(),
                };
                assert_eq!(new.last(), Some(&word), "{id}: {was:?} {is:?} {moves:?}");
            }
        }
    }
}

pub async fn an_item_has_its_events_in_the_order_of_its_moves(f: &dyn Fixture) {
    f.events_on().await;
    for state in STATES {
        let item = operator_actions::bring(f, state, &format!("{state:?}")).await;
        let expected: &[&str] = match state {
            State::Nobody => &[],
            // There the answers of attempts leave the record as it is.
            State::Ready | State::Retried | State::InDoubt | State::Claimed | State::Dispatched => {
                &["SCHEDULED"]
            }
            State::Finished | State::Cancelled => &["SCHEDULED", "CANCELLED"],
            State::Dead => &["SCHEDULED", "DEAD"],
            State::Held | State::HeldInDoubt => &["SCHEDULED", "HELD"],
        };
        assert_eq!(f.moves_of(&item).await, expected, "{state:?}");
    }
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let Turn::At { attempt, .. } = f.turn(send(&item)).await else {
        panic!("no turn");
    };
    let accepted = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
    let done = Settlement {
        record: Some(accepted),
        then: Then::Stay,
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.store().settle(done).await.unwrap());
    let processing = StatusMove::new(&["ACCEPTED"], "PROCESSING");
    assert!(f.store().finish(&item, 1, processing).await.unwrap());
    assert_eq!(
        f.moves_of(&item).await,
        ["SCHEDULED", "ACCEPTED", "PROCESSING"]
    );
}

/// By its own statuses, whatever a payment with its id does.
pub async fn an_invoice_has_its_own_events_in_the_order_of_its_moves(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.events_on().await;
    let paid = f.charged("42").await;
    f.place(vec![new_item("42")]).await;
    let (attempt, _) = f.sent(&paid).await;
    let lost = Settlement {
        record: Some(StatusMove::new(&["PENDING"], "IN_DOUBT")),
        ..settlement(&paid, attempt, Outcome::Unknown("lost".into()))
    };
    assert!(f.settle(lost).await);
    let found = StatusMove::new(&["PENDING", "IN_DOUBT"], "PAID");
    assert!(f.store().finish(&paid, 1, found).await.unwrap());
    assert_eq!(f.moves_of(&paid).await, ["PENDING", "IN_DOUBT", "PAID"]);
    assert_eq!(f.moves_of(&payment("42")).await, ["SCHEDULED"]);

    let invoices = ItemType::new("INVOICE");
    let new = vec![invoice("43")];
    f.store().admit(&invoices, new).await.unwrap();
    let withdrawn = Item::new(&invoices, &ItemId::new("43"));
    let cancelled = StatusMove::new(&["PENDING"], "CANCELLED");
    let done = f.store().cancel(&withdrawn, cancelled, ops()).await;
    assert_eq!(done.unwrap(), ActionResult::Yes);
    assert_eq!(f.moves_of(&withdrawn).await, ["PENDING", "CANCELLED"]);
}

pub async fn an_event_says_what_moved_and_a_notification_is_none(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    f.events_on().await;
    let placed = f.place(vec![new_item("p")]).await.remove(0);
    let (store, notifications) = (f.store(), ItemType::new("NOTIFICATION"));
    let told = store.admit(&notifications, vec![new_item("n")]).await;
    told.unwrap();
    let refused = f.admit_one(new_item("p")).await;
    assert!(matches!(
        refused,
        tollgate_core::ports::Admission::Repeat(_)
    ));
    let events = f.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(event.item, payment("p"));
    assert_eq!(event.status, "SCHEDULED");
    assert_eq!(event.money, new_item("p").record.money);
    assert_eq!(event.lane, Some(new_item("p").lane));
    assert_eq!(event.scheduled, Some(placed.scheduled));
    let age = f.now().await.duration_since(event.at).as_secs();
    assert!((0..600).contains(&age), "{age}");
    // One statement admits many.
    let now = f.now().await;
    f.place(many("m", 300, now)).await;
    let events = f.events().await;
    let ids: std::collections::BTreeSet<_> = events.iter().map(|event| &event.id).collect();
    assert_eq!((events.len(), ids.len()), (301, 301));
    let numbers: Vec<_> = events.iter().map(|event| event.number).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

pub async fn a_request_that_is_withdrawn_before_it_is_planned_is_an_event(f: &dyn Fixture) {
    f.events_on().await;
    let request = NewRequest {
        item: payment("r"),
        content_hash: "hash".into(),
        money: new_item("r").record.money,
        document: "{}".into(),
        again: false,
    };
    f.store().accept(request).await.unwrap();
    assert_eq!(f.moves_of(&payment("r")).await, [""; 0], "not planned yet");
    let withdrawn = f.store().withdraw(&payment("r"), ops()).await.unwrap();
    assert_eq!(withdrawn, ActionResult::Yes);
    assert_eq!(f.moves_of(&payment("r")).await, ["CANCELLED"]);
}

pub async fn events_are_written_only_while_they_are_on(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    f.place(vec![new_item("before")]).await;
    assert!(!f.store().outbox().await.unwrap().is_on);
    assert_eq!(f.events().await, []);
    f.events_on().await;
    assert!(!f.store().turn_events_on(ops()).await.unwrap(), "they are");
    f.place(vec![new_item("between")]).await;
    f.restart().await;
    f.place(vec![new_item("restarted")]).await;
    let ids: Vec<_> = f
        .events()
        .await
        .into_iter()
        .map(|event| event.item.id)
        .collect();
    assert_eq!(ids, [ItemId::new("between"), ItemId::new("restarted")]);
    let view = f.store().outbox().await.unwrap();
    assert!(view.is_on && view.oldest.is_some(), "{view:?}");
    assert_eq!((view.backlog, view.is_capped), (2, false));

    let hold = f.hold_events("a").await.unwrap();
    let off = f.store().turn_events_off(ops()).await.unwrap();
    assert_eq!(off, TurnedOff::InUse("a".into()));
    f.store().leave_relay("a").await.unwrap();
    let off = f.store().turn_events_off(ops()).await.unwrap();
    assert_eq!(off, TurnedOff::Yes { dropped: 2 });
    f.place(vec![new_item("after")]).await;
    assert_eq!(f.events().await, []);
    let off = f.store().turn_events_off(ops()).await.unwrap();
    assert_eq!(off, TurnedOff::WereOff);
    let later = f.hold_events("b").await.unwrap();
    assert!(
        hold.is_on && !later.is_on,
        "a process that comes back learns it"
    );
    f.store().leave_relay("b").await.unwrap();
    // A number is not given again: what is dropped late drops nothing new.
    f.events_on().await;
    f.place(vec![new_item("again")]).await;
    assert!(f.drop_events(later, &[]).await);
    assert!(f.events().await[0].number > 2);
}

pub async fn events_are_published_by_one_process_at_a_time(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    f.events_on().await;
    f.place(vec![new_item("a"), new_item("b"), new_item("c")])
        .await;
    let first = f.hold_events("one").await.unwrap();
    assert_eq!(f.hold_events("two").await, None, "it is held");
    assert_eq!(f.hold_events("one").await, Some(first), "it goes on");
    let events = f.events().await;
    assert!(f.drop_events(first, &events[1..2]).await);
    let left: Vec<_> = f.events().await;
    assert_eq!(left, [events[0].clone(), events[2].clone()]);

    f.advance(LONGER).await;
    let second = f.hold_events("two").await.unwrap();
    assert!(second.fence > first.fence);
    assert!(!f.drop_events(first, &events).await, "it came too late");
    assert_eq!(f.events().await.len(), 2, "nothing was dropped");
    assert!(f.drop_events(second, &left).await);
    let view = f.store().outbox().await.unwrap();
    assert_eq!((view.backlog, view.published), (0, 3));
    assert_eq!(view.owner.as_deref(), Some("two"));
    assert!(view.last_published_at.is_some() && view.oldest.is_none());

    f.store()
        .note_relay_trouble(Some("no broker".into()))
        .await
        .unwrap();
    let trouble = f.store().outbox().await.unwrap().trouble.unwrap();
    assert_eq!(trouble.what, "no broker");
    f.advance(SECOND).await;
    let other = Some("another broker is away".into());
    f.store().note_relay_trouble(other).await.unwrap();
    let changed = f.store().outbox().await.unwrap().trouble.unwrap();
    assert_eq!(changed.at, trouble.at, "since it began");
    f.store().note_relay_trouble(None).await.unwrap();
    assert_eq!(f.store().outbox().await.unwrap().trouble, None);
}

pub async fn refused_events_are_set_aside_and_hold_up_only_their_item(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    f.events_on().await;
    for id in ["b", "a", "c"] {
        f.place(vec![new_item(id)]).await;
    }
    let hold = f.hold_events("one").await.unwrap();
    let events = f.events().await;
    assert!(events.iter().all(|event| !event.is_behind));
    assert!(f.set_aside(hold, &events[..2]).await);
    assert_eq!(f.events().await, events[2..], "the others are next");
    let view = f.store().outbox().await.unwrap();
    assert_eq!((view.backlog, view.oldest), (3, Some(events[0].at)));

    // What moves on stays behind what was refused.
    assert_eq!(f.cancel("a").await, ActionResult::Yes);
    let new = f.events().await;
    let behind: Vec<_> = new.iter().map(|event| event.is_behind).collect();
    assert_eq!(behind, [false, true]);
    assert!(f.set_aside(hold, &new[1..]).await);
    f.restart().await;
    let aside = f.retried(RetriedUpTo::default(), 10).await;
    let moves: Vec<_> = aside
        .iter()
        .map(|event| (event.item.id.as_str(), event.status.as_str()))
        .collect();
    let expected = [("a", "SCHEDULED"), ("a", "CANCELLED"), ("b", "SCHEDULED")];
    assert_eq!(moves, expected);
    let first = f.retried(RetriedUpTo::default(), 1).await;
    assert_eq!(first, aside[..1]);
    let next = f.retried(RetriedUpTo::event(&aside[0]), 1).await;
    assert_eq!(next, aside[1..2]);
    let other_item = f.retried(RetriedUpTo::item_of(&aside[0]), 1).await;
    assert_eq!(other_item, aside[2..]);

    assert!(f.drop_events(hold, &aside[..2]).await);
    assert_eq!(f.retried(RetriedUpTo::default(), 10).await, aside[2..]);
    f.advance(LONGER).await;
    let second = f.hold_events("two").await.unwrap();
    let left = f.events().await;
    assert!(!f.set_aside(hold, &left).await, "it came too late");
    assert_eq!(f.events().await, left);
    assert!(f.set_aside(second, &left).await);
    f.store().leave_relay("two").await.unwrap();
    let off = f.store().turn_events_off(ops()).await.unwrap();
    assert_eq!(off, TurnedOff::Yes { dropped: 2 });
    assert_eq!(f.retried(RetriedUpTo::default(), 10).await, []);
}

pub async fn settings_of_the_publisher_are_kept_and_a_difference_for_a_while(f: &dyn Fixture) {
    let store = f.store();
    f.hold_events("one").await.unwrap();
    let kept = store.relay_settings("one", "a = 1").await.unwrap();
    assert_eq!(kept, "a = 1");
    let told = store.relay_settings("two", "a = 2").await.unwrap();
    assert_eq!(told, "a = 1", "one that waits changes nothing");
    assert_eq!(store.outbox().await.unwrap().difference, None);
    store.note_relay_difference("a", LEASE).await.unwrap();
    let view = store.outbox().await.unwrap();
    assert_eq!(view.difference.as_deref(), Some("a"));
    f.advance(LONGER).await;
    assert_eq!(store.outbox().await.unwrap().difference, None);
}

/// The queue calls it CANCELLED, since nothing is sent any more.
pub async fn an_item_that_is_settled_by_a_person_has_one_event_which_says_so(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.events_on().await;
    let invoices = ItemType::new("INVOICE");
    let new = vec![invoice("42")];
    f.store().admit(&invoices, new).await.unwrap();
    let item = Item::new(&invoices, &ItemId::new("42"));
    let was = f.view(&item).await.body.unwrap();
    let settled = Amendment {
        action: "SETTLED",
        body: was.clone(),
        was,
        amount_minor: None,
        from: vec!["PENDING".into()],
        ends_as: Some("PAID".into()),
    };
    let done = f.store().amend(&item, settled, ops()).await.unwrap();
    assert_eq!(done, ActionResult::Yes);
    assert_eq!(f.view(&item).await.queue_status, QueueStatus::Cancelled);
    assert_eq!(f.moves_of(&item).await, ["PENDING", "PAID"]);
}

/// The process has died with it, and the clock was put right.
pub async fn a_clock_that_was_ahead_gives_no_right_to_publish(f: &dyn Fixture) {
    let store = f.store();
    let trouble = || Some("no broker".to_owned());
    f.events_on().await;
    f.advance(2 * HOUR).await;
    let before = f.hold_events("one").await.unwrap();
    store.note_relay_difference("a", LEASE).await.unwrap();
    store.note_relay_trouble(trouble()).await.unwrap();
    f.turn_back(2 * HOUR).await;
    let view = store.outbox().await.unwrap();
    assert_eq!((view.owner, view.difference), (None, None));
    let hold = f.hold_events("two").await.unwrap();
    assert!(hold.fence > before.fence);
    store.note_relay_trouble(trouble()).await.unwrap();
    let view = store.outbox().await.unwrap();
    assert_eq!(view.owner.as_deref(), Some("two"));
    assert!(view.trouble.unwrap().at <= f.now().await, "its age counts");
    // A small step back takes nothing away from it.
    f.turn_back(LEASE / 2).await;
    assert_eq!(f.hold_events("three").await, None);

    f.advance(2 * HOUR).await;
    f.hold_events("four").await.unwrap();
    f.turn_back(2 * HOUR).await;
    let off = f.store().turn_events_off(ops()).await.unwrap();
    assert!(matches!(off, TurnedOff::Yes { .. }), "{off:?}");
}
