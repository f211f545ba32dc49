//! `Attempts::take_turns`: exact times, a spacing apart, for owners only, and each logged.

use std::time::Duration;

use futures::future::join_all;
use tollgate_core::gate::{DEFAULT_MARGIN, HORIZON};
use tollgate_core::id::{Item, LaneName};
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{NewTurn, Settlement, StatusMove, Turn, TurnsWanted};
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, TOLERANCE, bank, given, hard_limit, lost, new_item, ops,
    payment, plan, send, settlement, signed, wanted,
};

async fn spacing(f: &dyn Fixture) -> SignedDuration {
    f.current_lane().await.pace(DEFAULT_MARGIN).spacing()
}
fn sends(items: &[Item]) -> Vec<NewTurn> {
    items.iter().map(send).collect()
}
fn assert_spaced(turns: &[Timestamp], spacing: SignedDuration) {
    for pair in turns.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart >= spacing, "{apart:?} apart instead of {spacing:?}");
    }
}

pub async fn turns_of_a_block_lie_a_spacing_apart_and_reach_to_the_horizon(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(30).await;
    let block = f.turns(sends(&items)).await;
    assert_eq!(block.turns.len(), 30, "in the order of the wanted");
    let turns: Vec<_> = given(&block).into_iter().map(|(_, at)| at).collect();
    assert_eq!(turns.len(), 13, "50 a second less 2 %, within 250 ms");
    assert_spaced(&turns, spacing(f).await);
    assert_eq!(turns[0], block.now + signed(Duration::from_millis(5)));
    assert!(turns[12] <= block.now + signed(HORIZON));
    assert!(block.turns[13..].iter().all(|t| *t == Turn::Later));
}

pub async fn whoever_is_told_later_has_changed_nothing_and_is_served_when_asking_again(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(20).await;
    let block = f.turns(sends(&items)).await;
    assert_eq!(f.logged().await, 13);
    let late = &items[19];
    assert!(f.view(late).await.attempts.is_empty());
    assert!(block.ask_again_in > Duration::ZERO && block.ask_again_in <= HORIZON);
    f.advance(block.ask_again_in).await;
    assert!(matches!(f.turn(send(late)).await, Turn::At { .. }));
}

pub async fn an_attempt_and_its_turn_are_on_record_when_the_turn_is_given(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, at) = f.sent(&item).await;
    let history = f
        .store()
        .take_over(&item, 1, MINUTE, &lost())
        .await
        .unwrap();
    let past = &history.past[0];
    assert_eq!((past.attempt, past.turn_at), (attempt, at));
    assert_eq!(
        (past.kind, past.state),
        (AttemptKind::Send, AttemptState::Open)
    );
    assert_eq!(f.logged().await, 1);
}

pub async fn turns_of_successive_blocks_keep_their_distance(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(10).await;
    let mut turns = vec![];
    for item in &items {
        turns.push(f.sent(item).await.1);
    }
    assert_spaced(&turns, spacing(f).await);
}

pub async fn a_lane_that_was_idle_does_not_save_turns_up(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(10).await;
    f.sent(&items[0]).await;
    f.advance(MINUTE).await;
    let block = f.turns(sends(&items[1..])).await;
    let turns: Vec<_> = given(&block).into_iter().map(|(_, at)| at).collect();
    assert_eq!(turns.len(), 9);
    assert_spaced(&turns, spacing(f).await);
    assert!(turns[0] >= block.now);
}

pub async fn no_turn_lies_before_its_plan(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(2).await;
    let now = f.now().await;
    let at = |item, planned| NewTurn {
        planned,
        ..send(item)
    };
    let soon = now + signed(Duration::from_millis(100));
    let far = now + signed(MINUTE);
    let block = f.turns(vec![at(&items[0], soon), at(&items[1], far)]).await;
    let Turn::At { at: turn, .. } = block.turns[0] else {
        panic!("{:?}", block.turns)
    };
    assert!(turn >= soon);
    assert_eq!(block.turns[1], Turn::Later, "beyond the horizon");
    assert!(block.ask_again_in > 50 * SECOND, "no use in asking before");
}

