//! A job that asks the banks about payments in doubt: preview, digest, an answer per item, through kill -9. The judges
//! are the bank's ledger and what became of each payment.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::footing::{Footing, LONG, on_both_footings};
use crate::fixture::http::{get, post, put};
use crate::fixture::pair::payment;
use crate::fixture::served::{Setting, eventually};
use crate::people::jobs::{ended, preview, shown, start};

/// A person can only decide about what the bank does not recognise by its key.
const SETTINGS: &str = "downstream.payments.honours_idempotency_key = false\n";
const ALL: &str = r#"{"act": "ask", "filter": {"all": true}}"#;

on_both_footings!(a_job_asks_the_bank_about_each_payment_in_doubt_and_ends_the_doubt);

fn wish() -> Value {
    serde_json::from_str(ALL).unwrap()
}

/// The bank has done them and says nothing: a few, or the breaker would close the lane. From then on only people ask.
fn in_doubt(address: SocketAddr, bank: &Bank, count: usize) {
    bank.set_faults("sends: reset after; probes: 500".parse().unwrap());
    for n in 0..count {
        let taken = post(address, "/payments", &payment(&format!("p{n:02}"))).unwrap();
        assert!(taken.status < 300, "{}", taken.text);
    }
    eventually("all are in doubt", LONG, || {
        let asked = preview(address, &wish());
        (asked["count"] == count).then_some(())
    });
    switch(address, false);
    // A question of a flow that was under way is over.
    eventually("nothing is under way", LONG, || {
        let listed = get(address, "/payments?status=IN_DOUBT&limit=100")
            .unwrap()
            .body;
        let mut payments = listed["payments"].as_array().unwrap().iter();
        payments
            .all(|it| it["queueStatus"] == "READY")
            .then_some(())
    });
}

fn switch(address: SocketAddr, enabled: bool) {
    let body = json!({"enabled": enabled, "reason": "only people ask"});
    let switched = put(address, "/admin/item-types/PAYMENT", &body).unwrap();
    assert_eq!(switched.status, 200, "{}", switched.text);
}

/// How often each answer was given.
fn answers(address: SocketAddr, job: &str) -> Vec<(String, String)> {
    let items = get(address, &format!("/admin/jobs/{job}/items?limit=1000")).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let one = |it: &Value| (text(&it["id"]), text(&it["answer"]) + &text(&it["leftOut"]));
    items.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(one)
        .collect()
}

fn a_job_asks_the_bank_about_each_payment_in_doubt_and_ends_the_doubt(footing: &Footing) {
    let pair = footing.pair(SETTINGS);
    let address = pair.server.address;
    in_doubt(address, &pair.bank, 3);
    let previewed = preview(address, &wish());
    assert_eq!(
        previewed["amounts"],
        json!({"USD": "376.50"}),
        "{previewed}"
    );
    // Asked, and none the wiser. The breaker may have closed the lane by now.
    let job = start(address, &wish());
    let view = ended(address, &job);
    let looked_at = view["done"].as_u64().unwrap() + view["leftOut"].as_u64().unwrap();
    assert_eq!(looked_at, 3, "{view}");
    for (id, answer) in answers(address, &job) {
        assert!(!answer.contains("executed"), "{id}: {answer}");
    }
    pair.bank.set_faults("".parse().unwrap());
    let executed = "the bank has executed it; no longer in doubt";
    let mut resolved = BTreeSet::new();
    // What missed its turns on a busy machine is left out, and asked about by the next job.
    for _ in 0..5 {
        let job = start(address, &wish());
        ended(address, &job);
        let answered = answers(address, &job).into_iter();
        let proved = answered.filter(|(_, answer)| answer == executed);
        resolved.extend(proved.map(|(id, _)| id));
        if resolved.len() == 3 {
            break;
        }
    }
    assert_eq!(Vec::from_iter(resolved), ["p00", "p01", "p02"]);
    switch(address, true);
    for id in ["p00", "p01", "p02"] {
        eventually("it is done", LONG, || {
            (pair.shown(id)["status"] == "PROCESSING").then_some(())
        });
    }
    assert!(pair.bank.ledger().doubles().is_empty(), "MONEY: paid twice");
    let mut again = wish();
    again["dryRun"] = json!(true);
    let nothing = post(address, "/admin/jobs", &again).unwrap();
    assert_eq!(nothing.status, 400, "{}", nothing.text);
}

#[test]
fn a_job_that_asks_goes_on_after_kill_9_and_is_never_success_when_nobody_was_asked() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let setting = Setting::new(&bank, SETTINGS);
    let mut server = setting.start("127.0.0.1:0");
    let address = server.address;
    in_doubt(address, &bank, 4);
    // So slow that it is killed in the middle.
    bank.set_faults("probes: latency 2s".parse().unwrap());
    let job = start(address, &wish());
    eventually("it is under way", LONG, || {
        (shown(address, &job)["done"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(shown(address, &job)["state"], "RUNNING");
    server.kill();
    bank.set_faults("".parse().unwrap());
    server = setting.start(&address.to_string());
    assert_eq!(ended(address, &job)["left"], 0);
    let answered = answers(address, &job);
    let ids: BTreeSet<_> = answered.iter().map(|(id, _)| id).collect();
    assert_eq!(
        (answered.len(), ids.len()),
        (4, 4),
        "each once: {answered:?}"
    );
    server.kill();
    // A lane that is paused asks nobody, and the job says so of each.
    let other = Setting::new(&bank, SETTINGS);
    let server = other.start("127.0.0.1:0");
    let address = server.address;
    in_doubt(address, &bank, 2);
    let pause = json!({"reason": "the bank moves"});
    let paused = post(address, "/admin/lanes/default/pause", &pause).unwrap();
    assert_eq!(paused.status, 200, "{}", paused.text);
    let job = start(address, &wish());
    let view = ended(address, &job);
    assert_eq!((&view["done"], &view["leftOut"]), (&json!(0), &json!(2)));
    for (id, why) in answers(address, &job) {
        assert!(
            why.contains("paused by local: the bank moves"),
            "{id}: {why}"
        );
    }
}

#[test]
fn where_services_are_asked_a_job_says_so() {
    let pair = crate::fixture::pair::pair("in_doubt.ask = \"services\"\n");
    let mut asked = wish();
    asked["dryRun"] = json!(true);
    let refused = post(pair.server.address, "/admin/jobs", &asked).unwrap();
    let why = refused.body["details"]["act"].to_string();
    assert!(why.contains("POST /admin/in-doubt/ask"), "{}", refused.text);
}
