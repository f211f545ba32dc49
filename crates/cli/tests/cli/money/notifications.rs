//! Who is told what became of payments: a receiver in trouble holds up no money, and hears of
//! everything once it is back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use tollgate_conformance::postgres::shared;
use tollgate_sandbox::{Bank, BankOptions, Delivery, Received, WEBHOOK_SECRET};

use crate::commands::bad_starts::refused;
use crate::fixture::footing::{Footing, LONG, on_both_footings, take_in};
use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, Setting, eventually, serve_with};

on_both_footings!(one_receiver_in_trouble_does_not_keep_the_other_waiting,);

const PAYMENTS: usize = 30;
/// A second and more at the default rate; the receiver alone takes ten to time out.
const PAID_WITHIN: Duration = Duration::from_secs(15);
/// The lane may be closed for a while, and the items wait as long as they were tried.
const TOLD_WITHIN: Duration = Duration::from_mins(2);

/// A bank that is told as well; the second secret is somebody else's, the one from before.
fn told(bank: &Bank) -> String {
    let old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    format!(
        "[downstream.notifications]\nurls = [\"{}/webhooks\"]\nsecret = \"{old} {WEBHOOK_SECRET}\"\n",
        bank.url()
    )
}

fn bank(runtime: &Runtime, faults: &str) -> Bank {
    let _inside = runtime.enter();
    Bank::start(BankOptions {
        faults: faults.parse().unwrap(),
        ..BankOptions::default()
    })
    .unwrap()
}

fn shown(server: &Served, id: &str) -> Value {
    get(server.address, &format!("/payments/{id}"))
        .unwrap()
        .body
}

/// The lines of its timeline about who is told.
fn news(server: &Served, id: &str) -> String {
    let shown = shown(server, id);
    let lines = shown["timeline"].as_array().unwrap().iter();
    let lines = lines.filter_map(|event| event["what"].as_str());
    let lines: Vec<_> = lines.filter(|what| what.contains("notification")).collect();
    lines.join("\n")
}

fn ids(prefix: &str) -> Vec<String> {
    (0..PAYMENTS).map(|n| format!("{prefix}{n}")).collect()
}

fn pay_all(server: &Served, ids: &[String]) {
    for id in ids {
        take_in(server.address, &payment(id));
    }
}

/// Waits until every payment has ended; the first of them is refused.
fn all_end(server: &Served, ids: &[String]) {
    eventually("every payment ends", PAID_WITHIN, || {
        let ended = |id: &String| {
            let status = shown(server, id)["status"].clone();
            status == "PROCESSING" || (status == "REJECTED" && id == "a0")
        };
        ids.iter().all(ended).then_some(())
    });
}

/// The event of each payment that was taken, once each; nothing forged, one body per id.
fn taken(all: &[Delivery]) -> BTreeMap<String, String> {
    let mut bodies: BTreeMap<&str, &str> = BTreeMap::new();
    let mut events = BTreeMap::new();
    for it in all {
        assert!(
            !matches!(it.received, Received::Forged | Received::Changed),
            "{it:?}"
        );
        let body = bodies.entry(&it.id).or_insert(&it.body_sha256);
        assert_eq!(*body, it.body_sha256, "one id, one body");
        if it.received == Received::Took {
            let payment = it.payment_id.clone().unwrap();
            let twice = events.insert(payment, it.event.clone().unwrap());
            assert_eq!(twice, None, "{it:?}");
        }
    }
    events
}

fn money_is_not_held_up(setting: &Setting, bank: &Bank) {
    let server = setting.start("127.0.0.1:0");
    let first = ids("a");
    pay_all(&server, &first);
    all_end(&server, &first);
    let hanging = news(&server, "a1");
    assert!(
        hanging.contains("notification payment.processing to 127.0.0.1"),
        "{hanging}"
    );
    assert!(!hanging.contains("delivered"), "{hanging}");

    // Now it fails at once, before and after its work, and we die in the middle.
    bank.set_faults(
        "1 in 2 webhooks: 500 after; webhooks: 500 before"
            .parse()
            .unwrap(),
    );
    let second = ids("b");
    pay_all(&server, &second);
    let so_far = bank.ledger().deliveries().len();
    eventually("it is told in vain", Duration::from_mins(1), || {
        (bank.ledger().deliveries().len() > so_far + 5).then_some(())
    });
    server.kill();
    let server = setting.start("127.0.0.1:0");
    all_end(&server, &second);

    bank.set_faults("".parse().unwrap());
    let everybody: BTreeSet<String> = first.into_iter().chain(second).collect();
    eventually("everything is told", TOLD_WITHIN, || {
        let taken = taken(&bank.ledger().deliveries());
        (taken.keys().cloned().collect::<BTreeSet<_>>() == everybody).then_some(())
    });
    let taken = taken(&bank.ledger().deliveries());
    assert_eq!(taken["a0"], "payment.rejected");
    assert_eq!(taken["b0"], "payment.processing");
    eventually("the timeline says so", Duration::from_secs(10), || {
        news(&server, "b1").contains("delivered").then_some(())
    });
    check_accounts(&server, bank, everybody.len());
}