pub async fn a_slow_lane_reserves_no_turn_beyond_the_horizon(f: &dyn Fixture) {
    f.lane(plan(1, 4)).await;
    let items = f.dispatched_many(2).await;
    let block = f.turns(sends(&items)).await;
    let first = given(&block)[0].1;
    assert_eq!(block.turns[1], Turn::Later);
    assert!(block.ask_again_in > SECOND, "no use in asking before");
    f.advance(block.ask_again_in).await;
    let (_, second) = f.sent(&items[1]).await;
    assert_spaced(&[first, second], spacing(f).await);
    assert!(second <= f.now().await + signed(HORIZON));
}

pub async fn the_cursor_survives_a_restart(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(14).await;
    let last = given(&f.turns(sends(&items[..13])).await)[12].1;
    f.restart().await;
    match f.turn(send(&items[13])).await {
        Turn::Later => {}
        Turn::At { at, .. } => assert_spaced(&[last, at], spacing(f).await),
        other => panic!("{other:?}"),
    }
    assert!(f.logged().await >= 13, "and so does the log");
}

pub async fn a_clock_set_back_never_moves_the_cursor_back(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(6).await;
    let (_, mut last) = f.sent(&items[0]).await;
    for (item, back_ms) in items[1..].iter().zip([0, 100, 200, 500, 400]) {
        f.turn_back(Duration::from_millis(back_ms)).await;
        match f.turn(send(item)).await {
            Turn::At { at, .. } => {
                assert_spaced(&[last, at], spacing(f).await);
                last = at;
            }
            Turn::Later => {}
            other => panic!("{other:?}"),
        }
    }
}

pub async fn a_clock_set_back_by_an_hour_stops_a_lane_for_a_second_only(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(2).await;
    f.sent(&items[0]).await;
    f.turn_back(HOUR).await;
    let now = f.now().await;
    let (_, at) = f.sent(&items[1]).await;
    assert!(at >= now + signed(SECOND), "quiet first");
    assert!(at < now + signed(30 * SECOND));
}

pub async fn a_run_that_does_not_own_the_item_gets_no_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let item = payment("p");
    let refused = async |attempt: NewTurn, why: &str| {
        let turn = f.turn(attempt).await;
        assert!(matches!(turn, Turn::NotYours(_)), "{why}: {turn:?}");
    };
    refused(send(&item), "nobody has claimed it").await;
    refused(send(&payment("nobody")), "it does not exist").await;
    f.dispatch_all().await;
    let second = NewTurn {
        run: 2,
        ..send(&item)
    };
    refused(second, "it is in its first run").await;
    f.store().put_back(&item, 1, SECOND, "why").await.unwrap();
    refused(send(&item), "it was put back").await;
    f.dispatch_all().await;
    refused(send(&item), "it is in its second run").await;
    let done = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
    f.store().finish(&item, 2, done).await.unwrap();
    let second = NewTurn {
        run: 2,
        ..send(&item)
    };
    refused(second, "it has ended").await;
    assert!(f.view(&item).await.attempts.is_empty());
    assert_eq!(f.logged().await, 0);
}

pub async fn a_flow_may_take_its_turn_before_its_start_was_recorded(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.claimed_one("p").await;
    f.sent(&payment("p")).await;
}

pub async fn a_second_sender_finds_the_attempt_open(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    f.advance(HOUR).await;
    let second = f.turn(send(&item)).await;
    assert!(matches!(second, Turn::LookAgain(_)), "{second:?}");
    assert_eq!(
        (f.view(&item).await.attempts.len(), f.logged().await),
        (1, 1)
    );
    f.settle(settlement(&item, attempt, Outcome::retry("refused")))
        .await;
    f.sent(&item).await;
    assert_eq!(f.view(&item).await.attempts.len(), 2);
}

