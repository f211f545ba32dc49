//! A process that is stopped (SIGSTOP) with payments at its gate, and wakes up when others have taken
//! the store over, sent them and been killed before the answers. The bank honours no keys, so every
//! send is a payment. The judge is its ledger: nothing lost, nothing paid twice.

use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tollgate_conformance::postgres::{Cluster, count};
use tollgate_sandbox::{Bank, BankOptions, Ledger};

use crate::database::database_trouble::posted;
use crate::fixture::http::post;
use crate::fixture::served::{Served, Setting, eventually};
use crate::money::kill_storm::MEASURED_ALONE;

const LIMIT: u32 = 100;
/// Enough to keep the gate full for as long as a round takes.
const PAYMENTS: u32 = 300;
/// Answers take so long that a kill always strikes some that are awaited.
const FAULTS: &str = "sends: latency 300ms";

/// `./dev soak` makes it larger; every run says its seed.
fn read(name: &str, otherwise: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

#[test]
fn a_process_that_wakes_up_after_takeovers_pays_nothing_twice() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let (rounds, seed) = (
        read("TGTEST_WOKEN_ROUNDS", 2),
        read("TGTEST_SEED", 20_261_117),
    );
    println!("seed {seed}, {rounds} rounds of {PAYMENTS} payments");
    let mut random = SmallRng::seed_from_u64(u64::from(seed));
    let cluster = Cluster::start();
    let database = runtime.block_on(cluster.database());
    let bank = Bank::start(BankOptions {
        honours_keys: false,
        faults: FAULTS.parse().unwrap(),
        ..BankOptions::default()
    })
    .unwrap();
    let extra = "downstream.payments.honours_idempotency_key = false\nsweep.interval_secs = 1\n";
    let setting = Setting::on(&database, &bank, extra);
    let ledger = bank.ledger();
    let arrivals = |more: usize| {
        let waiting = ledger.wait_for_arrivals(ledger.arrivals() + more);
        let waited = tokio::time::timeout(Duration::from_mins(1), waiting);
        runtime.block_on(waited).expect("nothing arrives");
    };

    let mut node = setting.start("127.0.0.1:0");
    set_limit(node.address);
    for round in 0..rounds {
        act(node.address, "pause");
        post_all(node.address, round);
        act(node.address, "resume");
        arrivals(random.random_range(1..40));
        let asleep = node;
        asleep.signal("-STOP");
        let second = setting.start("127.0.0.1:0");
        arrivals(random.random_range(1..60));
        second.kill();
        node = setting.start("127.0.0.1:0");
        if random.random_bool(0.5) {
            arrivals(random.random_range(1..60));
        }
        wake(asleep);
        let unfinished = "SELECT count(*) FROM item_queue WHERE finished_at IS NULL";
        eventually("all payments end", Duration::from_mins(2), || {
            assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
            (runtime.block_on(count(&database, unfinished)) == 0).then_some(())
        });
        check(ledger, round + 1);
    }
    assert_eq!(node.stop(), Some(0));
    runtime.block_on(bank.stop());
}

/// It finds out that it was taken over from, says so and ends.
fn wake(asleep: Served) {
    asleep.signal("-CONT");
    let (code, log) = asleep.ended();
    let said = |line: &String| line.contains("another process took over this store");
    assert!(code == Some(1) && log.iter().any(said), "{code:?} {log:#?}");
}

fn set_limit(address: SocketAddr) {
    let limit = json!({"configName": "default", "maxPerWindow": LIMIT * 4, "windowSizeSecs": 4,
                       "maxPerSecond": LIMIT, "reason": "takeovers"});
    let answer = post(address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// The lane is paused while payments are posted: they are all due when it opens.
pub(crate) fn act(address: SocketAddr, act: &str) {
    let path = format!("/admin/lanes/default/{act}");
    let answer = post(address, &path, &json!({"reason": "takeovers"})).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn post_all(address: SocketAddr, round: u32) {
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                for number in (client..PAYMENTS).step_by(4) {
                    let id = format!("r{round}-{number}");
                    eventually("a payment is accepted", Duration::from_mins(1), || {
                        matches!(posted(address, &id), 200 | 201).then_some(())
                    });
                }
            });
        }
    });
}

fn check(ledger: &Ledger, rounds: u32) {
    let effective = ledger.effective();
    let of_round = |round| (0..PAYMENTS).map(move |number| format!("r{round}-{number}"));
    let expected = (0..rounds).flat_map(of_round);
    let lost: Vec<String> = expected.filter(|id| !effective.contains_key(id)).collect();
    assert_eq!(lost, Vec::<String>::new(), "MONEY: lost");
}
