//! `Doubts`: what may have been done is listed and summed, and a person's word about it is final
//! for whoever still works on it.

use futures::future::join_all;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{
    ActionResult, Author, ByTime, DoubtOrder, IN_DOUBT, ItemView, LONGEST_SEND, NewItem, NewTurn,
    PageFrom, PageToken, Resolution, Resolved, Settlement, StatusMove, Then, Turn,
};

use super::fixture::{
    Fixture, SECOND, claim_all, new_item, payment, payments, plan, send, settlement, there_and_back,
};

const ROUNDS: usize = 30;
/// The run of an item that was sent once, lost its answer and went back.
const RUN: u32 = 2;

fn auditor() -> Author {
    Author::new("auditor", "the statement says so")
}

/// A decision about one send, with the move that belongs to it.
pub(super) fn decision(resolved: Resolved) -> Resolution {
    let to = match resolved {
        Resolved::Done => "ACCEPTED",
        Resolved::NotDone => "SCHEDULED",
        Resolved::Failed => "FAILED",
    };
    let record = StatusMove::new(&[IN_DOUBT], to);
    Resolution {
        resolved,
        sends: 1,
        record,
    }
}

async fn resolve(f: &dyn Fixture, item: &Item, resolved: Resolved) -> ActionResult {
    let answer = f.store().resolve(item, decision(resolved), auditor()).await;
    answer.unwrap()
}

/// Sends an item that is being executed, and loses the answer: it waits for its second run.
async fn lose_answer(f: &dyn Fixture, item: &Item) {
    let (attempt, _) = f.sent(item).await;
    let lost = Settlement {
        record: Some(StatusMove::new(&["SCHEDULED"], IN_DOUBT)),
        then: Then::Requeue {
            after: SECOND,
            why: "ask later".into(),
        },
        ..settlement(item, attempt, Outcome::Unknown("reset".into()))
    };
    assert!(f.settle(lost).await);
}

async fn in_doubt(f: &dyn Fixture, ids: &[&str]) -> Vec<Item> {
    let items = f.dispatched(ids).await;
    for item in &items {
        lose_answer(f, item).await;
    }
    items
}

fn turn_of(item: &Item, run: u32, kind: AttemptKind) -> NewTurn {
    NewTurn {
        run,
        kind,
        may_be_late: true,
        ..send(item)
    }
}

/// What must not change when a decision is refused.
fn seen(view: &ItemView) -> (String, QueueStatus, u32, bool, usize) {
    let ended = view.finished_at.is_some();
    let (status, attempts) = (view.status.clone(), view.attempts.len());
    (status, view.queue_status, view.run, ended, attempts)
}

pub async fn what_is_in_doubt_is_told_page_by_page_in_the_order_of_its_ids(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let ids = ["a", "b", "c", "d", "e"];
    in_doubt(f, &ids).await;
    f.dispatched(&["bb"]).await;
    let page = async |after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(ItemId::new);
        let page = f.store().in_doubt(&payments(), after.as_ref(), limit).await;
        page.unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(page(None, 100).await, ids, "and nothing that is not");
    assert_eq!(page(None, 2).await, ["a", "b"]);
    assert_eq!(page(Some("b"), 2).await, ["c", "d"]);
    assert_eq!(page(Some("d"), 2).await, ["e"]);
    assert_eq!(page(Some("e"), 2).await, Vec::<String>::new());
    let invoices = ItemType::new("INVOICE");
    assert_eq!(f.store().in_doubt(&invoices, None, 9).await.unwrap(), []);
    resolve(f, &payment("c"), Resolved::Done).await;
    assert_eq!(page(None, 100).await, ["a", "b", "d", "e"]);
}

