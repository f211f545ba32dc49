//! `tollgate jobs …` as its users meet it: preview, start, kill -9 in the middle, stop. The judges are the store's
//! audit log and the bank's ledger.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;
use tollgate_sandbox::{Bank, BankOptions};

use crate::files::bulk::{done, later};
use crate::fixture::footing::{Footing, LONG, database, on_both_footings};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair, pair_on, payment};
use crate::fixture::served::{Setting, eventually};
use crate::fixture::tokens::{Token, auth, call, token};

/// Held within a second, and worked off fast enough for a test.
const QUICK: &str = "sweep.interval_secs = 1\njobs.max_per_second = 2000\n";

on_both_footings!(held_payments_are_released_together_and_each_is_paid_once);

/// Payments that must not run late, in one file: their lane is paused until their deadline is over.
pub(crate) fn import_held(address: SocketAddr, count: usize) -> String {
    let pause = json!({"reason": "until they are late"});
    let paused = post(address, "/admin/lanes/default/pause", &pause).unwrap();
    assert_eq!(paused.status, 200, "{}", paused.text);
    // A large file takes a while before its last line is planned.
    let deadline = json!(soon(8 + count as u64 / 1000));
    let mut file = String::new();
    for n in 0..count {
        let mut payment = payment(&format!("p{n:05}"));
        payment["deadline"] = deadline.clone();
        payment["onMissedDeadline"] = json!("hold");
        writeln!(file, "{payment}").unwrap();
    }
    let answer = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    let batch = answer.body["batchId"].as_str().unwrap().to_owned();
    assert_eq!(done(address, &batch)["accepted"], count);
    let patience = LONG * u32::try_from(1 + count / 5000).unwrap();
    eventually("all are held", patience, || {
        let held = get(address, "/admin/held?limit=1").unwrap().body;
        (held["count"] == count).then_some(())
    });
    let resumed = post(address, "/admin/lanes/default/resume", &pause).unwrap();
    assert_eq!(resumed.status, 200, "{}", resumed.text);
    batch
}

fn soon(secs: u64) -> String {
    #[expect(clippy::disallowed_methods, reason = "a caller's own clock")]
    let now = jiff::Timestamp::now();
    (now + Duration::from_secs(secs)).to_string()
}

pub(crate) fn preview(address: SocketAddr, wish: &Value) -> Value {
    let mut wish = wish.clone();
    wish["dryRun"] = json!(true);
    post(address, "/admin/jobs", &wish).unwrap().body
}

pub(crate) fn start(address: SocketAddr, wish: &Value) -> String {
    let mut wish = wish.clone();
    wish["digest"] = preview(address, &wish)["digest"].clone();
    wish["reason"] = json!("the customer called");
    let started = post(address, "/admin/jobs", &wish).unwrap();
    assert_eq!(started.status, 202, "{}", started.text);
    let again = post(address, "/admin/jobs", &wish).unwrap();
    assert_eq!(again.status, 202, "a repeated request starts nothing new");
    assert_eq!(started.body["jobId"], again.body["jobId"]);
    started.body["jobId"].as_str().unwrap().to_owned()
}

pub(crate) fn shown(address: SocketAddr, job: &str) -> Value {
    let shown = get(address, &format!("/admin/jobs/{job}")).unwrap();
    assert_eq!(shown.status, 200, "{}", shown.text);
    shown.body
}

pub(crate) fn ended(address: SocketAddr, job: &str) -> Value {
    eventually("the job ends", Duration::from_mins(10), || {
        let job = shown(address, job);
        (job["state"] == "DONE").then_some(job)
    })
}

