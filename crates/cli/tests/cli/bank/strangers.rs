//! A load balancer between the server and a bank without keys answers in the bank's place for a while. An operator
//! sees why the lane is paused and resumes it; the judge of what was paid is the bank's ledger.

use std::net::SocketAddr;

use serde_json::json;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::footing::{Footing, LONG, on_both_footings, take_in};
use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::eventually_or;

on_both_footings!(a_strangers_404_pauses_the_lane_and_no_payment_is_rejected_or_paid_twice,);

const NO_KEYS: &str = "downstream.payments.honours_idempotency_key = false\n";
/// At first it passes nothing on, then it loses the answers; a question finds it there, too.
const STRANGER: &str = "sends 4-5: stranger 404 before; sends 6-8: stranger 404 after; \
                        sends 9: stranger 400 after; probes 1-3: stranger 404";
const PAYMENTS: usize = 20;

fn count(address: SocketAddr, status: &str) -> u64 {
    let totals = get(address, "/admin/totals").unwrap().body;
    let buckets = totals["payments"].as_array().cloned().unwrap_or_default();
    let of_status = buckets.iter().filter(|bucket| bucket["status"] == status);
    of_status
        .filter_map(|bucket| bucket["count"].as_u64())
        .sum()
}

/// Why the lane is paused, if it is.
fn pause_reason(address: SocketAddr) -> Option<String> {
    let lanes = get(address, "/admin/rate-limit/config").unwrap().body;
    let mut lanes = lanes.as_array()?.iter();
    let lane = lanes.find(|lane| lane["configName"] == "default")?;
    lane["pause"]["reason"].as_str().map(str::to_owned)
}

fn a_strangers_404_pauses_the_lane_and_no_payment_is_rejected_or_paid_twice(footing: &Footing) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let options = BankOptions {
        honours_keys: false,
        faults: STRANGER.parse().unwrap(),
        ..BankOptions::default()
    };
    let bank = Bank::start(options).unwrap();
    let setting = footing.setting(&bank, NO_KEYS);
    let server = setting.start("127.0.0.1:0");
    let address = server.address;
    for n in 0..PAYMENTS {
        take_in(address, &payment(&format!("p{n}")));
    }
    let mut reasons: Vec<String> = vec![];
    eventually_or("all are paid", LONG, || {
        if let Some(reason) = pause_reason(address) {
            let over = json!({"reason": "the load balancer has its backend again"});
            let resumed = post(address, "/admin/lanes/default/resume", &over).unwrap();
            assert_eq!(resumed.status, 200, "{}", resumed.text);
            reasons.push(reason);
        }
        match count(address, "PROCESSING") {
            paid if paid == PAYMENTS as u64 => Ok(()),
            paid => Err(format!("{paid} of {PAYMENTS}, paused for {reasons:?}")),
        }
    });
    let stranger = "is not recognisably the bank's answer: check the bank's URL";
    assert!(!reasons.is_empty(), "nobody stopped the lane");
    assert!(
        reasons.iter().all(|reason| reason.contains(stranger)),
        "{reasons:?}"
    );
    let body_in_log = |line: &String| line.contains("default backend");
    assert!(
        !server.log().iter().any(body_in_log),
        "a body is in the log"
    );
    let ledger = bank.ledger();
    assert_eq!(ledger.effective().len(), PAYMENTS);
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
}
