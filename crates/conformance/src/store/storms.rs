//! Refusal storms: canaries, streaks, the pause they make, and what can be undone.

use std::time::Duration;

use futures::future::join_all;
use tollgate_core::id::{AttemptId, Item, StormId, WatchId};
use tollgate_core::lane::LaneChange;
use tollgate_core::lane_in_force::LaneState;
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{
    ActionResult, NewTurn, NewWatch, Page, RefusedItem, Settlement, StatusMove, Suspicion, Then,
    Turn, TurnBlock, TurnsWanted,
};
use tollgate_core::storm::Limits;

use super::fixture::{
    Fixture, MINUTE, SECOND, TOLERANCE, bank, given, lost, ops, payments, plan, send, settlement,
    wanted,
};

const USUAL: Limits = Limits {
    canary: 5,
    streak: 20,
};

fn configured(digest: &str, limits: Limits) -> NewWatch {
    NewWatch {
        lane: bank(),
        connector: "payments".into(),
        digest: digest.into(),
        limits,
    }
}

async fn watch(f: &dyn Fixture, limits: Limits) -> WatchId {
    let watch = f.store().watch(configured("first", limits)).await;
    watch.unwrap()
}

/// A fast lane, watched, with so many items that are to be sent.
async fn begun(f: &dyn Fixture, limits: Limits, count: usize) -> (WatchId, Vec<Item>) {
    f.lane(plan(4000, 4)).await;
    let items = f.dispatched_many(count).await;
    (watch(f, limits).await, items)
}

fn watched(watch: WatchId, attempts: Vec<NewTurn>) -> TurnsWanted {
    TurnsWanted {
        watch: Some(watch),
        ..wanted(attempts)
    }
}

async fn turns(f: &dyn Fixture, watch: WatchId, items: &[Item]) -> TurnBlock {
    let attempts = items.iter().map(send).collect();
    let block = f.store().take_turns(watched(watch, attempts)).await;
    block.unwrap()
}

/// The attempts of those that get a turn now.
async fn sent(f: &dyn Fixture, watch: WatchId, items: &[Item]) -> Vec<AttemptId> {
    let block = turns(f, watch, items).await;
    given(&block)
        .into_iter()
        .map(|(attempt, _)| attempt)
        .collect()
}

/// The bank repeats an account of the payment.
fn refusal(item: &Item, attempt: AttemptId) -> Settlement {
    let account = "DE02120300000000202051";
    let refused = Outcome::Refused(format!("no {}: {account} is shut", item.id));
    Settlement {
        accounts: vec![account.into()],
        record: Some(StatusMove::new(&["SCHEDULED"], "REJECTED")),
        then: Then::Finish,
        ..settlement(item, attempt, refused)
    }
}

async fn refuse(f: &dyn Fixture, items: &[Item], attempts: &[AttemptId]) {
    for (item, attempt) in items.iter().zip(attempts) {
        assert!(f.settle(refusal(item, *attempt)).await);
    }
}

/// Sends them one by one, each with the outcome.
async fn answered(f: &dyn Fixture, watch: WatchId, items: &[Item], outcome: &Outcome) {
    for item in items {
        let attempt = sent(f, watch, std::slice::from_ref(item)).await;
        let settled = settlement(item, attempt[0], outcome.clone());
        assert!(f.settle(settled).await);
        f.advance(Duration::from_millis(2)).await;
    }
}

fn done() -> Outcome {
    Outcome::Done("ok".into())
}

/// Why the lane is closed; nothing while it is open.
async fn closed_because(f: &dyn Fixture) -> Option<String> {
    let lane = f.store().lane(&bank()).await.unwrap().unwrap();
    match lane.state(f.now().await) {
        LaneState::Open { .. } => None,
        LaneState::Closed { why, until } => {
            assert_eq!(until, None, "until a person resumes it");
            Some(why)
        }
    }
}

async fn refused_in(
    f: &dyn Fixture,
    storm: StormId,
    after: Option<AttemptId>,
    limit: u32,
) -> Page<RefusedItem, AttemptId> {
    let refused = f.store().refused_in(storm, &payments(), after, limit).await;
    refused.unwrap()
}

async fn resume(f: &dyn Fixture) {
    f.lane(LaneChange {
        pause: Some(None),
        ..LaneChange::default()
    })
    .await;
}

