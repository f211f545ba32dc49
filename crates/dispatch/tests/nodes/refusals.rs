//! A bank that begins to refuse everything while two processes send to it. What is counted is counted in the
//! database: together they stop as one process would.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane::LaneChange;
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{
    Author, ItemView, Lanes, OperatorActions, SharedClock, StatusMove, StormPause,
};

use crate::node::{Node, WATCHED};
use crate::storm::ONE_AT_A_TIME;
use crate::town::{LANE, Town};

const PER_SECOND: u32 = 200;
const ITEMS: u32 = 300;
/// The turns of a quarter of a second: what a node may have in hand when another one sees the storm.
const IN_HAND: usize = 50;

/// Waits until a storm has paused the lane and everything that was under way has ended.
async fn stormed(town: &Town) -> StormPause {
    let looking = async {
        loop {
            let lane = town.store.lane(&LaneName::new(LANE)).await.unwrap();
            let storm = lane.and_then(|lane| lane.storm);
            let now = town.store.now().await.unwrap();
            match storm {
                Some(storm) if now > storm.since + HORIZON && is_at_rest(town).await => {
                    return storm;
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let within = Duration::from_mins(1);
    let stormed = tokio::time::timeout(within, looking).await;
    stormed.expect("no storm has paused the lane")
}

async fn is_at_rest(town: &Town) -> bool {
    let views = town.views().await;
    let mut attempts = views.iter().flat_map(|view| &view.attempts);
    attempts.all(|attempt| attempt.state != AttemptState::Open)
}

fn refused(view: &ItemView) -> Option<Timestamp> {
    let mut attempts = view.attempts.iter();
    let refused = attempts.find(|attempt| attempt.state == AttemptState::Refused)?;
    Some(refused.turn_at)
}

async fn reopen_and_resume(town: &Town) {
    let author = || Author::new("ann", "the path is right now");
    let scheduled = || StatusMove::new(&["REJECTED"], "SCHEDULED");
    let now = town.store.now().await.unwrap();
    for view in town.views().await {
        if refused(&view).is_some() {
            let reopened = town.store.reopen(&view.item, scheduled(), now, author());
            reopened.await.unwrap();
        }
    }
    let resume = LaneChange {
        pause: Some(None),
        ..LaneChange::default()
    };
    let lane = LaneName::new(LANE);
    let resumed = town.store.change_lane(&lane, resume, author());
    resumed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streak_over_two_nodes_stops_both_within_the_horizon_and_all_is_paid_once_after_it() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let town = Town::new(PER_SECOND, ITEMS).await;
    let watched = [(WATCHED, "1".to_owned())];
    let nodes = [(); 2].map(|()| Node::start_with(&town.url, &town.bank.url(), &watched));
    town.arrivals(60).await;
    town.bank.set_faults("sends: 422".parse().unwrap());
    let storm = stormed(&town).await;

    let views = town.views().await;
    for node in &nodes {
        let batches = views.iter().filter_map(|view| view.dispatch_batch.as_ref());
        let claimed = batches.filter(|batch| node.claimed(batch)).count();
        assert!(claimed > 0, "one of the nodes had no part in it");
    }
    let turns: Vec<_> = views.iter().filter_map(refused).collect();
    let after = turns.iter().filter(|turn| **turn > storm.since).count();
    let before = turns.len() - after;
    println!("{before} refused of those with a turn before the storm, {after} after it");
    assert!(before >= 20, "{before}: what is in flight comes on top");
    assert!(after <= IN_HAND, "{after}");
    assert!(turns.iter().all(|turn| *turn <= storm.since + HORIZON));
    let ledger = town.bank.ledger();
    assert_eq!(ledger.summary().refused, turns.len(), "each of them once");

    town.bank.set_faults("".parse().unwrap());
    reopen_and_resume(&town).await;
    town.all_ended(Duration::from_mins(2)).await;
    town.check(PER_SECOND);
}
