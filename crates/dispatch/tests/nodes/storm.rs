//! Three processes, one lane. They run one storm after the other: two cores are not many.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::node::{LEASE, Node};
use crate::town::Town;

pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_together_send_what_one_lane_permits_and_hardly_less() {
    let _turn = ONE_AT_A_TIME.lock().await;
    // At 200 three debug builds keep two cores busy, and turns are missed because no core is free.
    let limit = 100;
    let town = Town::new(limit, 1200).await;
    let _nodes: Vec<_> = (0..3)
        .map(|_| Node::start(&town.url, &town.bank.url()))
        .collect();
    town.all_ended(Duration::from_mins(2)).await;
    town.check(limit);
    // From the first arrival to the last, with the ends left out: starting is not sending.
    let mut arrivals: Vec<_> = town
        .bank
        .ledger()
        .entries()
        .iter()
        .map(|e| e.arrival)
        .collect();
    arrivals.sort();
    let (from, to) = (arrivals[200], arrivals[1000]);
    let rate = 800.0 / to.saturating_sub(from).as_secs_f64();
    println!("{rate:.1} a second of {limit}");
    assert!(
        rate >= f64::from(limit) * 0.85,
        "{rate:.1} a second of {limit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_and_a_stopped_one_lose_nothing_double_nothing_and_exceed_nothing() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let limit = 200;
    let town = Town::new(limit, 2000).await;
    let ledger = town.bank.ledger();
    let mut nodes: Vec<_> = (0..3)
        .map(|_| Node::start(&town.url, &town.bank.url()))
        .collect();
    ledger.wait_for_arrivals(300).await;
    nodes[0].kill();
    ledger.wait_for_arrivals(500).await;
    nodes[1].signal("-STOP");
    // Past its lease: others take over what it held. Then it wakes, in the middle of it all.
    tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
    nodes[1].signal("-CONT");
    town.all_ended(Duration::from_mins(2)).await;
    town.check(limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lowered_limit_binds_every_node_within_250_ms() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let (high, low) = (200, 50);
    let town = Town::new(high, 1000).await;
    let ledger = town.bank.ledger();
    let _nodes: Vec<_> = (0..3)
        .map(|_| Node::start(&town.url, &town.bank.url()))
        .collect();
    ledger.wait_for_arrivals(500).await;
    town.set_limit(low).await;
    let lowered = ledger.wall_anchor().elapsed().unwrap() + Duration::from_millis(250);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let raised = ledger.wall_anchor().elapsed().unwrap();
    town.set_limit(high).await;
    town.all_ended(Duration::from_mins(2)).await;
    town.check(high);
    let slow: Vec<_> = ledger
        .entries()
        .iter()
        .map(|e| e.arrival)
        .filter(|t| (lowered..raised).contains(t))
        .collect();
    let mut slow = slow;
    slow.sort();
    let worst = tollgate_sandbox::worst_second(&slow);
    println!(
        "while lowered: worst second {} of {low}, {} sends in {:?}",
        worst.count,
        slow.len(),
        raised.saturating_sub(lowered)
    );
    assert!(worst.count <= low as usize, "{worst:?}");
    assert!(slow.len() > 100, "sending went on meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_restarted_at_once_do_not_burst() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let limit = 200;
    let town = Town::new(limit, 1200).await;
    let start = || -> Vec<Node> {
        (0..3)
            .map(|_| Node::start(&town.url, &town.bank.url()))
            .collect()
    };
    let mut nodes = start();
    town.bank.ledger().wait_for_arrivals(500).await;
    for node in &mut nodes {
        node.kill();
    }
    let _again = start();
    town.all_ended(Duration::from_mins(2)).await;
    town.check(limit);
}