pub async fn a_canary_is_five_turns_and_no_sixth_however_many_nodes_ask(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    let nodes = items.chunks(5).map(|items| turns(f, watch, items));
    let blocks = join_all(nodes).await;
    let turns: usize = blocks.iter().map(|block| given(block).len()).sum();
    assert_eq!(turns, 5);
    let later = blocks.iter().flat_map(|block| &block.turns);
    assert_eq!(later.filter(|turn| **turn == Turn::Later).count(), 35);
    assert_eq!(f.logged().await, 5, "whoever waits has spent nothing");
}

pub async fn the_first_answer_that_is_no_refusal_ends_the_canary(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    let canaries = sent(f, watch, &items).await;
    refuse(f, &items[..4], &canaries[..4]).await;
    assert_eq!(sent(f, watch, &items[5..]).await, []);
    assert!(f.settle(settlement(&items[4], canaries[4], done())).await);
    assert!(sent(f, watch, &items[5..]).await.len() > 5);
}

pub async fn five_refusals_pause_the_lane_with_the_reason_and_the_last_answer(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 10).await;
    let canaries = sent(f, watch, &items).await;
    refuse(f, &items[..4], &canaries[..4]).await;
    assert_eq!(closed_because(f).await, None);
    refuse(f, &items[4..5], &canaries[4..]).await;
    let why = closed_because(f).await.unwrap();
    let told = "paused by storm: refusal storm 1: the first 5 payments of connector \"payments\" were all refused; the last answer: no p00004: ****2051 is shut";
    assert!(why.contains(told), "{why}");
    let block = turns(f, watch, &items[5..]).await;
    assert!(matches!(&block.turns[0], Turn::Closed { why: told, .. } if *told == why));
    f.advance(MINUTE * 60).await;
    assert!(closed_because(f).await.is_some(), "it waits for a person");
    let trail = f.store().audit(None, 10).await.unwrap();
    let paused = trail.iter().find(|entry| entry.action == "LANE_PAUSED");
    let paused = paused.unwrap();
    assert_eq!(paused.actor, "storm");
    assert!(paused.detail.contains("****2051"), "{}", paused.detail);
    let said = f.store().item(&items[4]).await.unwrap().unwrap();
    let whole = "no p00004: DE02120300000000202051 is shut";
    assert_eq!(said.attempts[0].detail, whole, "the attempt has all of it");
}

pub async fn another_configuration_begins_a_canary_and_the_same_one_goes_on(f: &dyn Fixture) {
    let (first, items) = begun(f, USUAL, 60).await;
    assert_eq!(sent(f, first, &items[..3]).await.len(), 3);
    f.restart().await;
    assert_eq!(watch(f, USUAL).await, first, "as it was");
    assert_eq!(sent(f, first, &items[3..20]).await.len(), 2, "five in all");
    let second = f.store().watch(configured("second", USUAL)).await.unwrap();
    let canaries = sent(f, second, &items[5..20]).await;
    assert_eq!(canaries.len(), 5);
    let back = watch(f, USUAL).await;
    assert_ne!(back, first, "going back is a change, too");
    assert_eq!(sent(f, back, &items[20..40]).await.len(), 5);
    // A node that still runs with the old configuration says nothing about the new one.
    assert!(f.settle(settlement(&items[5], canaries[0], done())).await);
    assert_eq!(sent(f, back, &items[40..]).await, []);
}

pub async fn after_a_storm_is_lifted_the_lane_begins_with_a_canary(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    for round in 0..2 {
        let some = &items[round * 5..];
        let canaries = sent(f, watch, some).await;
        assert_eq!(canaries.len(), 5, "round {round}");
        refuse(f, some, &canaries).await;
        assert!(closed_because(f).await.is_some(), "round {round}");
        resume(f).await;
        assert_eq!(closed_because(f).await, None);
    }
    answered(f, watch, &items[10..11], &done()).await;
    assert!(sent(f, watch, &items[11..]).await.len() > 5);
    let storms = f.store().storms(10).await.unwrap();
    assert_eq!(storms.len(), 2);
    assert!(storms.iter().all(|storm| storm.lifted_at.is_some()));
}

