//! One node: claims, takes turns, sends, finishes, until its input ends or it is killed. For each
//! line of its input it says what its wall clock shows.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rust_decimal::Decimal;
use tokio::sync::Semaphore;
use tollgate_core::id::{BatchId, Item, ItemId, LaneName};
use tollgate_core::marker::Marker;
use tollgate_core::ports::{Claim, NewWatch, Profile, Request, StatusMove, Store, Then};
use tollgate_core::storm::Limits;
use tollgate_dispatch::{Gate, GateOptions, Job, Moves, Sender, Sent};
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::town::{LANE, item_type};

/// A claim older than this is another node's to take.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Items are claimed so long before they are due, and held until then.
const AHEAD: Duration = Duration::from_millis(500);
/// A node has at most so many items in hand.
const IN_HAND: usize = 64;

const DATABASE: &str = "TGTEST_NODE_DATABASE";
const BANK: &str = "TGTEST_NODE_BANK";
/// Whether its bank's refusals are counted.
pub(crate) const WATCHED: &str = "TGTEST_NODE_WATCHED";

/// What a node says its wall clock shows, after this word.
const WALL: &str = "wall";

/// A running node process.
pub(crate) struct Node {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Node {
    pub(crate) fn start(database: &str, bank: &str) -> Self {
        Self::start_with(database, bank, &[])
    }

    /// With these variables in its environment.
    pub(crate) fn start_with(database: &str, bank: &str, env: &[(&str, String)]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args(["node::this_process_is_a_node", "--exact", "--nocapture"])
            .env(DATABASE, database)
            .env(BANK, bank)
            .envs(env.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    /// What its wall clock shows.
    pub(crate) fn wall(&mut self) -> SystemTime {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        loop {
            let mut line = String::new();
            let length = self.says.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "the node has ended");
            if let Some(micros) = line.trim().strip_prefix(WALL) {
                let micros = micros.trim().parse().unwrap();
                return SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
            }
        }
    }

    /// No warning, no goodbye.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether this node has claimed with that batch.
    pub(crate) fn claimed(&self, batch: &BatchId) -> bool {
        batch.as_str().starts_with(&batch_prefix(self.pid()))
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn batch_prefix(pid: u32) -> String {
    format!("BATCH-{pid}-")
}

/// Does nothing unless it was started as a node.
#[test]
fn this_process_is_a_node() {
    let (Ok(database), Ok(bank)) = (std::env::var(DATABASE), std::env::var(BANK)) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.spawn(work(database, bank));
    // The parent holds the other end.
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        let since_epoch = wall_clock().duration_since(SystemTime::UNIX_EPOCH);
        println!("{WALL} {}", since_epoch.unwrap().as_micros());
    }
    std::process::exit(0);
}

#[expect(
    clippy::disallowed_methods,
    reason = "what a node must not go by, for the test to see that it is wrong"
)]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

async fn work(database: String, bank: String) {
    let options = PostgresOptions {
        gate_margin: Decimal::new(1, 1),
        connections: 8,
        ..PostgresOptions::at(database)
    };
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(options).await.unwrap());
    let mut sender = sender(&store, bank);
    if std::env::var_os(WATCHED).is_some() {
        sender = sender.watched(store.watch(watch()).await.unwrap());
        // A node has one key for each item.
        sender = sender.forgetting_refusals();
    }
    let sender = Arc::new(sender);
    let hands = Arc::new(Semaphore::new(IN_HAND));
    for batch in 0_u64.. {
        let free = u32::try_from(hands.available_permits()).unwrap();
        let claimed = match free {
            0 => vec![],
            _ => store
                .claim(claim(batch, free.min(16)))
                .await
                .unwrap_or_default(),
        };
        if claimed.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for claimed in claimed {
            let hand = Arc::clone(&hands).acquire_owned().await.unwrap();
            let (store, sender) = (Arc::clone(&store), Arc::clone(&sender));
            tokio::spawn(async move {
                let _hand = hand;
                tokio::time::sleep(claimed.delay).await;
                let item = Item::new(&item_type(), &claimed.id);
                let sent = sender.send(&job(&claimed.id, claimed.run)).await;
                if let Ok(Sent::Done(_)) = sent {
                    // A run that lost the item may have settled it.
                    let from = ["SCHEDULED", "IN_DOUBT", "ACCEPTED"];
                    let paid = StatusMove::new(&from, "PROCESSING");
                    // If this fails the claim goes stale, and its past tells the next node.
                    let _ = store.finish(&item, claimed.run, paid).await;
                }
            });
        }
    }
}

/// Only a streak pauses the lane.
fn watch() -> NewWatch {
    NewWatch {
        lane: LaneName::new(LANE),
        connector: "bank".into(),
        digest: "one".into(),
        limits: Limits {
            canary: 0,
            streak: 20,
        },
    }
}

fn claim(batch: u64, limit: u32) -> Claim {
    Claim {
        item_type: item_type(),
        lane: LaneName::new(LANE),
        batch: BatchId::new(format!("{}{batch}", batch_prefix(std::process::id()))),
        ahead: AHEAD,
        stale_after: LEASE,
        limit,
        credit_horizon: Duration::from_secs(2),
    }
}

fn sender(store: &Arc<dyn Store>, bank: String) -> Sender {
    let options = HttpOptions {
        name: "bank".into(),
        url: bank,
        lane: LaneName::new(LANE),
        profile: Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(1),
            settle: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        },
        max_connections: IN_HAND,
    };
    let connector = Arc::new(HttpConnector::new(options).unwrap());
    let gate = Arc::new(Gate::new(Arc::clone(store), GateOptions::default()));
    Sender::new(Arc::clone(store), gate, connector)
}

fn job(id: &ItemId, run: u32) -> Job {
    let body = format!(
        r#"{{"paymentId":"{id}","amount":"1.00","currency":"EUR","debtor":{{}},"creditor":{{}}}}"#
    );
    Job {
        item: Item::new(&item_type(), id),
        run,
        request: Request {
            reference: id.to_string(),
            idempotency_key: format!("thing-{id}"),
            body_json: body,
            sent_by: None,
        },
        moves: Moves {
            done: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "ACCEPTED"),
            refused: StatusMove::new(&["SCHEDULED"], "REJECTED"),
            in_doubt: StatusMove::new(&["SCHEDULED"], "IN_DOUBT"),
            not_done: StatusMove::new(&["IN_DOUBT"], "SCHEDULED"),
        },
        accounts: vec![],
        refused_then: Then::Finish,
        if_done: None,
    }
}
