//! Lanes as operators meet them: `tollgate lanes …` and `tollgate calendars …` against a server.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::Timestamp;

use crate::fixture::footing::{Footing, LONG, on_both_footings, take_in};
use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, day_ahead, pair, payment};
use crate::fixture::served::{BINARY, eventually};

on_both_footings!(a_pause_ends_by_itself_and_a_held_payment_waits_for_a_person,);

impl Pair {
    /// What the command printed, or what it complained about.
    pub(crate) fn tollgate(&self, words: &[&str]) -> Result<String, String> {
        let server = format!("http://{}", self.server.address);
        let output = Command::new(BINARY)
            .args(words)
            .args(["--server", &server])
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.setting.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn put_calendar(&self, calendar: &Value) -> Result<String, String> {
        let file = self.file("calendar.json", &calendar.to_string());
        self.tollgate(&["calendars", "put", "hours", &file, "--reason", "test"])
    }

    pub(crate) fn pay(&self, payment: &Value) -> Value {
        take_in(self.server.address, payment).body
    }

    pub(crate) fn shown(&self, id: &str) -> Value {
        let path = format!("/payments/{id}");
        get(self.server.address, &path).unwrap().body
    }

    fn arrivals(&self) -> usize {
        self.bank.ledger().arrivals()
    }

    fn wait_for(&self, arrivals: usize) {
        let ledger = self.bank.ledger();
        self.runtime.block_on(ledger.wait_for_arrivals(arrivals));
    }
}

#[test]
fn a_calendar_closes_a_lane_and_the_plan_keeps_to_it() {
    let pair = pair("");
    // Open on one day of the week only, at noon in Kathmandu: not now, and if it is, it closes.
    let weekly = json!({"zone": "Asia/Kathmandu", "weekly": {"sunday": ["12:00-12:01"]}});
    let told = pair.put_calendar(&weekly).unwrap();
    assert!(told.contains("T06:15:00Z"), "noon there: {told}");
    let set = [
        "lanes",
        "set",
        "default",
        "--calendar",
        "hours",
        "--reason",
        "x",
    ];
    pair.tollgate(&set).unwrap();
    let placed = pair.pay(&payment("p1"));
    let slot: Timestamp = placed["scheduledTime"].as_str().unwrap().parse().unwrap();
    let there = slot.to_zoned(jiff::tz::TimeZone::get("Asia/Kathmandu").unwrap());
    assert_eq!((there.hour(), there.minute()), (12, 0), "{there}");
    let shown = pair.shown("p1");
    let why = shown["whyNotRunning"].as_str().unwrap();
    assert!(why.contains("closed by calendar \"hours\""), "{why}");
    assert_eq!(shown["estimate"], shown["scheduledTime"]);
    // Taken off again, the plan moves forward by a replan, and the payment runs.
    let off = [
        "lanes",
        "set",
        "default",
        "--calendar",
        "none",
        "--reason",
        "x",
    ];
    pair.tollgate(&off).unwrap();
    let preview = pair
        .tollgate(&["lanes", "replan", "default", "--preview"])
        .unwrap();
    assert!(preview.contains("earlier                 1"), "{preview}");
    assert_eq!(pair.arrivals(), 0);
    let replanned = pair.tollgate(&["lanes", "replan", "default", "--reason", "open again"]);
    assert!(replanned.unwrap().contains("earlier                 1"));
    pair.wait_for(1);
}

fn a_pause_ends_by_itself_and_a_held_payment_waits_for_a_person(footing: &Footing) {
    let pair = footing.pair("sweep.interval_secs = 1\n");
    let address = pair.server.address;
    let now = || -> Timestamp {
        let totals = get(address, "/admin/lanes/default/history").unwrap().body;
        totals[0]["since"].as_str().unwrap().parse().unwrap()
    };
    let pause = json!({"reason": "drill"});
    assert_eq!(
        post(address, "/admin/lanes/default/pause", &pause)
            .unwrap()
            .status,
        200
    );
    let soon = now() + Duration::from_secs(2);
    let mut held = payment("held");
    held["deadline"] = json!(soon.to_string());
    held["onMissedDeadline"] = json!("hold");
    pair.pay(&held);
    pair.pay(&payment("late"));
    let seen = eventually("it is held", LONG, || {
        Some(pair.shown("held")).filter(|seen| seen["queueStatus"] == "HELD")
    });
    assert!(
        seen["whyNotRunning"]
            .as_str()
            .unwrap()
            .contains("needs a decision")
    );
    let until = (now() + Duration::from_mins(10)).to_string();
    pair.tollgate(&[
        "lanes", "resume", "default", "--reason", "later", "--at", &until,
    ])
    .unwrap();
    let listed = pair.tollgate(&["lanes", "list"]).unwrap();
    assert!(listed.contains("is paused by local: drill"), "{listed}");
    assert_eq!(pair.arrivals(), 0, "nothing was sent in the pause");
    pair.tollgate(&["lanes", "resume", "default", "--reason", "now"])
        .unwrap();
    pair.wait_for(1);
    assert_eq!(pair.shown("held")["queueStatus"], "HELD");
    let release = json!({"reason": "the customer agreed"});
    let released = post(address, "/payments/held/release", &release).unwrap();
    assert_eq!(released.status, 200, "{}", released.body);
    pair.wait_for(2);
}

/// The same in the audit log and in an item's answer.
fn what_was_dispatched_names_its_batch(pair: &Pair) {
    let batch = pair.shown("p0")["dispatchBatchId"].clone();
    assert!(batch.is_string(), "{batch}");
    let trail = pair.data(&["audit", "--action", "BATCH_COMPLETE"]);
    let entries = trail["entries"].as_array().unwrap();
    assert!(entries.iter().any(|it| it["batchId"] == batch), "{trail}");
    let metrics = get(pair.server.address, "/metrics").unwrap().text;
    for name in ["max", "in_use"] {
        let name = format!("tollgate_store_connections_{name} ");
        assert!(metrics.contains(&name), "{name}");
    }
}

#[test]
fn the_certificate_of_a_day_counts_what_the_bank_saw() {
    // The margin is for a machine that keeps a request waiting between gate and socket.
    let pair = pair("gate.margin = 0.1\n");
    let set = [
        "lanes",
        "set",
        "default",
        "--max-per-second",
        "100",
        "--max-per-window",
        "400",
    ];
    pair.tollgate(&[&set[..], &["--reason", "faster"]].concat())
        .unwrap();
    for n in 0..150 {
        pair.pay(&payment(&format!("p{n}")));
    }
    pair.wait_for(150);
    let certificate = pair
        .tollgate(&["lanes", "certificate", "default", "--json"])
        .unwrap();
    let certificate: Value = serde_json::from_str(&certificate).unwrap();
    assert_eq!(certificate["holds"], true);
    // A turn that was not used in time counts as well; its payment takes another.
    let sends = certificate["sends"].as_u64().unwrap();
    assert!(sends >= 150, "{certificate}");
    assert!(certificate["asOf"].is_string(), "today is not over");
    let past = "/admin/rate-limit/certificate?lane=default&date=2020-01-01";
    let past = get(pair.server.address, past).unwrap();
    assert_eq!(past.body["asOf"], Value::Null, "{}", past.text);
    let times: Vec<f64> = pair
        .bank
        .ledger()
        .entries()
        .iter()
        .map(|e| e.arrival.as_secs_f64())
        .collect();
    let worst = times
        .iter()
        .map(|start| {
            times
                .iter()
                .filter(|t| (*start..start + 1.0).contains(*t))
                .count()
        })
        .max();
    assert!(worst <= Some(100), "brute force over the ledger: {worst:?}");
    assert_eq!(
        certificate["limits"].as_array().unwrap().len(),
        2,
        "{certificate}"
    );
    let text = pair.tollgate(&["lanes", "certificate", "default"]).unwrap();
    assert!(
        text.contains("no sliding second had more sends than its limit"),
        "{text}"
    );
    assert!(text.contains("the period is not over"), "{text}");
    what_was_dispatched_names_its_batch(&pair);
    let svg = pair
        .tollgate(&["lanes", "certificate", "default", "--svg"])
        .unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains(&format!("{sends} sends")),
        "{svg}"
    );
    let totals = pair.tollgate(&["totals"]).unwrap();
    assert!(totals.contains("150 payments accepted"), "{totals}");
}