/// All ids in an order, some at a time.
async fn in_order(f: &dyn Fixture, order: &DoubtOrder, at_once: u32) -> Vec<String> {
    let (mut ids, mut after) = (vec![], None::<PageToken>);
    loop {
        let (store, kind) = (f.store(), payments());
        let page = store.in_doubt_by(&kind, order.clone(), after.into(), at_once);
        let page = page.await.unwrap();
        assert!(page.items.len() <= at_once as usize);
        ids.extend(page.items.iter().map(ToString::to_string));
        assert!(ids.len() < 100, "it does not go on: {ids:?}");
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

pub async fn what_is_in_doubt_is_told_the_oldest_or_the_largest_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let amounts = [
        ("a", 500, "USD"),
        ("b", 70_000, "JPY"),
        ("c", 900, "USD"),
        ("d", 900, "USD"),
        ("e", 100, "USD"),
    ];
    let items = amounts.map(|(id, minor, code)| {
        let mut item: NewItem = new_item(id);
        let currency = Currency::from_code(code).unwrap();
        item.record.money = Money { minor, currency };
        item
    });
    f.place(items.to_vec()).await;
    f.place(vec![new_item("calm")]).await;
    f.dispatch_all().await;
    let in_time = ["d", "b", "a", "e", "c"];
    for id in in_time {
        lose_answer(f, &payment(id)).await;
        f.advance(SECOND).await;
    }
    let largest = |code: &str| DoubtOrder::Largest {
        currency: code.to_owned(),
    };
    let oldest = DoubtOrder::ByTime(ByTime::Oldest);
    for at_once in [1, 2, 100] {
        assert_eq!(in_order(f, &oldest, at_once).await, in_time);
        let newest = DoubtOrder::ByTime(ByTime::Newest);
        for (order, expected) in [
            (&oldest, &in_time[..]),
            (&newest, &["c", "e", "a", "b", "d"]),
            (&largest("USD"), &["d", "c", "a", "e"]),
        ] {
            let page = async |from: PageFrom<PageToken>| {
                let (kind, order) = (payments(), order.clone());
                let page = f.store().in_doubt_by(&kind, order, from, at_once).await;
                page.unwrap().map(|id| id.to_string())
            };
            there_and_back(page, expected).await;
        }
        let dollars = in_order(f, &largest("USD"), at_once).await;
        assert_eq!(dollars, ["d", "c", "a", "e"], "{at_once} at once");
        assert_eq!(in_order(f, &largest("JPY"), at_once).await, ["b"]);
    }
    assert_eq!(in_order(f, &largest("EUR"), 9).await, Vec::<String>::new());
    resolve(f, &payment("d"), Resolved::Done).await;
    assert_eq!(in_order(f, &oldest, 9).await, in_time[1..]);
}

pub async fn what_is_at_risk_is_summed_by_currency_since_the_oldest(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = |id: &str, minor: i64, code: &str| {
        let mut item: NewItem = new_item(id);
        let currency = Currency::from_code(code).unwrap();
        item.record.money = Money { minor, currency };
        item
    };
    let items = vec![
        item("a", 125, "USD"),
        item("b", 1000, "JPY"),
        item("c", 75, "USD"),
        item("calm", 9999, "USD"),
    ];
    f.place(items).await;
    f.dispatch_all().await;
    assert_eq!(f.store().at_risk(&payments()).await.unwrap(), []);
    let begin = f.now().await;
    lose_answer(f, &payment("a")).await;
    let first = f.now().await;
    f.advance(SECOND).await;
    for id in ["b", "c"] {
        lose_answer(f, &payment(id)).await;
    }
    let risks = f.store().at_risk(&payments()).await.unwrap();
    let sums: Vec<_> = risks
        .iter()
        .map(|risk| (risk.currency.as_str(), risk.count, risk.amount_minor))
        .collect();
    assert_eq!(sums, [("JPY", 1, 1000), ("USD", 2, 200)]);
    assert!(risks[0].since > first, "since its own loss");
    assert!((begin..=first).contains(&risks[1].since), "the oldest");
    assert!(
        f.store()
            .at_risk(&ItemType::new("INVOICE"))
            .await
            .unwrap()
            .is_empty()
    );
}

pub async fn only_what_is_in_doubt_is_resolved(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let nobody = payment("nobody");
    let every = [Resolved::Done, Resolved::NotDone, Resolved::Failed];
    let item = f.dispatched_one().await;
    for resolved in every {
        assert_eq!(
            resolve(f, &nobody, resolved).await,
            ActionResult::NoSuchItem
        );
        let before = (seen(&f.view(&item).await), f.trail(&item).await);
        let ActionResult::Refused(why) = resolve(f, &item, resolved).await else {
            panic!("{resolved:?} of what is not in doubt")
        };
        assert!(why.contains("SCHEDULED") && why.contains(IN_DOUBT), "{why}");
        let after = (seen(&f.view(&item).await), f.trail(&item).await);
        assert_eq!(after, before);
    }
}

pub async fn nothing_is_resolved_while_an_answer_is_awaited(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = in_doubt(f, &["p"]).await.remove(0);
    f.dispatch_all().await;
    let Turn::At { attempt, .. } = f.turn(turn_of(&item, RUN, AttemptKind::Probe)).await else {
        panic!("no turn")
    };
    let before = (seen(&f.view(&item).await), f.trail(&item).await);
    for resolved in [Resolved::Done, Resolved::NotDone, Resolved::Failed] {
        let answer = resolve(f, &item, resolved).await;
        assert!(
            matches!(&answer, ActionResult::Refused(why) if why.contains("awaited")),
            "{answer:?}"
        );
    }
    let after = (seen(&f.view(&item).await), f.trail(&item).await);
    assert_eq!(after, before);
    let unknown = Settlement {
        run: RUN,
        ..settlement(&item, attempt, Outcome::Unknown("reset".into()))
    };
    assert!(f.settle(unknown).await);
    assert_eq!(resolve(f, &item, Resolved::Done).await, ActionResult::Yes);
}

/// One sender was killed while it asked, and its lane stays closed: nobody else takes it over.
pub async fn what_a_dead_sender_left_open_keeps_people_waiting_no_longer_than_an_answer_may_take(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    for (id, new_era) in [("p", false), ("q", true)] {
        let item = in_doubt(f, &[id]).await.remove(0);
        f.dispatch_all().await;
        let turn = f.turn(turn_of(&item, RUN, AttemptKind::Probe)).await;
        assert!(matches!(turn, Turn::At { .. }), "{turn:?}");
        if new_era {
            f.store().open_era(None).await.unwrap();
        }
        f.advance(LONGEST_SEND).await;
        let early = resolve(f, &item, Resolved::NotDone).await;
        assert!(
            matches!(&early, ActionResult::Refused(why) if why.contains("awaited")),
            "{early:?}"
        );
        f.advance(SECOND * 2).await;
        assert_eq!(
            resolve(f, &item, Resolved::NotDone).await,
            ActionResult::Yes
        );
        let view = f.view(&item).await;
        let states: Vec<_> = view.attempts.iter().map(|it| it.state).collect();
        assert_eq!(states, [AttemptState::Retry; 2], "none is open");
        assert_eq!(view.queue_status, QueueStatus::Ready);
    }
}

/// A person looks, it is sent again and its answer is lost again, and only then they speak.
pub async fn a_persons_word_is_about_the_sends_they_looked_at(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = in_doubt(f, &["p"]).await.remove(0);
    f.dispatch_all().await;
    for kind in [AttemptKind::Probe, AttemptKind::Send] {
        let Turn::At { attempt, .. } = f.turn(turn_of(&item, RUN, kind)).await else {
            panic!("no turn")
        };
        let lost = Settlement {
            run: RUN,
            ..settlement(&item, attempt, Outcome::Unknown("reset".into()))
        };
        assert!(f.settle(lost).await);
    }
    let before = (seen(&f.view(&item).await), f.trail(&item).await);
    for resolved in Resolved::ALL {
        let answer = resolve(f, &item, resolved).await;
        assert!(
            matches!(&answer, ActionResult::Refused(why) if why.contains("check again")),
            "{answer:?}"
        );
    }
    let after = (seen(&f.view(&item).await), f.trail(&item).await);
    assert_eq!(after, before);
    let both = Resolution {
        sends: 2,
        ..decision(Resolved::NotDone)
    };
    let answer = f.store().resolve(&item, both, auditor()).await;
    assert_eq!(answer.unwrap(), ActionResult::Yes, "a question is no send");
}

/// Whether it waits or a flow is at work on it.
pub async fn what_a_person_has_ended_can_be_paid_by_nobody_any_more(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let ends = [(Resolved::Done, "ACCEPTED"), (Resolved::Failed, "FAILED")];
    for (n, (resolved, status)) in ends.into_iter().enumerate() {
        for at_work in [false, true] {
            let id = format!("p{n}{at_work}");
            let item = in_doubt(f, &[&id]).await.remove(0);
            if at_work {
                f.dispatch_all().await;
            }
            assert_eq!(resolve(f, &item, resolved).await, ActionResult::Yes);
            let view = f.view(&item).await;
            assert_eq!(view.status, status);
            assert!(view.finished_at.is_some(), "its life has ended");
            assert_eq!(view.run, RUN + 1, "which belongs to nobody");
            for run in 1..=view.run + 1 {
                for kind in [AttemptKind::Send, AttemptKind::Probe] {
                    let turn = f.turn(turn_of(&item, run, kind)).await;
                    assert!(matches!(turn, Turn::NotYours(_)), "run {run}: {turn:?}");
                }
                let back = f.store().put_back(&item, run, SECOND, "zombie").await;
                assert!(!back.unwrap(), "run {run} put it back");
                let orphaned = f.store().restart_orphaned(&item, run, "?", SECOND, 9).await;
                assert!(!orphaned.unwrap(), "run {run} restarted it");
            }
            f.advance(SECOND * 300).await;
            assert_eq!(f.claim(claim_all()).await, []);
            assert_eq!(seen(&f.view(&item).await), seen(&view));
            let again = resolve(f, &item, Resolved::NotDone).await;
            assert!(matches!(again, ActionResult::Refused(_)), "decided already");
        }
    }
}

/// The answer came after its run had lost the item: the next run finds it.
pub async fn what_the_downstream_has_said_is_done_is_nobodys_to_deny(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = in_doubt(f, &["p"]).await.remove(0);
    f.dispatch_all().await;
    let Turn::At { attempt, .. } = f.turn(turn_of(&item, RUN, AttemptKind::Probe)).await else {
        panic!("no turn")
    };
    let back = f.store().put_back(&item, RUN, SECOND, "lost").await;
    assert!(back.unwrap());
    let done = Settlement {
        run: RUN,
        ..settlement(&item, attempt, Outcome::Done("yes".into()))
    };
    assert!(!f.settle(done).await, "not this run's item any more");
    let before = (seen(&f.view(&item).await), f.trail(&item).await);
    for resolved in [Resolved::NotDone, Resolved::Failed] {
        let answer = resolve(f, &item, resolved).await;
        assert!(
            matches!(&answer, ActionResult::Refused(why) if why.contains("confirmed it")),
            "{answer:?}"
        );
    }
    let after = (seen(&f.view(&item).await), f.trail(&item).await);
    assert_eq!(after, before);
}

pub async fn what_a_person_says_was_not_done_is_sent_again_at_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for at_work in [false, true] {
        let id = format!("p{at_work}");
        let item = in_doubt(f, &[&id]).await.remove(0);
        if at_work {
            f.dispatch_all().await;
        }
        f.advance(SECOND).await;
        let said = f.now().await;
        assert_eq!(
            resolve(f, &item, Resolved::NotDone).await,
            ActionResult::Yes
        );
        let view = f.view(&item).await;
        assert_eq!((view.status.as_str(), view.run), ("SCHEDULED", RUN + 1));
        assert_eq!(
            (view.queue_status, view.finished_at),
            (QueueStatus::Ready, None)
        );
        let word = &view.attempts[0];
        assert_eq!(word.state, AttemptState::Retry, "known not to be done");
        assert!(word.detail.contains("auditor"), "{}", word.detail);
        assert!(word.settled_at >= Some(said), "known since then");
        let zombie = f.turn(turn_of(&item, RUN, AttemptKind::Send)).await;
        assert!(matches!(zombie, Turn::NotYours(_)), "{zombie:?}");
        f.dispatch_all().await;
        let turn = f.turn(turn_of(&item, RUN + 1, AttemptKind::Send)).await;
        assert!(matches!(turn, Turn::At { .. }), "{turn:?}");
    }
}