/// A process that was stopped at the gate, before its turn, and wakes up after others have sent
/// the item and lost the answer: it decided on a history that is no longer the whole.
pub async fn whoever_has_not_seen_the_latest_attempt_gets_no_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let outcomes = [
        Outcome::Unknown("lost".into()),
        Outcome::retry("not done"),
        Outcome::Declined("no funds".into()),
        Outcome::Done("ok".into()),
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let item = f.dispatched(&[&format!("p{n}")]).await.remove(0);
        let asleep = send(&item);
        let (attempt, _) = f.sent(&item).await;
        f.settle(settlement(&item, attempt, outcome.clone())).await;
        f.advance(SECOND).await;
        for kind in [AttemptKind::Send, AttemptKind::Probe] {
            let woken = NewTurn {
                kind,
                ..asleep.clone()
            };
            let block = f.store().take_turns(wanted(vec![woken])).await.unwrap();
            let [Turn::LookAgain(_)] = &block.turns[..] else {
                panic!("after {outcome:?}: {block:?}")
            };
        }
        assert_eq!(f.view(&item).await.attempts.len(), 1);
    }
    assert_eq!(f.logged().await, 4, "one send each");
}

pub async fn an_item_named_twice_in_one_block_gets_one_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["a", "b"]).await;
    let block = vec![send(&items[0]), send(&items[0]), send(&items[1])];
    let block = f.turns(block).await;
    let [first, second, third] = &block.turns[..] else {
        panic!("{block:?}")
    };
    assert!(matches!(first, Turn::At { .. }), "{first:?}");
    assert!(matches!(second, Turn::LookAgain(_)), "{second:?}");
    assert!(matches!(third, Turn::At { .. }), "{third:?}");
    let items = f.dispatched(&["c"]).await;
    let stale = NewTurn {
        run: 0,
        ..send(&items[0])
    };
    let block = f.turns(vec![stale, send(&items[0])]).await;
    let [stale, owner] = &block.turns[..] else {
        panic!("{block:?}")
    };
    assert!(matches!(stale, Turn::NotYours(_)), "{stale:?}");
    assert!(matches!(owner, Turn::At { .. }), "not kept by who is late");
}

pub async fn senders_at_once_for_one_item_get_one_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let blocks = join_all((0..8).map(|_| f.turn(send(&item)))).await;
    let turns = blocks.iter().filter(|t| matches!(t, Turn::At { .. }));
    assert_eq!(turns.count(), 1, "{blocks:?}");
    let refused = blocks.iter().filter(|t| matches!(t, Turn::LookAgain(_)));
    assert_eq!(refused.count(), 7, "{blocks:?}");
    assert_eq!(f.logged().await, 1);
}

pub async fn one_who_may_not_send_takes_nobodys_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["a", "b"]).await;
    let block = vec![send(&items[0]), send(&payment("nobody")), send(&items[1])];
    let turns = given(&f.turns(block).await);
    assert_eq!(turns.len(), 2);
    assert_eq!(
        turns[1].1.duration_since(turns[0].1),
        spacing(f).await,
        "no turn in between"
    );
}

pub async fn a_missed_turn_is_replaced_in_the_log(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, missed) = f.sent(&item).await;
    f.advance(SECOND).await;
    let again = NewTurn {
        missed: Some(attempt),
        ..send(&item)
    };
    let turn = f.turn(again).await;
    let Turn::At { attempt: same, at } = turn else {
        panic!("{turn:?}")
    };
    assert_eq!(same, attempt, "the same attempt");
    assert!(at > missed);
    let view = f.view(&item).await;
    assert_eq!((view.attempts.len(), view.attempts[0].turn_at), (1, at));
    assert_eq!(f.logged().await, 1, "nothing was sent in the missed turn");
}

