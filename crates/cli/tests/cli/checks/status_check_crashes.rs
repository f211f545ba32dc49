//! Kill -9 in each phase of a status check, and resume: from the last finished call, not from the
//! beginning, on both engines.

use std::collections::BTreeMap;

use serde_json::json;
use tollgate_conformance::postgres::shared;
use tollgate_conformance::temporal::TemporalServer;
use tollgate_sandbox::{Bank, BankOptions, Kind, Ledger};

use crate::checks::status_checks::{LONG, ended, shown, started};
use crate::fixture::served::{Setting, eventually};

const GATEWAYS: usize = 3;
const EACH: usize = 12;
const SLOW: &str = "lookups: latency 20ms; notifies: latency 20ms; checks: latency 20ms";

fn payments() -> Vec<String> {
    let of = |n: usize| format!("gateway-{}:{n}", n % GATEWAYS);
    (0..GATEWAYS * EACH).map(of).collect()
}

/// How often each call was made: by kind and first payment.
fn made(ledger: &Ledger) -> BTreeMap<String, usize> {
    let mut made = BTreeMap::new();
    for call in ledger.calls() {
        // One that was cut off before its body came names nobody.
        if let Some(first) = call.payment_ids.first() {
            let name = format!("{:?} {first}", call.kind);
            *made.entry(name).or_default() += 1;
        }
    }
    made
}

/// How many different calls of a kind have begun when the server is killed.
type Kill = (Kind, usize);

/// Kills the server at these moments, each in a life of its own.
fn resumes(setting: &Setting, bank: &Bank, kills: &[Kill]) {
    bank.set_faults(SLOW.parse().unwrap());
    let ledger = bank.ledger();
    let mut server = setting.start("127.0.0.1:0");
    let address = server.address;
    let check = started(address, &payments());
    let mut completed = 0;
    for (kind, count) in kills {
        let name = format!("{kind:?} ");
        eventually("so many calls are made", LONG, || {
            let made = made(ledger);
            let mine = made.keys().filter(|call| call.starts_with(&name));
            (mine.count() >= *count).then_some(())
        });
        server.kill();
        server = setting.start(&address.to_string());
        let told = eventually("it is told", LONG, || shown(address, &check));
        assert_ne!(told["status"], "FAILED", "{told}");
        let now = told["progress"]["chunksCompleted"].as_u64().unwrap();
        assert!(
            now >= completed,
            "progress went back from {completed}: {told}"
        );
        completed = now;
    }
    let told = ended(address, &check);
    assert_eq!(told["status"], "COMPLETED", "{told}");
    let progress = json!({"totalPayments": 36, "gatewaysIdentified": 3, "chunksTotal": 9,
        "chunksCompleted": 9, "chunksFailed": 0, "currentPhase": "COMPLETED"});
    assert_eq!(told["progress"], progress);
    for gateway in 0..GATEWAYS {
        let name = format!("gateway-{gateway}");
        let mine = payments().into_iter();
        let mine: Vec<String> = mine.filter(|id| id.starts_with(&name)).collect();
        assert_eq!(told["result"]["successful"][&name], json!(mine));
    }
    let made = made(ledger);
    let calls = |kind: Kind| {
        let name = format!("{kind:?} ");
        made.iter().filter(move |(call, _)| call.starts_with(&name))
    };
    assert_eq!(calls(Kind::Lookup).count(), GATEWAYS * EACH);
    assert_eq!(calls(Kind::Check).count(), GATEWAYS * EACH);
    // Only what was under way at a kill was done again: a batch of ten, or one call per gateway.
    let again = |kind| calls(kind).map(|(_, times)| times - 1).sum::<usize>();
    assert!(again(Kind::Lookup) <= kills.len() * 10, "{made:?}");
    assert!(
        again(Kind::Notify) + again(Kind::Check) <= kills.len() * GATEWAYS,
        "{made:?}"
    );
    assert_eq!(server.stop(), Some(0));
}

fn bank(runtime: &tokio::runtime::Runtime) -> Bank {
    let _inside = runtime.enter();
    Bank::start(BankOptions::default()).unwrap()
}

#[test]
fn kill_9_in_each_phase_of_a_check_and_it_goes_on_where_it_was() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = bank(&runtime);
    // In the lookups, at their end, in the first chunks, in the last ones.
    let kills = [
        (Kind::Lookup, 5),
        (Kind::Lookup, 31),
        (Kind::Notify, 2),
        (Kind::Check, 20),
    ];
    resumes(&Setting::new(&bank, ""), &bank, &kills);
}

#[test]
fn kill_9_in_each_phase_of_a_check_on_temporal_and_it_goes_on_where_it_was() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = bank(&runtime);
    let temporal = TemporalServer::start();
    let database = runtime.block_on(shared().database());
    let engine = format!("engine.url = \"{}\"\n", temporal.url());
    let setting = Setting::on(&database, &bank, &engine);
    // Each costs the lease of what was under way.
    resumes(&setting, &bank, &[(Kind::Lookup, 15), (Kind::Check, 10)]);
}
