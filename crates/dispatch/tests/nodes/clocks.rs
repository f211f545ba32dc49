//! Clocks that are wrong: the nodes' own, which decide nothing, and the database's, which steps
//! under them.

use std::time::{Duration, SystemTime};

use tollgate_conformance::postgres::sql;
use tollgate_conformance::wrong_clock::WrongClock;

use crate::node::Node;
use crate::storm::ONE_AT_A_TIME;
use crate::town::Town;

const LIMIT: u32 = 200;
const HOUR: f64 = 3600.0;

/// How far a node's wall clock is ahead of ours, in seconds.
fn ahead(node: &mut Node) -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's own clock, to compare a node's with"
    )]
    let ours = SystemTime::now();
    match node.wall().duration_since(ours) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    }
}

fn is_off_by(node: &mut Node, secs: f64) {
    let ahead = ahead(node);
    assert!((ahead - secs).abs() < 1.0, "off by {ahead} s, not {secs} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_and_jumping_wall_clocks_of_nodes_change_nothing() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let town = Town::due_in(LIMIT, 600, Duration::from_secs(2)).await;
    let clocks = ["+5s", "-1h", "-5s"].map(WrongClock::off_by);
    let mut nodes = clocks
        .each_ref()
        .map(|clock| Node::start_with(&town.url, &town.bank.url(), &clock.env()));
    for (node, secs) in nodes.iter_mut().zip([5.0, -HOUR, -5.0]) {
        is_off_by(node, secs);
    }
    for (arrivals, offset, secs) in [
        (100, "+1h", HOUR),
        (200, "-1h", -HOUR),
        (300, "+5s", 5.0),
        (400, "-5s", -5.0),
    ] {
        town.arrivals(arrivals).await;
        clocks[2].jump_to(offset);
        is_off_by(&mut nodes[2], secs);
    }
    town.all_ended(Duration::from_mins(1)).await;
    town.check(LIMIT);
    town.check_nothing_was_early();
}

/// Lets the database's clock be stepped for all its sessions at once.
async fn make_steppable(town: &Town) {
    let steppable = "CREATE TABLE stepped (us bigint);
        INSERT INTO stepped VALUES (0);
        CREATE OR REPLACE FUNCTION tg_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                 + (SELECT us FROM stepped)
        $$";
    sql(&town.url, steppable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_the_database_clock_lose_nothing_double_nothing_and_exceed_nothing() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let town = Town::new(LIMIT, 1200).await;
    make_steppable(&town).await;
    let _nodes = [(); 3].map(|()| Node::start(&town.url, &town.bank.url()));
    // The first is longer than a lease: what one node has claimed, others take over.
    let steps = [(200, 3_600_000), (500, 200), (800, -2000)];
    for (arrivals, step_ms) in steps {
        town.arrivals(arrivals).await;
        let step = format!("UPDATE stepped SET us = us + {step_ms}::bigint * 1000");
        sql(&town.url, &step).await;
    }
    town.all_ended(Duration::from_mins(3)).await;
    town.check(LIMIT);
}