pub async fn a_decision_is_on_record_with_who_and_why(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let every = [Resolved::Done, Resolved::NotDone, Resolved::Failed];
    let items = in_doubt(f, &["a", "b", "c"]).await;
    for (item, resolved) in items.iter().zip(every) {
        assert_eq!(resolve(f, item, resolved).await, ActionResult::Yes);
        let entry = f.store().audit(Some(item), 1).await.unwrap().remove(0);
        let (action, actor) = (entry.action.as_str(), entry.actor.as_str());
        assert_eq!((action, actor), ("RESOLVED", "auditor"));
        let detail = format!("{}: the statement says so", resolved.as_str());
        assert_eq!(entry.detail, detail);
        assert_eq!(entry.status_before.as_deref(), Some(IN_DOUBT));
        let to = decision(resolved).record.to;
        assert_eq!(entry.status_after.as_deref(), Some(to.as_str()));
    }
}

pub async fn an_item_is_decided_or_given_its_turn_and_never_both(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    for round in 0..ROUNDS {
        let item = in_doubt(f, &[&format!("p{round}")]).await.remove(0);
        f.dispatch_all().await;
        let (one, other, theirs) = (f.store(), f.store(), item.clone());
        let asking = vec![turn_of(&item, RUN, AttemptKind::Send)];
        let wanted = super::fixture::wanted(f.having_looked(asking).await);
        let turn =
            tokio::spawn(async move { one.take_turns(wanted).await.unwrap().turns[0].clone() });
        let word = tokio::spawn(async move {
            let failed = decision(Resolved::Failed);
            other.resolve(&theirs, failed, auditor()).await.unwrap()
        });
        let (turn, word) = (turn.await.unwrap(), word.await.unwrap());
        let view = f.view(&item).await;
        let has_open = view.attempts.iter().any(|a| a.state == AttemptState::Open);
        match (&turn, &word) {
            (Turn::At { .. }, ActionResult::Refused(_)) => {
                assert_eq!((view.status.as_str(), has_open), (IN_DOUBT, true));
            }
            (Turn::NotYours(_), ActionResult::Yes) => {
                assert_eq!((view.status.as_str(), has_open), ("FAILED", false));
            }
            both => panic!("{both:?}"),
        }
        f.advance(SECOND).await;
    }
}

pub async fn one_decision_counts_whoever_decides_at_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = in_doubt(f, &["p"]).await.remove(0);
    let every = [Resolved::Done, Resolved::NotDone, Resolved::Failed];
    let all = every.into_iter().cycle().take(12);
    let answers = join_all(all.map(|resolved| resolve(f, &item, resolved))).await;
    let yes = answers.iter().filter(|a| **a == ActionResult::Yes).count();
    assert_eq!(yes, 1, "{answers:?}");
    let trail = f.trail(&item).await;
    let told = trail.iter().filter(|action| *action == "RESOLVED").count();
    assert_eq!(told, 1, "{trail:?}");
    assert_eq!(f.view(&item).await.run, RUN + 1, "moved once");
}
