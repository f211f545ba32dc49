//! The pictures of docs/console.md: every page under load, as a reader sees it. Run by hand when pages change.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;
use tollgate_core::Timestamp;

use crate::files::bulk::later;
use crate::fixture::browser::{Browser, DESK, PHONE};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair_on, payment};
use crate::fixture::served::eventually;

const PAYMENTS: usize = 15_000;
/// A minute and a half of the storm, so that there is something to see.
const SENT: usize = 4500;

#[test]
#[ignore = "writes docs/console/*.png; for whoever changes a page"]
fn pictures_of_the_console_under_load() {
    let url = database();
    let pair = pair_on(
        &url,
        "downstream.payments.honours_idempotency_key = false\n",
    );
    let batch = load(&pair, &url);
    let browser = Browser::at(pair.server.address);
    let what_if = "/console/lanes/default?whatIf=60&reason=agreed+with+the+bank";
    let import = format!("/console/imports/{batch}");
    let check = format!("/console/status-checks/{}", checked(&pair));
    let what_cron = "/console/schedules?cron=0+9+15+*+*&zone=Europe%2FCopenhagen";
    let pages = [
        ("now", "/#default"),
        ("lane", "/console/lanes/default"),
        ("lane-proof", "/console/lanes/default#Windows"),
        ("lane-limit", what_if),
        ("payments", "/console/payments"),
        ("payment", "/console/payments/run-00012"),
        ("needs-you", "/console/needs-you"),
        ("held", "/console/held"),
        ("in-doubt", "/console/in-doubt"),
        ("doubt", "/console/in-doubt/unsure-2"),
        ("imports", "/console/imports"),
        ("import", &import),
        ("invoices", "/console/invoices"),
        ("invoice", "/console/invoices/inv_2"),
        ("schedules", what_cron),
        ("status-check", &check),
        ("dead-letters", "/console/dead-letters"),
        ("jobs", "/console/jobs"),
        ("item-types", "/console/item-types"),
        ("totals", "/console/totals"),
        ("audit", "/console/audit?actor=local"),
        ("archive", "/console/archive"),
    ];
    browser.dark(false);
    browser.sized(DESK);
    for (name, path) in pages {
        taken(&browser, name, path);
    }
    browser.sized(PHONE);
    taken(&browser, "now-phone", "/");
    taken(&browser, "lane-phone", "/console/lanes/default");
    browser.sized(DESK);
    browser.dark(true);
    taken(&browser, "now-dark", "/");
}

