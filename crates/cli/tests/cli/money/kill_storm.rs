//! Kill -9 after a seeded k-th arrival at the bank, restart, again and again. The judge is the
//! bank's own ledger: lost 0, doubled 0, worst second within the limit.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tollgate_conformance::postgres::Cluster;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::served::{Setting, eventually};

struct Size {
    rounds: u32,
    payments: u32,
    per_second: u32,
    seed: u64,
}

impl Size {
    /// `./dev soak` makes it larger; every run says its seed.
    fn from_environment(rounds: u32) -> Self {
        let read = |name: &str| {
            std::env::var(name)
                .ok()
                .and_then(|value| value.parse::<u32>().ok())
        };
        let size = Self {
            rounds: read("TGTEST_STORM_ROUNDS").unwrap_or(rounds),
            payments: read("TGTEST_STORM_PAYMENTS").unwrap_or(500),
            per_second: read("TGTEST_STORM_PER_SECOND").unwrap_or(200),
            seed: u64::from(read("TGTEST_SEED").unwrap_or(20_261_115)),
        };
        println!(
            "seed {}, {} rounds of {} payments",
            size.seed, size.rounds, size.payments
        );
        size
    }
}

#[test]
fn kill_9_at_any_arrival_loses_and_doubles_nothing() {
    storm(&Size::from_environment(10), true, Setting::new);
}

#[test]
fn kill_9_with_a_bank_that_forgets_keys_still_pays_each_once() {
    storm(&Size::from_environment(4), false, Setting::new);
}

#[test]
fn kill_9_at_any_arrival_loses_and_doubles_nothing_on_postgresql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = Cluster::start();
    let url = runtime.block_on(cluster.database());
    storm(&Size::from_environment(6), true, |bank, extra| {
        Setting::on(&url, bank, extra)
    });
}

/// Storms that measure their rate run alone: two cores are not many. The storms here only have a limit that they must
/// not exceed, and run side by side.
pub(crate) static MEASURED_ALONE: RwLock<()> = RwLock::new(());

fn storm(size: &Size, honours_keys: bool, on_store: impl FnOnce(&Bank, &str) -> Setting) {
    let _turn = MEASURED_ALONE
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let options = BankOptions {
        limit_per_second: Some(size.per_second),
        honours_keys,
        ..BankOptions::default()
    };
    let bank = Bank::start(options).unwrap();
    let extra = format!(
        "gate.margin = 0.1\n\
         downstream.payments.honours_idempotency_key = {honours_keys}\n\
         sweep.interval_secs = 1\n"
    );
    let setting = on_store(&bank, &extra);
    let mut random = SmallRng::seed_from_u64(size.seed);
    let ledger = bank.ledger();
    let mut killed_in_the_middle = 0;

    for round in 0..size.rounds {
        let server = setting.start("127.0.0.1:0");
        let address = server.address;
        if round == 0 {
            set_limit(address, size.per_second);
        }
        let before = ledger.arrivals();
        let kill_at = before + random.random_range(1..=size.payments as usize);
        let posted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| post_all(address, round, size.payments, &posted));
            }
            runtime.block_on(ledger.wait_for_arrivals(kill_at));
            server.kill();
            let landed = ledger.arrivals() - before;
            println!(
                "round {round}: killed at arrival {kill_at}, {landed} of {} had arrived",
                size.payments
            );
            killed_in_the_middle += u32::from(landed < size.payments as usize);
            let again = setting.start(&address.to_string());
            let total = u64::from(round + 1) * u64::from(size.payments);
            eventually("all payments end", Duration::from_mins(2), || {
                (ended(address)? == total).then_some(())
            });
            assert_eq!(again.stop(), Some(0), "a graceful stop is no failure");
        });
        check(&bank, size, round);
    }
    assert!(
        killed_in_the_middle * 2 >= size.rounds,
        "most kills must strike in the middle"
    );
    runtime.block_on(bank.stop());
}

fn set_limit(address: SocketAddr, per_second: u32) {
    let limit = json!({"configName": "default", "maxPerWindow": per_second * 4, "windowSizeSecs": 4,
                       "maxPerSecond": per_second, "reason": "kill storm"});
    assert_eq!(
        post(address, "/admin/rate-limit/config", &limit)
            .unwrap()
            .status,
        200
    );
}

/// Clients do what clients must: they try again until they are told that it was accepted.
fn post_all(address: SocketAddr, round: u32, payments: u32, posted: &AtomicU32) {
    loop {
        let number = posted.fetch_add(1, Ordering::SeqCst);
        if number >= payments {
            return;
        }
        let payment = payment(round, number);
        eventually("a payment is accepted", Duration::from_mins(1), || {
            let answer = post(address, "/payments", &payment).ok()?;
            match answer.status {
                200 | 201 => Some(()),
                202 | 503 => None,
                other => panic!("{other}: {}", answer.body),
            }
        });
    }
}

fn payment(round: u32, number: u32) -> Value {
    json!({"paymentId": format!("r{round}-{number}"), "amount": format!("{}.25", number + 1), "currency": "EUR",
           "debtor": {"account": "A", "name": "Ann"}, "creditor": {"account": "B", "name": "Bob"}})
}

fn ended(address: SocketAddr) -> Option<u64> {
    let totals = get(address, "/admin/totals")
        .ok()
        .filter(|answer| answer.status == 200)?;
    let buckets = totals.body["payments"].as_array()?.iter();
    Some(
        buckets
            .filter(|b| b["status"] == "PROCESSING")
            .filter_map(|b| b["count"].as_u64())
            .sum(),
    )
}

/// Every posted payment took effect exactly once, and no second was above the limit.
fn check(bank: &Bank, size: &Size, round: u32) {
    let ledger = bank.ledger();
    let effective = ledger.effective();
    let expected: BTreeSet<String> = (0..=round)
        .flat_map(|round| (0..size.payments).map(move |number| format!("r{round}-{number}")))
        .collect();
    let lost: Vec<_> = expected
        .iter()
        .filter(|id| !effective.contains_key(*id))
        .collect();
    assert!(lost.is_empty(), "MONEY: lost: {lost:?}");
    assert_eq!(effective.len(), expected.len(), "payments nobody made");
    assert!(
        ledger.doubles().is_empty(),
        "MONEY: paid twice: {:?}",
        ledger.doubles()
    );
    let (worst, limit) = (ledger.worst_second(), size.per_second as usize);
    println!("round {round}: worst second {} of {limit}", worst.count);
    assert!(worst.count <= limit, "{worst:?}");
}
