//! Three processes, one Temporal, one PostgreSQL, and everything goes wrong once, with a bank that
//! honours no keys. The judges are its ledger: lost 0, doubled 0, worst second within the limit; and a table that the test has
//! the database write: every move is published, in its order, and no other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rust_decimal::Decimal;
use serde_json::json;
use tollgate_conformance::postgres::{Cluster, count};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{Author, SettingKind, Settings};
use tollgate_domains::payments;
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::database::database_trouble::posted;
use crate::fixture::http::post;
use crate::fixture::kafka::Kafka;
use crate::fixture::served::{Served, Setting, eventually};
use crate::topics::events::{events, is_published, judge_events, keep_moves};

/// The development server does 31 to 39 flows a second: the limit must bind.
const LIMIT: u32 = 10;
const CLIENTS: usize = 4;
/// Answers take so long that a kill strikes some that are awaited.
const FAULTS: &str = "sends: latency 300ms";
/// Longer than a step's lease: what the stopped process had in hand is given to others.
const STOPPED_FOR: Duration = Duration::from_secs(13);

/// `./dev soak` makes it larger.
fn payments_in_all() -> u32 {
    let given = std::env::var("TGTEST_TEMPORAL_PAYMENTS").ok();
    given.map_or(400, |given| given.parse().unwrap())
}

/// Short leases: what a dead process has claimed is claimed again after six seconds.
async fn shorten_leases(database: &str) {
    let store = PostgresStore::open(PostgresOptions::at(database));
    let config = ItemTypeConfig {
        stale_claim_threshold_mins: Decimal::new(1, 1),
        dispatch_interval_secs: 2,
        ..payments::default_config()
    };
    let (name, body) = (
        payments::item_type(),
        serde_json::to_string(&config).unwrap(),
    );
    let author = Author::new("test", "short leases");
    let store = store.await.unwrap();
    let put = store.put_setting(SettingKind::ItemType, name.as_str(), body, author);
    put.await.unwrap();
}

fn bank() -> Bank {
    let options = BankOptions {
        limit_per_second: Some(LIMIT),
        honours_keys: false,
        faults: FAULTS.parse().unwrap(),
        ..BankOptions::default()
    };
    Bank::start(options).unwrap()
}

/// Clients do what clients must: they try again until they are told that it was accepted.
fn post_all(address: SocketAddr, total: u32, next: &AtomicU32) {
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if number >= total {
            return;
        }
        let id = format!("pay-{number}");
        eventually("a payment is accepted", Duration::from_mins(2), || {
            matches!(posted(address, &id), 200 | 201).then_some(())
        });
    }
}

#[test]
fn three_processes_on_temporal_through_every_outage_pay_each_once_and_never_too_fast() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let total = payments_in_all();
    let (cluster, temporal) = (Cluster::start(), TemporalServer::start());
    let database = runtime.block_on(cluster.database());
    runtime.block_on(shorten_leases(&database));
    let bank = bank();
    let mut kafka = Kafka::start();
    kafka.create(&["events"]);
    let (url, events) = (temporal.url(), events(&kafka));
    let extra = format!(
        "engine.url = \"{url}\"\ngate.margin = 0.1\nsweep.interval_secs = 1\n\
         downstream.payments.honours_idempotency_key = false\n{events}"
    );
    let settings: Vec<_> = (0..3)
        .map(|_| Setting::on(&database, &bank, &extra))
        .collect();
    let mut nodes: Vec<Served> = settings.iter().map(|s| s.start("127.0.0.1:0")).collect();
    keep_moves(&runtime, &database);
    let (killed, stopped) = (nodes.remove(0), nodes.remove(0));
    let address = nodes[0].address;
    let limit = json!({"configName": "default", "maxPerWindow": LIMIT * 4, "windowSizeSecs": 4,
                       "maxPerSecond": LIMIT, "reason": "storm"});
    let answer = post(address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);

    let ledger = bank.ledger();
    let arrivals = |share: u32| {
        let wanted = (total * share / 100) as usize;
        let waiting =
            tokio::time::timeout(Duration::from_mins(2), ledger.wait_for_arrivals(wanted));
        runtime
            .block_on(waiting)
            .unwrap_or_else(|_| panic!("no {wanted} arrivals"));
        println!("{} arrivals", ledger.arrivals());
    };
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| post_all(address, total, &next));
        }
        arrivals(10);
        stopped.signal("-STOP");
        std::thread::sleep(STOPPED_FOR);
        println!("one process was stopped past its lease");
        // It sends what the stopped one had at its gate, and dies before some of the answers.
        killed.kill();
        println!("one process was killed");
        arrivals(35);
        stopped.signal("-CONT");
        println!("the stopped one goes on");
        arrivals(50);
        cluster.crash_and_restart();
        println!("PostgreSQL was restarted");
        arrivals(70);
        temporal.crash();
        temporal.start_again();
        println!("Temporal was restarted");
    });
    let unfinished = "SELECT count(*) FROM item_queue WHERE finished_at IS NULL";
    eventually("all payments end", Duration::from_mins(3), || {
        (runtime.block_on(count(&database, unfinished)) == 0).then_some(())
    });

    check(&bank, total);
    let dead = "SELECT count(*) FROM item_queue WHERE queue_status = 'DEAD'";
    assert_eq!(runtime.block_on(count(&database, dead)), 0);
    is_published(address);
    judge_events(&runtime, &database, &mut kafka);
    assert_eq!(stopped.stop(), Some(0));
    assert_eq!(nodes.remove(0).stop(), Some(0));
}

/// Each took effect once, and no second was above the limit, by the bank's ledger.
fn check(bank: &Bank, total: u32) {
    let ledger = bank.ledger();
    let effective = ledger.effective();
    let lost: Vec<_> = (0..total)
        .map(|number| format!("pay-{number}"))
        .filter(|id| !effective.contains_key(id))
        .collect();
    let worst = ledger.worst_second();
    println!(
        "worst second {} of {LIMIT}, {} arrivals",
        worst.count,
        ledger.arrivals()
    );
    assert_eq!(lost, Vec::<String>::new(), "MONEY: lost");
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    assert!(worst.count <= LIMIT as usize, "{worst:?}");
}