pub async fn a_missed_turn_that_was_taken_over_is_not_given_again(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    f.advance(SECOND).await;
    f.store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    let again = NewTurn {
        missed: Some(attempt),
        ..send(&item)
    };
    let turn = f.turn(again).await;
    assert!(matches!(turn, Turn::LookAgain(_)), "{turn:?}");
    let state = f.view(&item).await.attempts[0].state;
    assert_eq!(state, AttemptState::Unknown);
    assert_eq!(f.logged().await, 1, "perhaps it was sent");
}

pub async fn a_paused_lane_gives_no_turns_and_says_who_paused_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let paused = Pause::now("maria", "the bank is down");
    let pause = |pause| LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    f.lane(pause(Some(paused))).await;
    let Turn::Closed { why, for_at_least } = f.turn(send(&item)).await else {
        panic!("a paused lane gave a turn")
    };
    assert!(
        why.contains("maria") && why.contains("the bank is down"),
        "{why}"
    );
    assert!(for_at_least > Duration::ZERO);
    assert!(f.view(&item).await.attempts.is_empty());
    f.lane(pause(None)).await;
    f.sent(&item).await;
}

pub async fn a_lane_closed_by_its_downstream_gives_no_turns_until_it_opens(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["a", "b"]).await;
    let (attempt, _) = f.sent(&items[0]).await;
    f.settle(Settlement {
        close_lane: Some((bank(), MINUTE)),
        ..settlement(&items[0], attempt, Outcome::retry("429"))
    })
    .await;
    let Turn::Closed { for_at_least, .. } = f.turn(send(&items[1])).await else {
        panic!("a closed lane gave a turn")
    };
    assert!(
        for_at_least <= MINUTE && for_at_least > MINUTE / 2,
        "{for_at_least:?}"
    );
    f.advance(for_at_least).await;
    f.sent(&items[1]).await;
}

pub async fn a_lane_nobody_made_gives_no_turns(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let nowhere = TurnsWanted {
        lane: LaneName::new("nowhere"),
        ..wanted(vec![send(&item)])
    };
    let block = f.store().take_turns(nowhere).await.unwrap();
    assert!(
        matches!(block.turns[0], Turn::Closed { .. }),
        "{:?}",
        block.turns
    );
}

pub async fn a_lowered_limit_binds_every_turn_after_those_reserved(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(3).await;
    let reserved = given(&f.turns(sends(&items[..2])).await)[1].1;
    let changed = f.lane(hard_limit(1)).await;
    assert!(reserved <= changed.effective_at);
    f.advance(Duration::from_millis(800)).await;
    let (_, next) = f.sent(&items[2]).await;
    assert_spaced(&[reserved, next], spacing(f).await);
}

pub async fn takers_at_once_share_one_even_pace(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(160).await;
    f.lane(hard_limit(1000)).await;
    let takers = items.chunks(20).map(async |mine| {
        let mut turns = vec![];
        for block in mine.chunks(5) {
            turns.extend(given(&f.turns(sends(block)).await));
        }
        turns
    });
    let mut turns: Vec<Timestamp> = join_all(takers)
        .await
        .into_iter()
        .flatten()
        .map(|(_, at)| at)
        .collect();
    turns.sort();
    assert_eq!(turns.len(), 160);
    assert_spaced(&turns, spacing(f).await);
    assert_eq!(f.logged().await, 160);
}

pub async fn lanes_have_turns_of_their_own(f: &dyn Fixture) {
    f.lane(plan(1, 4)).await;
    let items = f.dispatched_many(2).await;
    f.sent(&items[0]).await;
    let stripe = LaneName::new("stripe");

    f.store()
        .change_lane(&stripe, plan(1, 4), ops())
        .await
        .unwrap();
    let elsewhere = TurnsWanted {
        lane: stripe,
        ..wanted(vec![send(&items[1])])
    };
    let block = f.store().take_turns(elsewhere).await.unwrap();
    assert_eq!(given(&block).len(), 1, "{:?}", block.turns);
    assert_eq!(f.logged().await, 1, "and logs of their own");
}
