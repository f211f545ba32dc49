//! kill -9 in the midst of charges, on every footing, judged by the provider's own ledger.

use std::time::Duration;

use serde_json::json;
use tollgate_conformance::postgres::Cluster;

use crate::billing::invoices::{invoice, with_customer};
use crate::fixture::footing::Footing;
use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, pair, pair_on};
use crate::fixture::served::{eventually_or, shorten_leases};

/// More than all of it takes: on Temporal a dead process is missed only when its leases have run out.
const PATIENCE: Duration = Duration::from_mins(3);

/// Nothing that a crash leaves behind waits longer than a moment.
const SOON: &str = "sweep.interval_secs = 1\n";

#[test]
fn kill_9_in_the_midst_of_charges_loses_and_doubles_no_invoice() {
    sweep(with_customer(pair(SOON)), 60, &[1, 7, 20, 33]);
}

#[test]
fn kill_9_in_the_midst_of_charges_loses_and_doubles_no_invoice_on_postgresql() {
    let cluster = Cluster::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(cluster.database());
    sweep(with_customer(pair_on(&url, SOON)), 60, &[1, 7, 20, 33]);
}

#[test]
fn kill_9_in_the_midst_of_charges_loses_and_doubles_no_invoice_on_temporal() {
    let footing = Footing::temporal();
    sweep(with_customer(footing.pair(SOON)), 20, &[1, 9]);
}

/// The server is killed when so many requests have reached the provider, and started again.
fn sweep(pair: Pair, invoices: usize, killed_at: &[usize]) {
    shorten_leases(pair.server.address, "invoice");
    let Pair {
        runtime,
        bank,
        setting,
        mut server,
    } = pair;
    let ids: Vec<String> = (0..invoices).map(|n| format!("inv_{n:02}")).collect();
    for id in &ids {
        let mut due = invoice(id);
        due["schedule"] = json!({"cron": "* * * * * *"});
        let created = post(server.address, "/invoices", &due).unwrap();
        assert_eq!(created.status, 201, "{}", created.body);
    }
    let ledger = bank.ledger();
    for arrivals in killed_at {
        let arrived = async {
            let arrived = ledger.wait_for_arrivals(*arrivals);
            tokio::time::timeout(PATIENCE, arrived).await
        };
        let arrived = runtime.block_on(arrived);
        assert!(arrived.is_ok(), "no {arrivals} arrivals");
        server.kill();
        server = setting.start("127.0.0.1:0");
    }
    for id in &ids {
        eventually_or("it is paid", PATIENCE, || {
            let shown = get(server.address, &format!("/invoices/{id}")).unwrap();
            let is_paid = shown.body["status"] == "PAID";
            is_paid.then_some(()).ok_or(shown.text)
        });
    }
    assert!(
        ledger.doubles().is_empty(),
        "MONEY: paid twice: {:?}",
        ledger.doubles()
    );
    assert_eq!(ledger.effective().len(), invoices, "each was charged");
}