fn faster(address: SocketAddr) {
    let limit = json!({"configName": "default", "maxPerWindow": 1000, "windowSizeSecs": 1,
                       "maxPerSecond": 1000, "reason": "for a test"});
    let changed = post(address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(changed.status, 200, "{}", changed.text);
}

fn held_payments_are_released_together_and_each_is_paid_once(footing: &Footing) {
    let pair = footing.pair(QUICK);
    let address = pair.server.address;
    faster(address);
    let batch = import_held(address, 60);
    let wish = json!({"act": "release", "filter": {"import": batch}});
    let job = ended(address, &start(address, &wish));
    assert_eq!((&job["done"], &job["leftOut"]), (&json!(60), &json!(0)));
    eventually("all are paid", LONG, || {
        (pair.bank.ledger().effective().len() == 60).then_some(())
    });
    assert!(pair.bank.ledger().doubles().is_empty(), "MONEY: paid twice");
}

#[test]
fn a_preview_that_no_longer_holds_is_shown_again_and_nothing_is_done() {
    let url = database();
    let pair = pair_on(&url, QUICK);
    let address = pair.server.address;
    import_held(address, 20);
    let wish = json!({"act": "cancel", "filter": {"held": true}});
    let before = preview(address, &wish);
    let one = json!({"reason": "this one is fine"});
    let released = post(address, "/payments/p00007/cancel", &one).unwrap();
    assert_eq!(released.status, 200, "{}", released.text);
    let mut confirm = wish.clone();
    confirm["digest"] = before["digest"].clone();
    confirm["reason"] = json!("all");
    let stale = post(address, "/admin/jobs", &confirm).unwrap();
    assert_eq!(
        (stale.status, &stale.body["code"]),
        (409, &json!("preview_stale"))
    );
    assert_eq!(stale.body["preview"]["count"], 19);
    assert!(stale.head.contains("tollgate-error-code: preview_stale"));
    let jobs = get(address, "/admin/jobs").unwrap().body;
    assert_eq!(jobs["jobs"], json!([]), "previews are not jobs");
    confirm["digest"] = stale.body["preview"]["digest"].clone();
    let older = "UPDATE job SET previewed_at = previewed_at - 901000000 WHERE state = 'PREVIEW'";
    pair.runtime.block_on(cluster::sql(&url, older));
    let stale = post(address, "/admin/jobs", &confirm).unwrap();
    assert_eq!(stale.status, 409, "{}", stale.text);
    let why = stale.body["error"].as_str().unwrap();
    assert!(why.contains("older than 15 minutes"), "{why}");
    assert_eq!(stale.body["preview"]["count"], 19, "the new one");
    assert_ne!(stale.body["preview"]["digest"], confirm["digest"]);
    confirm["digest"] = stale.body["preview"]["digest"].clone();
    let started = post(address, "/admin/jobs", &confirm).unwrap();
    assert_eq!(started.status, 202, "{}", started.text);
    let job = started.body["jobId"].as_str().unwrap();
    assert_eq!(ended(address, job)["done"], 19);
}

#[test]
fn what_cannot_be_meant_is_refused_with_one_sentence() {
    let pair = pair("");
    let address = pair.server.address;
    let table = [
        (
            json!({"act": "cancel", "filter": {}}),
            "filter",
            "needs at least one condition",
        ),
        (
            json!({"act": "cancel", "filter": {"all": true}}),
            "filter",
            "matches no item of type PAYMENT",
        ),
        (
            json!({"act": "burn", "filter": {"all": true}}),
            "act",
            "reschedule",
        ),
        (
            json!({"act": "cancel", "filter": {"minAmount": "1"}}),
            "filter.minAmount",
            "needs currency",
        ),
        (
            json!({"act": "reschedule", "filter": {"all": true}}),
            "executeAt",
            "is required to reschedule",
        ),
        (
            json!({"act": "cancel", "filter": {"type": "INVOICE", "all": true}}),
            "filter.type",
            "cancel acts on payments only",
        ),
    ];
    for (mut wish, field, why) in table {
        wish["dryRun"] = json!(true);
        let answer = post(address, "/admin/jobs", &wish).unwrap();
        assert_eq!(answer.status, 400, "{wish}: {}", answer.text);
        let said = answer.body["details"][field].to_string();
        assert!(said.contains(why), "{wish}: {}", answer.text);
    }
    let elsewhere = json!({"act": "cancel", "filter": {"lane": "elsewhere"}, "dryRun": true});
    let missing = post(address, "/admin/jobs", &elsewhere).unwrap();
    assert_eq!(missing.status, 404, "{}", missing.text);
    let unseen = json!({"act": "cancel", "filter": {"all": true}, "reason": "no"});
    let refused = post(address, "/admin/jobs", &unseen).unwrap();
    let said = refused.body["details"]["digest"].to_string();
    assert!(said.contains("dryRun"), "{}", refused.text);
    let missing = get(address, "/admin/jobs/none").unwrap();
    assert_eq!(missing.status, 404);
}

impl Pair {
    fn previewed(&self, words: &[&str]) -> String {
        let words = [&["jobs", "preview"], words].concat();
        let digest = &self.data(&words)["digest"];
        digest.as_str().unwrap().to_owned()
    }
}

#[test]
fn the_commands_preview_start_show_and_stop_a_job() {
    // So slow that it is stopped long before its end.
    let pair = pair("sweep.interval_secs = 1\njobs.max_per_second = 1\n");
    let address = pair.server.address;
    import_held(address, 40);
    let told = pair
        .tollgate(&["jobs", "preview", "cancel", "--held"])
        .unwrap();
    assert!(told.contains("cancel: 40 items, 5020.00 USD"), "{told}");
    assert!(
        told.contains("p00019") && told.contains("--digest"),
        "{told}"
    );
    let digest = pair.previewed(&["cancel", "--held"]);
    let start = [
        "jobs", "start", "cancel", "--held", "--reason", "enough", "--digest",
    ];
    let started = pair.data(&[&start[..], &[digest.as_str()]].concat());
    let job = started["jobId"].as_str().unwrap();
    eventually("one is done", LONG, || {
        (shown(address, job)["done"].as_u64() > Some(0)).then_some(())
    });
    let stop = ["jobs", "stop", job, "--reason", "wrong ones"];
    let stopped = pair.tollgate(&stop).unwrap();
    assert!(
        stopped.contains("STOPPED") && stopped.contains("local: wrong ones"),
        "{stopped}"
    );
    let again = pair.tollgate(&stop).unwrap_err();
    assert!(again.contains("is not running"), "{again}");
    let listed = pair.tollgate(&["jobs", "list"]).unwrap();
    assert!(
        listed.contains(job) && listed.contains("enough"),
        "{listed}"
    );
    let items = pair.tollgate(&["jobs", "items", job]).unwrap();
    assert!(items.contains("p00000"), "{items}");
    let left = shown(address, job)["left"].as_u64().unwrap();
    let held = preview(address, &json!({"act": "cancel", "filter": {"held": true}}));
    assert_eq!(held["count"].as_u64(), Some(left), "the rest is as it was");
}

#[test]
fn a_job_stops_when_its_author_loses_the_right() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("t.db").display());
    let (ann, bob) = (token("ann", "operate"), token("bob", "operate"));
    let slow = "sweep.interval_secs = 1\njobs.max_per_second = 1\n";
    let before = Setting::on(&url, &bank, &format!("{slow}{}", auth(&[&ann, &bob])));
    let server = before.start("127.0.0.1:0");
    let address = server.address;
    for n in 0..20 {
        let payment = later(&format!("p{n}")).to_string();
        let taken = call(address, Some(&ann.text), "POST", "/payments", &payment);
        assert!(matches!(taken.status, 200 | 201), "{}", taken.text);
    }
    let asked = |token: &str, wish: &Value| {
        let answer = call(
            address,
            Some(token),
            "POST",
            "/admin/jobs",
            &wish.to_string(),
        );
        assert!(answer.status < 300, "{}", answer.text);
        answer.body
    };
    let mut wish = json!({"act": "cancel", "filter": {"all": true}, "dryRun": true});
    let digest = asked(&ann.text, &wish)["digest"].clone();
    wish["dryRun"] = json!(false);
    wish["digest"] = digest;
    wish["reason"] = json!("all of them");
    let job = asked(&ann.text, &wish)["jobId"]
        .as_str()
        .unwrap()
        .to_owned();
    server.kill();
    let now_reads = ann.entry.replace("\"operate\"", "\"read\"");
    let now_reads = Token {
        text: ann.text.clone(),
        entry: now_reads,
    };
    let after = Setting::on(&url, &bank, &format!("{slow}{}", auth(&[&now_reads, &bob])));
    let _server = after.start(&address.to_string());
    let path = format!("/admin/jobs/{job}");
    let stopped = eventually("the job is stopped", LONG, || {
        let shown = call(address, Some(&bob.text), "GET", &path, "").body;
        (shown["state"] == "STOPPED").then_some(shown)
    });
    let why = stopped["stopped"].as_str().unwrap();
    assert!(why.contains("ann no longer has the role operate"), "{why}");
    assert!(stopped["left"].as_u64() > Some(0), "{stopped}");
}