fn taken(browser: &Browser, name: &str, path: &str) {
    browser.open(path);
    browser.is_whole();
    if let Some((_, heading)) = path.split_once('#') {
        let there = "[...document.querySelectorAll('section')].find(it => it.innerText.startsWith";
        browser.script(&format!("{there}('{heading}')).scrollIntoView()"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/console");
    std::fs::create_dir_all(&folder).unwrap();
    let picture = BASE64_STANDARD.decode(browser.picture()).unwrap();
    std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
}

/// A night on which some things go wrong; returns the number of the import.
fn load(pair: &Pair, url: &str) -> String {
    let address = pair.server.address;
    let put = |path: &str, body: &Value| {
        let answer = post(address, path, body).unwrap();
        assert!(answer.status < 300, "{path}: {}", answer.text);
    };
    let limit = json!({"configName": "default", "maxPerSecond": 50, "maxPerWindow": 200,
                       "windowSizeSecs": 4, "reason": "agreed with the bank"});
    put("/admin/rate-limit/config", &limit);
    let second = json!({"configName": "night-bank", "maxPerSecond": 20, "maxPerWindow": 80,
                      "windowSizeSecs": 4, "reason": "a new gateway"});
    put("/admin/rate-limit/config", &second);
    put(
        "/admin/lanes/night-bank/pause",
        &json!({"reason": "maintenance at their side, ticket 4711"}),
    );
    billed(address);
    one_dies(pair, url);
    let unsure = ["unsure-1", "unsure-2", "unsure-3"];
    let faults = unsure.map(|id| format!("sends of payment {id}: reset after; "));
    pair.bank.set_faults(
        (faults.concat() + "probes: 500; checks: latency 100ms")
            .parse()
            .unwrap(),
    );
    for id in unsure {
        put("/payments", &payment(id));
    }
    for n in 1..=3 {
        let mut late = payment(&format!("salary-{n}"));
        let soon = Timestamp::from_second(clock(address) + 5).unwrap();
        late["deadline"] = json!(soon.to_string());
        late["onMissedDeadline"] = json!("hold");
        late["executeAt"] = json!(soon.to_string());
        put("/payments", &late);
    }
    put("/payments", &later("withdrawn"));
    put(
        "/payments/withdrawn/cancel",
        &json!({"reason": "the customer called"}),
    );
    let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &file()).unwrap();
    eventually("the storm is well under way", LONG * 5, || {
        (pair.bank.ledger().arrivals() >= SENT).then_some(())
    });
    taken.body["batchId"].as_str().unwrap().to_owned()
}

/// The server's time, in seconds.
pub(crate) fn clock(address: SocketAddr) -> i64 {
    let told = get(address, "/admin/needs-you").unwrap().body;
    let now: Timestamp = told["asOf"].as_str().unwrap().parse().unwrap();
    now.as_second()
}

/// A customer with invoices: some charged by now, some that wait.
pub(crate) fn billed(address: SocketAddr) {
    let put = |path: &str, body: &Value| {
        let answer = post(address, path, body).unwrap();
        assert!(answer.status < 300, "{path}: {}", answer.text);
    };
    let customer = json!({"customerId": "c_1", "currency": "DKK", "timeZone": "Europe/Copenhagen"});
    put("/customers", &customer);
    for n in 1..=6 {
        let soon = json!({"cron": "* * * * * *"});
        let schedule = if n < 4 { soon } else { Value::Null };
        let amount = json!({"value": format!("{}.00", n * 100), "currency": "DKK"});
        let invoice = json!({"invoiceId": format!("inv_{n}"), "customerId": "c_1",
                             "amount": amount, "schedule": schedule});
        put("/invoices", &invoice);
    }
}

/// The number of a check that has asked some gateways about some payments.
pub(crate) fn checked(pair: &Pair) -> String {
    let gateways = ["acme", "nordbank", "sepa"];
    let ids = (0..300).map(|n| format!("{}:{n}", gateways[n % 3]));
    let check = json!({"paymentIds": ids.collect::<Vec<_>>()});
    let begun = post(pair.server.address, "/payments/check-status", &check).unwrap();
    let id = begun.body["workflowId"].as_str().unwrap().to_owned();
    let path = format!("/payments/check-status/{id}");
    eventually("its gateways are known", LONG, || {
        let shown = get(pair.server.address, &path).unwrap().body;
        (shown["progress"]["gatewaysIdentified"] == 3).then_some(())
    });
    id
}

fn one_dies(pair: &Pair, url: &str) {
    let sql = |text: &str| pair.runtime.block_on(cluster::sql(url, text));
    pair.data(&[
        "types",
        "disable",
        "PAYMENT",
        "--reason",
        "a look at the disk",
    ]);
    pair.pay(&payment("stray-1"));
    sql("DELETE FROM item_body WHERE item_id = 'stray-1'");
    pair.data(&["types", "enable", "PAYMENT", "--reason", "all is well"]);
    eventually("it is dead", LONG, || {
        let dead = get(pair.server.address, "/admin/dead-letters")
            .unwrap()
            .body;
        (dead["count"] == 1).then_some(())
    });
}

fn file() -> String {
    let mut lines = String::new();
    for n in 0..PAYMENTS {
        let mut line = payment(&format!("run-{n:05}"));
        let whole = n * 7919 % 4900 + 1;
        line["amount"] = format!("{whole}.{:02}", n % 100).into();
        line["currency"] = ["USD", "EUR"][n % 2].into();
        let _ = writeln!(lines, "{line}");
        if n % 3000 == 1500 {
            let _ = writeln!(lines, "{{\"paymentId\": \"bad-{n}\", \"amount\": \"-3\"}}");
        }
    }
    lines
}
