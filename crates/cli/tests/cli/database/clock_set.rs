//! The machine's clock is wrong when a server on SQLite starts, and is set while it runs.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tollgate_conformance::wrong_clock::WrongClock;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, Setting, eventually, eventually_or};

const SOON: Duration = Duration::from_secs(30);

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own clock, which is right"
)]
fn right_now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap()
}

fn shown(server: &Served, id: &str) -> Value {
    get(server.address, &format!("/payments/{id}"))
        .unwrap()
        .body
}

fn jumps(server: &Served) -> u32 {
    let metrics = get(server.address, "/metrics").unwrap().text;
    let line = |line: &str| {
        line.strip_prefix("tollgate_clock_jumps_total ")?
            .parse()
            .ok()
    };
    metrics.lines().find_map(line).unwrap()
}

fn has_jumped(server: &Served, times: u32) {
    eventually_or("the server sees the jump", SOON, || {
        let seen = jumps(server);
        if seen >= times {
            Ok(())
        } else {
            Err(format!("{seen} jumps"))
        }
    });
}

#[test]
fn a_server_that_started_two_hours_ahead_sends_nothing_early_when_the_clock_is_set_right() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let setting = Setting::new(&bank, "");
    let clock = WrongClock::off_by("+2h");
    let environment = clock.env();
    let environment: Vec<_> = environment.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let server = Served::start_in(&environment, &setting.config("127.0.0.1:0"));

    // By the clock as it is wrong: almost at once.
    let due = right_now() + SignedDuration::from_hours(2) + SignedDuration::from_secs(20);
    let mut later = payment("later");
    later["executeAt"] = json!(due);
    let taken = post(server.address, "/payments", &later).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.body);
    clock.jump_to("+0");
    has_jumped(&server, 1);

    let taken = post(server.address, "/payments", &payment("now")).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.body);
    let slot: Timestamp = taken.body["scheduledTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let off = slot.duration_since(right_now()).abs();
    assert!(off < SignedDuration::from_mins(1), "{slot}");
    eventually("what is due is paid", SOON, || {
        (bank.ledger().effective().get("now") == Some(&1)).then_some(())
    });
    let waiting = shown(&server, "later");
    assert_eq!(waiting["status"], "SCHEDULED", "{waiting}");
    let why = waiting["whyNotRunning"].as_str().unwrap();
    assert!(why.starts_with("its slot is at"), "{why}");
    assert_eq!(bank.ledger().arrivals(), 1, "sent two hours early");
    assert!(
        server
            .log()
            .iter()
            .any(|line| line.contains("clock has jumped"))
    );

    // Set forward, its time comes at once.
    clock.jump_to("+3h");
    has_jumped(&server, 2);
    eventually("it is paid in its time", SOON, || {
        (bank.ledger().effective().get("later") == Some(&1)).then_some(())
    });
    assert_eq!(bank.ledger().arrivals(), 2);
    assert_eq!(server.stop(), Some(0));
}
