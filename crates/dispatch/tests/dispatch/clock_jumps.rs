//! The store's clock is stepped under the gates of two nodes: what was reserved before is not
//! used, a second of quiet follows, and no second holds more sends than the limit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Claim, Connection, ExchangeResult, Missed, Permit, Request, Store};
use tollgate_dispatch::{Ask, Gate, GateOptions, NoTurn};

use crate::town::{Town, item, item_type};

const LIMIT: u32 = 40;
/// The second of quiet, less what a busy machine may take to note the time of a send.
const QUIET: Duration = Duration::from_millis(950);

/// When a send went out, by the node's clock and by its turn, and from which node.
type Send = (Instant, Timestamp, usize);

struct Nodes {
    town: Town,
    gates: [Arc<Gate>; 2],
    sends: JoinSet<Send>,
}

impl Nodes {
    async fn new(items: usize) -> Self {
        let town = Town::new(LIMIT).await;
        town.lane("other", LIMIT).await;
        town.admit("a", "default", items).await;
        town.admit("b", "other", 1).await;
        for lane in ["default", "other"] {
            claim_all(&town, lane).await;
        }
        let gate = || Arc::new(Gate::new(town.store.clone(), GateOptions::default()));
        Self {
            gates: [gate(), gate()],
            town,
            sends: JoinSet::new(),
        }
    }

    fn ask(&mut self, node: usize, id: &str, lane: &str) {
        let gate = Arc::clone(&self.gates[node]);
        let ask = Ask {
            watch: None,
            lane: LaneName::new(lane),
            item: item(id),
            run: 1,
            kind: AttemptKind::Send,
            key: id.to_owned(),
            planned: Timestamp::UNIX_EPOCH,
            due: Timestamp::UNIX_EPOCH,
            seen: None,
            may_be_late: false,
        };
        let store = Arc::clone(&self.town.store);
        self.sends.spawn(async move {
            let permit = turn(&gate, &*store, ask).await;
            (Instant::now(), permit.turn_at(), node)
        });
    }

    async fn sent(&mut self, count: usize) -> Vec<Send> {
        let mut sent = vec![];
        while sent.len() < count {
            sent.push(self.sends.join_next().await.unwrap().unwrap());
        }
        sent
    }
}

/// Nothing is sent here.
pub(crate) struct Unconnected;

#[async_trait]
impl Connection for Unconnected {
    async fn send(self: Box<Self>, _: Permit, _: &Request) -> Result<ExchangeResult, Missed> {
        unreachable!("only turns are taken")
    }
    async fn probe(self: Box<Self>, _: Permit, _: &Request) -> Result<ExchangeResult, Missed> {
        unreachable!("only turns are taken")
    }
}

/// A new era puts back what a clock that was ahead had claimed: it is claimed again, as a dispatcher
/// would.
async fn turn(gate: &Gate, store: &dyn Store, mut ask: Ask) -> Permit {
    loop {
        let turn = gate.turn(ask.clone(), &mut Unconnected).await;
        match turn.map_err(|refusal| refusal.why) {
            Ok(permit) => return permit,
            Err(NoTurn::NotYours(_)) => {}
            Err(other) => panic!("{}: {other}", ask.item),
        }
        store.claim(all_of(&ask.lane)).await.unwrap();
        ask.run = store.item(&ask.item).await.unwrap().unwrap().run;
    }
}

fn all_of(lane: &LaneName) -> Claim {
    Claim {
        item_type: item_type(),
        lane: lane.clone(),
        batch: BatchId::new("BATCH-1"),
        ahead: Duration::from_hours(1),
        stale_after: Duration::from_hours(10),
        limit: 1000,
        credit_horizon: Duration::from_hours(1),
    }
}

async fn claim_all(town: &Town, lane: &str) {
    let claim = all_of(&LaneName::new(lane));
    assert!(!town.store.claim(claim).await.unwrap().is_empty());
}

/// The most sends within a second, by the nodes' clock.
fn worst_second(sends: &[Send]) -> usize {
    let within = |from: Instant| {
        let in_it = |(at, ..): &&Send| *at >= from && *at - from < Duration::from_secs(1);
        sends.iter().filter(in_it).count()
    };
    sends.iter().map(|(at, ..)| within(*at)).max().unwrap_or(0)
}

fn longest_gap(sends: &[Send], node: usize) -> Duration {
    let own: Vec<_> = sends.iter().filter(|send| send.2 == node).collect();
    let gaps = own.windows(2).map(|pair| pair[1].0 - pair[0].0);
    gaps.max().unwrap_or_default()
}

/// A busy lane on both nodes, and a step in the middle of it. All sends, in their order.
async fn through_a_step(step: impl FnOnce(&Town)) -> Vec<Send> {
    let mut nodes = Nodes::new(80).await;
    for n in 0..80 {
        nodes.ask(n % 2, &format!("a{n}"), "default");
    }
    let mut sends = nodes.sent(20).await;
    step(&nodes.town);
    sends.extend(nodes.sent(60).await);
    sends.sort();
    let worst = worst_second(&sends);
    assert!(worst <= LIMIT as usize, "{worst} sends in a second");
    for node in 0..2 {
        let gap = longest_gap(&sends, node);
        assert!(gap >= QUIET, "only {gap:?} of quiet on node {node}");
    }
    sends
}

/// No turn was given twice, and none before another that was given earlier.
fn turns_only_go_on(sends: &[Send]) -> bool {
    sends.windows(2).all(|pair| pair[0].1 < pair[1].1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_by_an_hour() {
    let sends = through_a_step(|town| town.time.advance(Duration::from_hours(1))).await;
    assert!(turns_only_go_on(&sends));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_forward_by_less_than_the_horizon() {
    let sends = through_a_step(|town| town.time.advance(Duration::from_millis(200))).await;
    assert!(turns_only_go_on(&sends));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_never_moves_the_cursor_back() {
    let sends = through_a_step(|town| town.time.turn_back(Duration::from_secs(2))).await;
    assert!(turns_only_go_on(&sends));
}

/// Waiting for the clock to come back to the cursor would stop the lane for an hour. Its turns
/// then belong to a time that was there before; no real second holds more for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_back_by_an_hour_does_not_stop_the_lane() {
    through_a_step(|town| town.time.turn_back(Duration::from_hours(1))).await;
}

/// A lane with one send in two seconds reserves far ahead; the node that holds the turn has
/// nobody waiting, and sees the jump all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_far_ahead_is_dropped_though_nobody_waits_behind_it() {
    let mut nodes = Nodes::new(3).await;
    let slow = LaneChange {
        max_per_second: Some("0.5".parse().unwrap()),
        ..LaneChange::default()
    };
    nodes.town.change("default", slow).await;
    // The other node has seen the clock before it jumps.
    nodes.ask(1, "b0", "other");
    nodes.sent(1).await;
    nodes.ask(0, "a0", "default");
    let mut sends = nodes.sent(1).await;
    nodes.ask(0, "a1", "default");
    eventually_open(&nodes.town, "a1").await;
    nodes.town.time.advance(Duration::from_hours(1));
    nodes.ask(1, "a2", "default");
    sends.extend(nodes.sent(2).await);
    sends.sort();
    assert_eq!(worst_second(&sends), 1, "{sends:?}");
}

/// Until the item has its turn.
async fn eventually_open(town: &Town, id: &str) {
    let open = async {
        while town.item(id).await.attempts.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), open)
        .await
        .expect("no turn was given");
}