pub async fn twenty_refusals_among_the_last_twenty_five_answers_pause_the_lane(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 60).await;
    let refused = Outcome::Refused("no".into());
    answered(f, watch, &items[..10], &done()).await;
    answered(f, watch, &items[10..20], &refused).await;
    // Six accepted payments: of the last 25 at most 19 can be refusals.
    answered(f, watch, &items[20..26], &done()).await;
    answered(f, watch, &items[26..45], &refused).await;
    assert_eq!(closed_because(f).await, None, "19 of the last 25");
    answered(f, watch, &items[45..46], &refused).await;
    let why = closed_because(f).await.unwrap();
    let told = "20 of the last 25 answers of connector \"payments\" were refusals";
    assert!(why.contains(told), "{why}");
    let refused = refused_in(f, StormId(1), None, 100).await.items;
    assert_eq!((refused.len(), &refused[0].id), (20, &items[26].id));
    // The refusals before it do not count again.
    resume(f).await;
    answered(f, watch, &items[46..47], &done()).await;
    answered(f, watch, &items[47..48], &Outcome::Refused("no".into())).await;
    assert_eq!(closed_because(f).await, None);
}

pub async fn refusals_that_come_at_once_pause_the_lane_once(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    answered(f, watch, &items[..1], &done()).await;
    let attempts = sent(f, watch, &items[1..]).await;
    assert_eq!(attempts.len(), 39);
    let settle = items[1..].iter().zip(&attempts);
    let settled = join_all(settle.map(|(item, attempt)| f.settle(refusal(item, *attempt))));
    assert!(settled.await.into_iter().all(|settled| settled));
    let storms = f.store().storms(10).await.unwrap();
    assert_eq!(storms.len(), 1);
    // What was under way belongs to it.
    let refused = refused_in(f, storms[0].id, None, 100).await;
    assert_eq!(refused.items.len(), 39);
}

pub async fn what_is_not_watched_or_not_refused_makes_no_storm(f: &dyn Fixture) {
    let off = Limits::OFF;
    let (watch, items) = begun(f, off, 120).await;
    answered(f, watch, &items[..30], &Outcome::Refused("no".into())).await;
    assert_eq!(closed_because(f).await, None, "both are switched off");
    for item in &items[30..60] {
        let (attempt, _) = f.sent(item).await;
        assert!(f.settle(refusal(item, attempt)).await);
        f.advance(Duration::from_millis(2)).await;
    }
    assert_eq!(closed_because(f).await, None, "it is not watched");
    let usual = f.store().watch(configured("usual", USUAL)).await.unwrap();
    answered(f, usual, &items[60..61], &done()).await;
    answered(f, usual, &items[61..90], &Outcome::Declined("no".into())).await;
    answered(f, usual, &items[90..119], &Outcome::retry("later")).await;
    assert_eq!(closed_because(f).await, None);
}

/// Kill -9 in the middle of a canary.
pub async fn what_a_dead_sender_left_keeps_its_place_and_does_not_stop_the_lane(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    let canaries = sent(f, watch, &items).await;
    assert_eq!(canaries.len(), 5);
    f.restart().await;
    assert_eq!(sent(f, watch, &items[5..]).await, [], "open");
    f.advance(2 * SECOND).await;
    for item in &items[..5] {
        let history = f.store().take_over(item, 1, TOLERANCE, &lost()).await;
        let history = history.unwrap();
        assert_eq!(history.busy_for, None);
        assert_eq!(
            history.past[0].watch,
            Some(watch),
            "which configuration sent it"
        );
    }
    assert_eq!(
        sent(f, watch, &items[5..]).await,
        [],
        "nobody knows the outcome"
    );
    // What is in doubt is sent again and asked about, and cannot be rejected.
    let again = NewTurn {
        seen: Some(canaries[0]),
        may_be_late: true,
        ..send(&items[0])
    };
    let block = f.store().take_turns(watched(watch, vec![again])).await;
    assert_eq!(given(&block.unwrap()).len(), 1);
    f.advance(MINUTE).await;
    assert_eq!(
        sent(f, watch, &items[5..]).await.len(),
        5,
        "not stuck for ever"
    );
    assert_eq!(sent(f, watch, &items[10..]).await, []);
}

pub async fn a_question_behind_sends_that_wait_for_a_canary_gets_its_turn(f: &dyn Fixture) {
    f.lane(plan(40, 4)).await;
    let items = f.dispatched_many(40).await;
    let one = Limits {
        canary: 1,
        streak: 20,
    };
    let watch = watch(f, one).await;
    let canary = sent(f, watch, &items[..1]).await[0];
    let lost = Outcome::Unknown("lost".into());
    f.settle(settlement(&items[0], canary, lost)).await;
    f.advance(SECOND).await;
    let probe = NewTurn {
        seen: Some(canary),
        kind: AttemptKind::Probe,
        may_be_late: true,
        ..send(&items[0])
    };
    let sends = items[1..].iter().map(send);
    let attempts = sends.chain([probe]).collect();
    let block = f.store().take_turns(watched(watch, attempts)).await;
    let turns = block.unwrap().turns;
    let (question, sends) = turns.split_last().unwrap();
    assert!(matches!(question, Turn::At { .. }), "{question:?}");
    assert!(sends.iter().all(|turn| *turn == Turn::Later), "{sends:?}");
}

