//! A node that is stopped (SIGSTOP) in the middle of a transaction that holds the lane: the server
//! ends its session, the others go on, and when it wakes it finds itself overtaken.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_conformance::postgres::{connect, count};
use tollgate_core::Timestamp;

use crate::node::{LEASE, Node};
use crate::storm::ONE_AT_A_TIME;
use crate::town::Town;

const LIMIT: u32 = 200;
/// The server waits two seconds for a session that stands still, and whoever waited for its lock
/// asks again after a moment.
const OTHERS_GO_ON_WITHIN: Duration = Duration::from_secs(6);
/// A send comes within milliseconds of its turn; whoever was stopped would come seconds after it.
const STALE: Duration = Duration::from_secs(1);

/// Sessions of the stopped node that hold a cursor and are waited for in vain.
const HOLDS_A_LANE: &str = "SELECT count(*) FROM pg_stat_activity a
     JOIN pg_locks l ON l.pid = a.pid AND l.relation = 'lane_cursor'::regclass
     WHERE a.application_name = 'stopped' AND a.state = 'idle in transaction'";

/// Stops the node again and again until it was caught with the lane in its hands, and with turns
/// that it was given before and has not used.
async fn stop_with_the_lane_in_hand(town: &Town, node: &Node) {
    let unsent = format!(
        "SELECT count(*) FROM attempt a JOIN item_queue q USING (item_type, item_id)
         WHERE a.state = 'OPEN' AND a.turn_at > tg_now()
           AND q.dispatch_batch_id LIKE 'BATCH-{}-%'",
        node.pid()
    );
    for _ in 0..2000 {
        node.signal("-STOP");
        let has_turns = count(&town.url, &unsent).await > 1;
        if has_turns && count(&town.url, HOLDS_A_LANE).await > 0 {
            return;
        }
        node.signal("-CONT");
    }
    panic!("the node was never caught in a transaction on its lane");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_stopped_with_the_lane_in_hand_holds_nobody_up_and_sends_nothing_stale() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let town = Town::new(LIMIT, 2000).await;
    let (ledger, bank) = (town.bank.ledger(), town.bank.url());
    let stopped = Node::start(&format!("{}?application_name=stopped", town.url), &bank);
    let _others = [(); 2].map(|()| Node::start(&town.url, &bank));
    town.arrivals(100).await;
    stop_with_the_lane_in_hand(&town, &stopped).await;
    let more = ledger.arrivals() + 200;
    tokio::time::timeout(OTHERS_GO_ON_WITHIN, ledger.wait_for_arrivals(more))
        .await
        .expect("the lane is held by a node that is stopped");
    assert_eq!(count(&town.url, HOLDS_A_LANE).await, 0);
    // Past its lease, so that others take over what it has claimed.
    tokio::time::sleep(LEASE).await;
    stopped.signal("-CONT");
    town.all_ended(Duration::from_mins(1)).await;
    town.check(LIMIT);
    let stale = stale_arrivals(&town).await;
    // One may have been between its gate and its socket: nobody can call that one back.
    assert!(stale.len() <= 1, "sent long after their turns: {stale:?}");
}

/// What arrived without a turn of its own within the time before.
async fn stale_arrivals(town: &Town) -> Vec<String> {
    let turns = turns(town).await;
    let ledger = town.bank.ledger();
    let anchor = Timestamp::try_from(ledger.wall_anchor()).unwrap();
    let mut stale = vec![];
    for entry in ledger.entries() {
        let (id, arrival) = (entry.payment_id.unwrap(), anchor + entry.arrival);
        let of_it = turns.get(&id).into_iter().flatten();
        if !of_it
            .into_iter()
            .any(|turn| arrival.duration_since(*turn).unsigned_abs() < STALE)
        {
            stale.push(id);
        }
    }
    stale
}

/// Every turn in the send log, by item.
async fn turns(town: &Town) -> HashMap<String, Vec<Timestamp>> {
    let client = connect(&town.url).await;
    let all = "SELECT item_id, turn_at FROM attempt";
    let mut turns: HashMap<String, Vec<Timestamp>> = HashMap::new();
    for row in client.query(all, &[]).await.unwrap() {
        let turn = Timestamp::from_microsecond(row.get(1)).unwrap();
        turns.entry(row.get(0)).or_default().push(turn);
    }
    turns
}
