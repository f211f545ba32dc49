//! The matrix: every fault of the bank, at every edge where the sender can die, with keys
//! honoured and not. The second life dies too, somewhere by the seed. On PostgreSQL a sample of it,
//! with a store that fails at the settlement now and then.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_conformance::postgres as cluster;
use tollgate_core::ports::Profile;
use tollgate_sandbox::Dialect;

use crate::cutting::{Edge, SURE};
use crate::money::{Street, promises};
use crate::town::Town;

/// About as many waits as a life has: it is cut at each, and sometimes it has ended before.
const WAITS: usize = 10;
/// So many of the edges are tried on PostgreSQL, for each fault.
const SAMPLE: usize = 5;
/// Another one tries other second lives and another sample.
const SEED: &str = "TGTEST_SEED";
const DEFAULT_SEED: usize = 5;

/// What strikes each payment's first sends, and what its first probes.
const FAULTS: [&str; 25] = [
    "",
    "all: latency 20ms",
    "send 1 of each payment: 500 before",
    "send 1 of each payment: 500 after",
    "send 1 of each payment: reset before",
    "send 1 of each payment: reset after",
    "send 1 of each payment: stall before",
    "send 1 of each payment: stall after",
    "send 1 of each payment: half after",
    "send 1 of each payment: garbage after",
    "send 1 of each payment: wrong-id after",
    "send 1 of each payment: wrong-id before",
    "send 1 of each payment: huge 2 after",
    "send 1 of each payment: 429",
    "send 1 of each payment: 429 retry-after 1",
    "send 1 of each payment: 401",
    "send 1 of each payment: stranger 404 before",
    "send 1 of each payment: stranger 404 after",
    "send 1 of each payment: reset after; probe 1 of each payment: stranger 404; send 2 of each payment: stranger 410",
    "send 1 of each payment: reset after; send 2 of each payment: 409",
    DENIES,
    "send 1 of each payment: reset after; probe 1 of each payment: reset; send 2 of each payment: 429",
    "send 1 of each payment: reset after; probe 1 of each payment: 401",
    SLOW,
    FORGETS,
];

/// It has done the work, and does not know of it when it is asked at once.
const DENIES: &str = "send 1 of each payment: reset after; sends: settle 300ms";
/// It works on when nobody waits any more, and then it takes a while until it knows.
const SLOW: &str = "send 1 of each payment: work 200ms; send 1 of each payment: settle 200ms";
const SLOW_SETTLES: Duration = Duration::from_secs(1);
/// It promises to remember keys for a second, and so it does. The second life comes later.
const FORGETS: &str = "send 1 of each payment: reset after; sends: forget-key 1200ms";
const REMEMBERS: Duration = Duration::from_secs(1);

fn profile(faults: &str, honours_keys: bool) -> Profile {
    let mut profile = promises(honours_keys);
    match faults {
        SLOW | DENIES => profile.settle = SLOW_SETTLES,
        FORGETS => profile.key_retention = REMEMBERS,
        _ => {}
    }
    profile
}

fn edges() -> Vec<Edge> {
    let edges = SURE.into_iter().chain((0..WAITS).map(Edge::Wait));
    edges.chain([Edge::Never]).collect()
}

fn seed() -> usize {
    let set = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(DEFAULT_SEED)
}

/// Spreads the seed over the cases; any other scattering would do.
fn pick(seed: usize, case: usize, of: usize) -> usize {
    (seed.wrapping_mul(31) ^ case.wrapping_mul(2_654_435_761)) % of
}

async fn every_edge(street: Street, faults: &'static str, first: Vec<Edge>, seed: usize) {
    let keys = street.profile.honours_idempotency_key;
    for (n, edge) in first.into_iter().enumerate() {
        let (prefix, all) = (format!("c{n}-"), edges());
        let second = all[pick(seed, n + faults.len(), all.len())];
        street.town.admit(&prefix, "default", 1).await;
        let id = format!("{prefix}0");
        let case =
            format!("\"{faults}\", keys honoured: {keys}, {edge:?}, {second:?}, {SEED}={seed}");
        let was_cut = street.dies(&id, edge).await;
        assert!(was_cut || !SURE.contains(&edge), "{case}: not cut");
        if faults == FORGETS {
            tokio::time::sleep(REMEMBERS).await;
        }
        street.pay(&id, second).await;
        street.repeat(&id).await;
        let wrong = street.check(&id).await;
        assert_eq!(wrong, Vec::<String>::new(), "{case}");
        let status = street.town.item(&id).await.status;
        assert_ne!(status, "IN_DOUBT", "{case}: the bank has recovered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_the_bank_does_and_wherever_the_sender_dies_a_payment_is_paid_once() {
    let seed = seed();
    println!("{SEED}={seed}");
    let mut streets = JoinSet::new();
    for faults in FAULTS {
        for keys in [true, false] {
            let street = Street::of(Town::new(2000).await, faults, profile(faults, keys));
            streets.spawn(every_edge(street, faults, edges(), seed));
        }
    }
    streets.join_all().await;
}

/// Without its keys PayPal still refuses a batch that it knows: a repeat is safe, and its duplicate is evidence. It cannot
/// be asked, so that a payment whose key may be forgotten waits for a person.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn through_the_descriptions_of_stripe_and_paypal_a_payment_is_paid_once_as_well() {
    let seed = seed();
    println!("{SEED}={seed}");
    let mut streets = JoinSet::new();
    for (n, faults) in FAULTS.into_iter().enumerate() {
        for (speaks, keys) in [
            (Dialect::Stripe, true),
            (Dialect::Stripe, false),
            (Dialect::Paypal, true),
            (Dialect::Paypal, false),
        ] {
            if speaks == Dialect::Paypal && faults == FORGETS {
                continue;
            }
            let promised = keys || speaks == Dialect::Paypal;
            let (town, profile) = (Town::new(2000).await, profile(faults, promised));
            let street = Street::speaking(speaks, keys, town, faults, profile);
            let all = edges();
            let wait = all[SURE.len() + pick(seed, n, all.len() - SURE.len())];
            let some = SURE.into_iter().chain([wait]).collect();
            streets.spawn(every_edge(street, faults, some, seed));
        }
    }
    streets.join_all().await;
}

/// Two of three settlements fail, as if the server were shutting down. A sequence counts them, since
/// it is not rolled back.
const FAILING_SETTLEMENTS: &str = "CREATE SEQUENCE settlements;
    CREATE FUNCTION fail_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('settlements') % 3 <> 0 THEN
            RAISE EXCEPTION 'scripted' USING ERRCODE = '57P01';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER fail_sometimes BEFORE UPDATE ON attempt FOR EACH ROW
    WHEN (OLD.state = 'OPEN' AND NEW.state <> 'OPEN') EXECUTE FUNCTION fail_sometimes()";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sample_of_it_on_postgres_with_settlements_that_fail() {
    let seed = seed();
    println!("{SEED}={seed}");
    let mut streets = JoinSet::new();
    for (n, faults) in FAULTS.into_iter().enumerate() {
        let url = cluster::shared().database().await;
        let town = Town::on_postgres(&url, 2000).await;
        if n % 2 == 0 {
            cluster::sql(&url, FAILING_SETTLEMENTS).await;
        }
        let keys = pick(seed, n, 2) == 0;
        let street = Street::of(town, faults, profile(faults, keys));
        let all = edges();
        let from = pick(seed, n, all.len());
        let some = all.iter().cycle().skip(from).step_by(4).take(SAMPLE);
        streets.spawn(every_edge(street, faults, some.copied().collect(), seed));
    }
    streets.join_all().await;
}