pub async fn a_question_about_a_canary_that_was_done_ends_the_canary(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 40).await;
    // Sent before anything was watched: it proves nothing about this configuration.
    let old = &items[39];
    let (old_attempt, _) = f.sent(old).await;
    f.settle(settlement(
        old,
        old_attempt,
        Outcome::Unknown("lost".into()),
    ))
    .await;
    let canaries = sent(f, watch, &items[..39]).await;
    for (item, attempt) in items.iter().zip(&canaries) {
        f.settle(settlement(item, *attempt, Outcome::Unknown("lost".into())))
            .await;
    }
    for (item, seen, opens) in [(old, old_attempt, false), (&items[0], canaries[0], true)] {
        let probe = NewTurn {
            seen: Some(seen),
            kind: AttemptKind::Probe,
            may_be_late: true,
            ..send(item)
        };
        let block = f.store().take_turns(watched(watch, vec![probe])).await;
        let (attempt, _) = given(&block.unwrap())[0];
        assert!(f.settle(settlement(item, attempt, done())).await);
        let open = !sent(f, watch, &items[5..20]).await.is_empty();
        assert_eq!(open, opens, "{item}");
    }
}

pub async fn what_a_storm_refused_is_told_until_it_is_reopened(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 10).await;
    let canaries = sent(f, watch, &items).await;
    refuse(f, &items, &canaries).await;
    let kept = f.store();
    let storm = kept.storms(10).await.unwrap().remove(0);
    assert_eq!((storm.lane, storm.lifted_at), (bank(), None));
    assert_eq!(kept.storm(StormId(99)).await.unwrap(), None);
    let first = refused_in(f, storm.id, None, 3).await;
    let ids: Vec<_> = first.items.iter().map(|it| it.id.clone()).collect();
    assert_eq!(
        ids,
        items[..3]
            .iter()
            .map(|it| it.id.clone())
            .collect::<Vec<_>>()
    );
    let rest = refused_in(f, storm.id, first.next, 3).await;
    assert_eq!(rest.items.len(), 2);
    let back = StatusMove::new(&["REJECTED"], "SCHEDULED");
    let now = f.now().await;
    let reopened = kept.reopen(&items[0], back, now, ops()).await.unwrap();
    assert_eq!(reopened, ActionResult::Yes);
    assert_eq!(f.view(&items[0]).await.status, "SCHEDULED");
    let left = refused_in(f, storm.id, None, 10).await;
    assert_eq!(left.items.len(), 4);
}

pub async fn a_refusal_is_suspect_until_a_later_payment_is_accepted(f: &dyn Fixture) {
    let (watch, items) = begun(f, USUAL, 30).await;
    let said = |item: Item| async move { f.store().suspicion(&item).await.unwrap() };
    answered(f, watch, &items[..1], &done()).await;
    let attempts = sent(f, watch, &items[1..3]).await;
    refuse(f, &items[1..3], &attempts).await;
    assert!(matches!(
        said(items[1].clone()).await,
        Suspicion::Possible(_)
    ));
    assert_eq!(said(items[0].clone()).await, Suspicion::None, "not refused");
    f.advance(Duration::from_millis(300)).await;
    answered(f, watch, &items[3..4], &done()).await;
    assert_eq!(said(items[1].clone()).await, Suspicion::None);
    let attempts = sent(f, watch, &items[4..5]).await;
    refuse(f, &items[4..5], &attempts).await;
    assert!(matches!(
        said(items[4].clone()).await,
        Suspicion::Possible(_)
    ));
    f.advance(MINUTE).await;
    assert_eq!(
        said(items[4].clone()).await,
        Suspicion::None,
        "no storm came"
    );
    let attempts = sent(f, watch, &items[5..]).await;
    refuse(f, &items[5..], &attempts).await;
    f.advance(MINUTE).await;
    assert_eq!(said(items[4].clone()).await, Suspicion::Storm);
    resume(f).await;
    assert_eq!(said(items[4].clone()).await, Suspicion::None);
}