/// Notifications are no payments: neither in the totals, nor in doubt, nor at the bank.
fn check_accounts(server: &Served, bank: &Bank, payments: usize) {
    let totals = get(server.address, "/admin/totals").unwrap().body;
    let buckets = totals["payments"].as_array().unwrap();
    let count: u64 = buckets.iter().filter_map(|it| it["count"].as_u64()).sum();
    assert_eq!(count, payments as u64, "{totals}");
    assert!(buckets.iter().all(|it| it["currency"] == "USD"), "{totals}");
    let doubts = get(server.address, "/admin/in-doubt").unwrap().body;
    assert_eq!(doubts["items"], serde_json::json!([]));
    let paid = bank.ledger().effective();
    assert_eq!(paid.len(), payments - 1);
    assert!(bank.ledger().doubles().is_empty(), "MONEY: paid twice");
    let metrics = get(server.address, "/metrics").unwrap().text;
    assert!(metrics.contains("tollgate_notification_sends_total{lane=\"notifications-127.0.0.1\""));
}

const HANGING: &str = "webhooks: stall; sends of payment a0: 422";

#[test]
fn a_receiver_that_hangs_and_fails_holds_up_no_money_and_hears_of_all_when_it_is_back() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, HANGING);
    money_is_not_held_up(&Setting::new(&bank, &told(&bank)), &bank);
}

#[test]
fn nor_does_it_on_postgres() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, HANGING);
    let url = runtime.block_on(shared().database());
    money_is_not_held_up(&Setting::on(&url, &bank, &told(&bank)), &bank);
}

fn one_receiver_in_trouble_does_not_keep_the_other_waiting(footing: &Footing) {
    let runtime = Runtime::new().unwrap();
    let (well, away) = (bank(&runtime, ""), bank(&runtime, ""));
    let [well_url, ill_url] = [&well, &away].map(|bank| format!("{}/webhooks", bank.url()));
    // Another host, and with it another lane, which is soon closed for longer and longer.
    let ill_url = ill_url.replace("127.0.0.1", "localhost");
    runtime.block_on(away.stop());
    let extra = format!(
        "[downstream.notifications]\nurls = [\"{well_url}\", \"{ill_url}\"]\nsecret = \"{WEBHOOK_SECRET}\"\n"
    );
    let setting = footing.setting(&well, &extra);
    let server = setting.start("127.0.0.1:0");
    let all = ids("p");
    pay_all(&server, &all);
    eventually("the one that is well is told", TOLD_WITHIN, || {
        (taken(&well.ledger().deliveries()).len() == PAYMENTS).then_some(())
    });
    let lines = news(&server, "p0");
    assert_eq!(lines.matches("delivered").count(), 1, "{lines}");
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

#[test]
fn a_sandbox_is_told_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("t.db").display());
    let flags = ["--sandbox", "--listen", "127.0.0.1:0", "--store", &store];
    let server = serve_with(&flags);
    let answer = post(server.address, "/payments", &payment("p")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    eventually("it is told", Duration::from_secs(20), || {
        news(&server, "p").contains("delivered").then_some(())
    });
}

#[test]
fn a_sandbox_that_is_restarted_keeps_its_ports_and_strands_no_notification() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("t.db").display());
    let listen = two_ports();
    let flags = ["--sandbox", "--listen", &listen, "--store", &store];
    let deaf = [&flags[..], &["--sandbox-faults", "webhooks: 500"]].concat();
    let server = serve_with(&deaf);
    let answer = post(server.address, "/payments", &payment("p")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    eventually("it is paid", LONG, || {
        let shown = get(server.address, "/payments/p").unwrap().body;
        (shown["status"] == "PROCESSING").then_some(())
    });
    assert!(!news(&server, "p").contains("delivered"));
    let bank = bank_of(&server);
    server.kill();
    let server = serve_with(&flags);
    assert_eq!(bank_of(&server), bank, "the bank is where it was");
    eventually("it is told", LONG, || {
        news(&server, "p").contains("delivered").then_some(())
    });
}

/// An address whose port and the one after it are free.
fn two_ports() -> String {
    let any = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    loop {
        let first = any();
        let port = first.local_addr().unwrap().port();
        if std::net::TcpListener::bind(("127.0.0.1", port.saturating_add(1))).is_ok() {
            return format!("127.0.0.1:{port}");
        }
    }
}

/// Where the sandbox bank listens, by the log.
fn bank_of(server: &Served) -> String {
    let log = [&server.said[..], &server.log()].concat().join("\n");
    let line = log.lines().find(|line| line.contains("sandbox bank;"));
    let url = line.and_then(|line| line.split("http://").nth(1)).unwrap();
    let is_part = |c: &char| c.is_ascii_digit() || ".:".contains(*c);
    url.chars().take_while(is_part).collect()
}

#[test]
fn receivers_that_cannot_be_right_are_one_sentence_without_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (file, store) = (folder.path().join("bad.toml"), folder.path().join("x.db"));
    let url = r#"urls = ["http://shop"]"#;
    let table = [
        (url.to_owned(), "downstream.notifications.secret is missing"),
        (
            format!("{url}\nsecret = \"hunter2\""),
            "must start with whsec_",
        ),
        (
            format!("{url}\nsecret = \"whsec_hunter2!\""),
            "must be base64",
        ),
        (
            format!("urls = [\"shop\"]\nsecret = \"{WEBHOOK_SECRET}\""),
            "downstream.notifications.urls: the URL \"shop\"",
        ),
    ];
    for (text, why) in table {
        let store_url = format!("store.url = \"sqlite:{}\"", store.display());
        std::fs::write(
            &file,
            format!("{store_url}\n[downstream.notifications]\n{text}\n"),
        )
        .unwrap();
        let config = file.to_str().unwrap();
        let said = refused(
            &["serve", "--listen", "127.0.0.1:0", "--config", config],
            &[],
        );
        assert!(said.contains(why), "{text}: {said}");
        assert!(
            !said.contains("hunter2") && !said.contains(WEBHOOK_SECRET),
            "{said}"
        );
        assert!(!store.exists(), "nothing was started");
    }
}
