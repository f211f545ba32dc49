//! `Attempts::take_call_turn`: calls that belong to no item go through the same cursor and log as
//! every send, and take no more than their share.

use std::time::Duration;

use futures::future::join_all;
use rust_decimal::Decimal;
use tollgate_core::SignedDuration;
use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::{CallGiven, CallWanted};

use super::fixture::{Fixture, MINUTE, bank, plan};

fn wanted(share: i64) -> CallWanted {
    CallWanted {
        lane: bank(),
        lead: Duration::ZERO,
        share: Decimal::new(share, 2),
    }
}

impl dyn Fixture + '_ {
    async fn call(&self, share: i64) -> CallGiven {
        let turn = self.store().take_call_turn(wanted(share)).await;
        turn.unwrap().given
    }
    async fn called(&self, share: i64) -> Timestamp {
        match self.call(share).await {
            CallGiven::At(at) => at,
            other => panic!("no turn: {other:?}"),
        }
    }
    async fn call_spacing(&self) -> SignedDuration {
        self.current_lane().await.pace(DEFAULT_MARGIN).spacing()
    }
}

pub async fn a_call_keeps_its_distance_from_sends_and_is_logged_like_them(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(2).await;
    let first = f.sent(&items[0]).await.1;
    let call = f.called(100).await;
    let second = f.sent(&items[1]).await.1;
    let spacing = f.call_spacing().await;
    assert!(call.duration_since(first) >= spacing);
    assert!(second.duration_since(call) >= spacing);
    assert_eq!(f.logged().await, 3);
}

pub async fn calls_take_no_more_than_their_share(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let first = f.called(5).await;
    let CallGiven::AskAgainIn(pause) = f.call(5).await else {
        panic!("a twentieth of fifty a second is one in 400 ms and more");
    };
    assert!(pause <= Duration::from_secs(1), "{pause:?}");
    assert_eq!(
        f.logged().await,
        1,
        "whoever asks again has changed nothing"
    );
    let items = f.dispatched_many(1).await;
    f.sent(&items[0]).await;
    f.advance(MINUTE).await;
    f.restart().await;
    let later = f.called(5).await;
    assert!(later.duration_since(first) >= f.call_spacing().await * 20);
}

pub async fn callers_at_once_share_one_cursor(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let calls = join_all((0..5).map(|_| f.call(100))).await;
    let turns = calls.into_iter().filter_map(|given| match given {
        CallGiven::At(at) => Some(at),
        _ => None,
    });
    let mut turns: Vec<Timestamp> = turns.collect();
    assert!(turns.len() > 1, "{turns:?}");
    turns.sort();
    let spacing = f.call_spacing().await;
    for pair in turns.windows(2) {
        assert!(pair[1].duration_since(pair[0]) >= spacing, "{turns:?}");
    }
}

pub async fn a_closed_lane_gives_a_call_no_turn_and_says_why(f: &dyn Fixture) {
    let CallGiven::Closed { why } = f.call(50).await else {
        panic!("a lane that is not there gave a turn");
    };
    assert!(why.contains("bank"), "{why}");
    f.lane(plan(100, 4)).await;
    let pause = LaneChange {
        pause: Some(Some(Pause::now("maria", "the bank is down"))),
        ..LaneChange::default()
    };
    f.lane(pause).await;
    let CallGiven::Closed { why } = f.call(50).await else {
        panic!("a paused lane gave a turn");
    };
    assert!(why.contains("maria"), "{why}");
    assert_eq!(f.logged().await, 0);
}