#[test]
fn what_operators_get_wrong_is_told_and_changes_nothing() {
    let pair = pair("");
    let address = pair.server.address;
    let before = get(address, "/admin/rate-limit/config").unwrap().body;
    let bad = [
        (
            json!({"configName": "default", "maxPerSecond": 0}),
            "pause the lane instead",
        ),
        (
            json!({"configName": "default", "maxPerWindow": 0}),
            "must be a whole number from 1",
        ),
        (
            json!({"configName": "default", "maxPerSecond": 1e9}),
            "must be a number of at most 100000",
        ),
        (
            json!({"configName": "default", "windowSizeSecs": 100_000}),
            "must be a whole number from 1 to 86400",
        ),
        (
            json!({"configName": "default", "calendar": "nope"}),
            "no calendar",
        ),
        (json!({"configName": "new"}), "required for a new lane"),
        (
            json!({"configName": "default", "maxPerWidow": 5}),
            "is unknown; known:",
        ),
    ];
    for (body, part) in bad {
        let answer = post(address, "/admin/rate-limit/config", &body).unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        assert!(
            answer.body.to_string().contains(part),
            "{body}: {}",
            answer.body
        );
    }
    let wrong = pair.put_calendar(&json!({
        "zone": "Mars/Olympus",
        "weekly": {"monday": ["17:00-09:00"], "tuesday": ["09:00-12:00", "11:00-13:00"]},
    }));
    let wrong = wrong.unwrap_err();
    for part in [
        "zone: \"Mars/Olympus\"",
        "weekly.monday[0]",
        "hours overlap",
    ] {
        assert!(wrong.contains(part), "{wrong}");
    }
    let never = json!({"zone": "UTC", "weekly": {}});
    assert!(
        pair.put_calendar(&never)
            .unwrap_err()
            .contains("never opens")
    );
    pair.put_calendar(&json!({"zone": "UTC"})).unwrap();
    let file = pair.file("holidays.txt", "2026-12-25 Christmas\n26.12.2026\n");
    let holidays = ["calendars", "holidays", "hours", &file, "--reason", "x"];
    assert!(pair.tollgate(&holidays).unwrap_err().contains("line 2"));
    assert_eq!(
        get(address, "/admin/rate-limit/config").unwrap().body,
        before
    );
}

