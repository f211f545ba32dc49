//! PostgreSQL goes away under a running server and comes back: the process stays up, clients are
//! told to come back, nothing is acknowledged that is not committed, and the rate returns.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::Cluster;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::served::{Setting, eventually};

const LIMIT: u32 = 100;

pub(crate) fn payment(id: &str) -> Value {
    json!({"paymentId": id, "amount": "1.00", "currency": "EUR",
           "debtor": {"account": "A", "name": "Ann"}, "creditor": {"account": "B", "name": "Bob"}})
}

/// The status of one post, or 0 without an answer.
pub(crate) fn posted(address: SocketAddr, id: &str) -> u16 {
    post(address, "/payments", &payment(id)).map_or(0, |answer| answer.status)
}

#[test]
fn a_database_that_goes_away_and_comes_back_loses_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let cluster = Cluster::start();
    let bank = Bank::start(BankOptions {
        limit_per_second: Some(LIMIT),
        ..BankOptions::default()
    })
    .unwrap();
    let url = runtime.block_on(cluster.database());
    let setting = Setting::on(&url, &bank, "gate.margin = 0.1\n");
    let server = setting.start("127.0.0.1:0");
    let address = server.address;
    let limit = json!({"configName": "default", "maxPerWindow": LIMIT * 4, "windowSizeSecs": 4, "maxPerSecond": LIMIT});
    assert_eq!(
        post(address, "/admin/rate-limit/config", &limit)
            .unwrap()
            .status,
        200
    );

    let mut accepted: Vec<String> = (0..300).map(|n| format!("before-{n}")).collect();
    for id in &accepted {
        assert_eq!(posted(address, id), 201, "{id}");
    }
    runtime.block_on(bank.ledger().wait_for_arrivals(100));
    cluster.crash();
    let answer = post(address, "/payments", &payment("during")).unwrap();
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.head.contains("retry-after"), "{}", answer.head);
    assert_eq!(
        get(address, "/health/live").unwrap().status,
        200,
        "the process stays up"
    );
    let ready = get(address, "/health/ready").unwrap();
    assert_eq!(ready.status, 503);
    let error = ready.body["error"].as_str().unwrap();
    assert!(error.starts_with("the store cannot be reached"), "{error}");

    cluster.start_again();
    eventually("it is ready again", Duration::from_secs(30), || {
        (get(address, "/health/ready").ok()?.status == 200).then_some(())
    });
    // What was refused is accepted when it comes again.
    eventually(
        "a payment is accepted again",
        Duration::from_secs(30),
        || matches!(posted(address, "during"), 200 | 201).then_some(()),
    );
    accepted.push("during".into());
    eventually(
        "all that was accepted has landed",
        Duration::from_mins(1),
        || (bank.ledger().effective().len() >= accepted.len()).then_some(()),
    );
    let effective = bank.ledger().effective();
    assert!(
        accepted.iter().all(|id| effective.get(id) == Some(&1)),
        "each once: {effective:?}"
    );
    assert!(bank.ledger().worst_second().count <= LIMIT as usize);
    assert_eq!(server.stop(), Some(0));
}