#[test]
fn a_change_that_would_strand_everything_asks_for_confirmation() {
    let pair = pair("");
    let address = pair.server.address;
    let mut later = payment("p1");
    later["executeAt"] = json!(format!("{}T16:00:00Z", day_ahead(60)));
    pair.pay(&later);
    let closed = json!({"zone": "UTC", "blackouts": [
        {"from": "2020-01-01T00:00:00Z", "to": "2020-12-31T00:00:00Z", "reason": "x"}]});
    pair.put_calendar(&closed).unwrap();
    let attach = |confirm: bool| {
        let body = json!({"configName": "default", "calendar": "hours", "confirm": confirm});
        post(address, "/admin/rate-limit/config", &body).unwrap()
    };
    assert_eq!(attach(false).status, 200, "harmless");
    // Closed for most of a year from now on.
    let now: Timestamp = get(address, "/admin/lanes/default/history").unwrap().body[0]["since"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let end = now + Duration::from_hours(300 * 24);
    let strand = json!({"zone": "UTC", "blackouts": [
        {"from": now.to_string(), "to": end.to_string(), "reason": "x"}]});
    let refused = pair.put_calendar(&strand).unwrap_err();
    assert!(refused.contains("\"confirm\": true"), "{refused}");
    let file = pair.file("calendar.json", &strand.to_string());
    let put = [
        "calendars",
        "put",
        "hours",
        &file,
        "--reason",
        "x",
        "--confirm",
    ];
    pair.tollgate(&put).unwrap();
    let listed = pair.tollgate(&["lanes", "list"]).unwrap();
    assert!(listed.contains("closed by calendar"), "{listed}");
}
