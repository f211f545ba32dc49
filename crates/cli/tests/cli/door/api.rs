//! The API over HTTP: what callers send, and what they are told.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::footing::{Footing, LONG, on_both_footings, take_in};
use crate::fixture::http::{get, post, post_async, post_raw};
use crate::fixture::pair::{day_ahead, pair, payment};
use crate::fixture::served::{BINARY, Setting, eventually};

on_both_footings!(
    a_payment_is_planned_sent_and_told_about,
    the_same_id_again_changes_nothing_and_other_content_is_refused,
    one_id_posted_a_hundred_times_at_once_is_one_payment,
    a_payment_that_was_acknowledged_and_then_refused_tells_by_which_rule,
    a_paused_lane_sends_nothing_says_why_and_goes_on_when_resumed,
);

fn far(mut payment: Value) -> Value {
    payment["executeAt"] = json!(format!("{}T16:00:00[America/Phoenix]", day_ahead(60)));
    payment["deadline"] = json!(format!("{}T23:00:01Z", day_ahead(60)));
    payment
}

fn a_payment_is_planned_sent_and_told_about(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    // How long a payment takes from its slot to its turn, while none has been measured.
    let least = match footing {
        Footing::Embedded => 20,
        Footing::Temporal(_) => 1000,
    };
    assert_eq!(pair.default_lane()["slotToTurnMs"], least);
    let answer = take_in(address, &payment("pay_1"));
    // Asked a second time, it is told how far it is by then.
    assert!(answer.status == 200 || answer.body["status"] == "SCHEDULED");
    assert_eq!(answer.body["lane"], "default");
    assert_eq!(answer.body["initWorkflowId"], "init-payment-pay_1");
    pair.runtime
        .block_on(pair.bank.ledger().wait_for_arrivals(1));
    let seen = eventually("the payment ends", LONG, || {
        let seen = get(address, "/payments/pay_1").unwrap();
        (seen.body["status"] == "PROCESSING").then_some(seen.body)
    });
    assert_eq!(seen["amount"], "125.50");
    assert_eq!(seen["attempts"][0]["outcome"], "DONE");
    let what: Vec<_> = seen["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["what"].as_str().unwrap())
        .collect();
    assert_eq!(what.first(), Some(&"accepted"));
    assert!(
        what.contains(&"sent to the bank") && what.contains(&"the bank confirmed it"),
        "{what:?}"
    );
    let entry = &pair.bank.ledger().entries()[0];
    assert_eq!(entry.key.as_deref(), Some("payment-pay_1"));
    assert_eq!(entry.amount.as_deref(), Some("125.50"));
}

fn the_same_id_again_changes_nothing_and_other_content_is_refused(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let first = take_in(address, &far(payment("pay_1")));
    assert_eq!(first.body["meetsDeadline"], true);
    let mut same = far(payment("pay_1"));
    same["amount"] = json!("125.50");
    let mut again = post(address, "/payments", &same).unwrap();
    // The time of the estimate; the machine may have been busy for a second.
    again.body["asOf"] = first.body["asOf"].clone();
    assert_eq!((again.status, &again.body), (200, &first.body));
    let mut other = far(payment("pay_1"));
    other["amount"] = json!("125.51");
    let refused = post(address, "/payments", &other).unwrap();
    assert_eq!(refused.status, 409);
    assert!(refused.body["error"].as_str().unwrap().contains("pay_1"));
}

#[test]
fn content_that_is_not_taken_is_never_acknowledged() {
    let pair = pair("");
    let address = pair.server.address;
    for n in 0..30 {
        let one = far(payment(&format!("pay_{n}")));
        let mut other = one.clone();
        other["amount"] = json!("900.00");
        let first = post_async(address, "/payments", &one).unwrap();
        assert!(matches!(first.status, 201 | 202), "{}", first.body);
        let second = post_async(address, "/payments", &other).unwrap();
        assert!(
            matches!(second.status, 409 | 503),
            "{}: {}",
            second.status,
            second.body
        );
    }
}

fn one_id_posted_a_hundred_times_at_once_is_one_payment(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..100)
            .map(|n| {
                scope.spawn(move || {
                    let mut body = far(payment("pay_1"));
                    if n % 4 == 0 {
                        body["reference"] = json!("another");
                    }
                    eventually("it is known", LONG, || {
                        let answer = post(address, "/payments", &body).unwrap();
                        (!matches!(answer.status, 202 | 503)).then_some(answer)
                    })
                })
            })
            .collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    let count = |status: u16| answers.iter().filter(|a| a.status == status).count();
    // On Temporal all may have been told to wait, and asked again.
    let waited = usize::from(count(201) == 0 && matches!(footing, Footing::Temporal(_)));
    assert_eq!(count(201) + waited, 1, "one is new");
    assert_eq!(
        count(200) + count(409),
        99 + waited,
        "the others are repeats or conflicts"
    );
    assert!(
        count(409) == 25 || count(409) == 75,
        "sameness is judged by content: {}",
        count(409)
    );
    let totals = get(address, "/admin/totals").unwrap().body;
    assert_eq!(totals["payments"][0]["count"], 1);
}

fn a_payment_that_was_acknowledged_and_then_refused_tells_by_which_rule(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let mut circle = far(payment("pay_1"));
    circle["creditor"] = circle["debtor"].clone();
    let mut late = payment("pay_2");
    late["executeAt"] = json!("2020-01-01T00:00:00Z");
    for (wrong, why) in [(&circle, "distinct_accounts"), (&late, "executeAt")] {
        let answer = eventually("it is acknowledged", LONG, || {
            let answer = post_async(address, "/payments", wrong).unwrap();
            (answer.status != 503).then_some(answer)
        });
        assert!(matches!(answer.status, 202 | 400 | 422), "{}", answer.text);
        let id = wrong["paymentId"].as_str().unwrap();
        let told = eventually("it is refused", LONG, || {
            let told = get(address, &format!("/payments/{id}")).unwrap();
            assert_eq!(told.status, 200, "{}", told.text);
            (told.body["status"] != "INITIALIZING").then_some(told.body)
        });
        assert_eq!(told["status"], "REJECTED");
        assert!(told["details"][why].is_string(), "{told}");
        let shown = pair.tollgate(&["payments", "show", id]).unwrap();
        assert!(shown.contains(&format!("refused: {why}: ")), "{shown}");
    }
    assert_eq!(get(address, "/payments/nobody").unwrap().status, 404);
    let corrected = take_in(address, &far(payment("pay_1")));
    assert_eq!(corrected.body["status"], "SCHEDULED");
    assert_eq!(pair.shown("pay_1")["status"], "SCHEDULED");
}

#[test]
fn bad_input_is_told_field_by_field_and_nothing_is_written() {
    let pair = pair("");
    let address = pair.server.address;
    let wrong = json!({"paymentId": "x y", "amount": "1.234", "currency": "USD", "debtor": {}, "executeAt": "soon", "x": 1});
    let answer = post(address, "/payments", &wrong).unwrap();
    assert_eq!(
        (answer.status, &answer.body["error"]),
        (400, &json!("Validation failed"))
    );
    let fields: Vec<_> = answer.body["details"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(
        fields,
        [
            "amount",
            "creditor",
            "debtor.account",
            "debtor.name",
            "executeAt",
            "paymentId",
            "x"
        ]
    );

    let mut late = payment("pay_1");
    late["executeAt"] = json!("2020-01-01T00:00:00Z");
    let answer = post(address, "/payments", &late).unwrap();
    assert_eq!(answer.status, 400);
    assert!(
        answer.body["details"]["executeAt"]
            .as_str()
            .unwrap()
            .contains("24 hours")
    );
    assert_eq!(
        post(address, "/payments", &late).unwrap().status,
        400,
        "the same refusal again"
    );
    assert_eq!(
        post(address, "/payments", &far(payment("pay_1")))
            .unwrap()
            .status,
        201,
        "a correction is taken"
    );

    let mut circle = payment("pay_2");
    circle["creditor"] = circle["debtor"].clone();
    let answer = post(address, "/payments", &circle).unwrap();
    assert_eq!(answer.status, 422);
    assert!(answer.body["details"]["distinct_accounts"].is_string());

    let raw = |kind, body: &str| post_raw(address, "/payments", kind, body).unwrap().status;
    assert_eq!(raw("application/json", "{"), 400);
    assert_eq!(raw("text/plain", "{}"), 415);
    assert_eq!(
        raw("application/json", &format!("\"{}\"", "x".repeat(70_000))),
        413
    );
    assert_eq!(get(address, "/payments/nobody").unwrap().status, 404);
    assert_eq!(get(address, "/payments/p1/cancel").unwrap().status, 405);
    assert_eq!(get(address, "/elsewhere").unwrap().status, 404);
    let totals = get(address, "/admin/totals").unwrap().body;
    assert_eq!(totals["payments"].as_array().unwrap().len(), 1, "{totals}");
}

#[test]
fn a_bank_on_an_unknown_lane_stops_the_start_and_says_how_to_make_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let lane = "downstream.payments.lane = \"acme\"\n";
    let setting = Setting::new(&bank, lane);
    let started = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(setting.config("127.0.0.1:0"))
        .output()
        .unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert!(!started.status.success(), "{said}");
    assert!(said.contains("lane: \"acme\" does not exist"), "{said}");
    assert!(said.contains("[lanes.acme]"), "{said}");
    let made = format!("{lane}[lanes.acme]\nmax_per_window = 100\nwindow_size_secs = 4\n");
    let setting = Setting::new(&bank, &made);
    let server = setting.start("127.0.0.1:0");
    let answer = post(server.address, "/payments", &payment("pay_1")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one lane's history, read top down")]
fn lanes_are_configured_by_version_and_impossible_limits_change_nothing() {
    let pair = pair("");
    let address = pair.server.address;
    let config = |body: Value| post(address, "/admin/rate-limit/config", &body).unwrap();
    let raised = config(
        json!({"configName": "default", "maxPerWindow": 200, "windowSizeSecs": 4, "reason": "agreed"}),
    );
    assert_eq!(raised.status, 200);
    assert_eq!(
        raised.body["maxPerSecond"], 50.0,
        "an omitted field keeps its value"
    );
    assert_eq!(raised.body["version"], 2);
    assert!(raised.body["effectiveAt"].is_string());
    let bad = [
        (
            json!({"configName": "default", "maxPerWindow": 0}),
            "maxPerWindow",
        ),
        (
            json!({"configName": "default", "windowSizeSecs": 0}),
            "windowSizeSecs",
        ),
        (
            json!({"configName": "default", "maxPerSecond": 0}),
            "pause the lane",
        ),
        (
            json!({"configName": "default", "maxPerSecond": -5}),
            "maxPerSecond",
        ),
        (
            json!({"configName": "default", "maxPerWindow": -1}),
            "whole number from 1",
        ),
        (json!({"configName": "new"}), "maxPerWindow"),
        (
            json!({"configName": "a b", "maxPerWindow": 1, "windowSizeSecs": 1}),
            "configName",
        ),
        (json!({"configName": "default", "colour": "red"}), "colour"),
    ];
    for (body, word) in bad {
        let answer = config(body.clone());
        assert_eq!(answer.status, 400, "{body}");
        assert!(
            answer.body.to_string().contains(word),
            "{body}: {}",
            answer.body
        );
    }
    let lanes = get(address, "/admin/rate-limit/config").unwrap().body;
    let names: Vec<_> = lanes
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["configName"].as_str())
        .collect();
    assert_eq!(names, [Some("default"), Some("invoices")]);
    assert_eq!(lanes[0]["version"], 2);

    let unsaid = config(json!({"configName": "default", "maxPerWindow": 150}));
    assert_eq!(unsaid.body["version"], 3, "{}", unsaid.body);
    let history = get(address, "/admin/lanes/default/history").unwrap().body;
    assert_eq!(history[0]["reason"], "no reason given");
    assert_eq!(history[1]["reason"], "agreed");
    eventually("the log tells both changes", LONG, || {
        let log = pair.server.log().join("\n");
        ["100->200", "200->150"]
            .map(|change| format!("Config updated: default maxPerWindow={change}"))
            .iter()
            .all(|line| log.contains(line))
            .then_some(())
    });
}

fn a_paused_lane_sends_nothing_says_why_and_goes_on_when_resumed(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let because = |reason: &str| json!({"reason": reason});
    let change = |path: &str, body: &Value| post(address, path, body).unwrap();
    assert_eq!(
        change("/admin/lanes/default/pause", &because(" ")).status,
        400,
        "a reason is wanted"
    );
    assert_eq!(
        change("/admin/lanes/nobody/pause", &because("x")).status,
        404
    );
    let paused = change("/admin/lanes/default/pause", &because("the bank is down"));
    assert_eq!(
        (paused.status, &paused.body["pause"]["reason"]),
        (200, &json!("the bank is down"))
    );
    take_in(address, &payment("pay_1"));
    let seen = get(address, "/payments/pay_1").unwrap().body;
    assert!(
        seen["whyNotRunning"]
            .as_str()
            .unwrap()
            .contains("the bank is down"),
        "{seen}"
    );
    assert_eq!(seen["estimate"], Value::Null, "nobody can say");
    assert_eq!(
        change("/admin/lanes/default/resume", &because("it is back")).status,
        200
    );
    pair.runtime
        .block_on(pair.bank.ledger().wait_for_arrivals(1));
}

#[test]
fn health_and_accounts_answer() {
    let pair = pair("");
    let address = pair.server.address;
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(get(address, path).unwrap().status, 200, "{path}");
    }
    assert_eq!(
        get(
            address,
            "/admin/totals?date=2026-11-16&zone=America/Phoenix"
        )
        .unwrap()
        .status,
        200
    );
    for bad in [
        "/admin/totals?date=yesterday",
        "/admin/totals?zone=Mars/Base",
    ] {
        assert_eq!(get(address, bad).unwrap().status, 400, "{bad}");
    }
    assert_eq!(
        get(address, "/admin/rate-limit/certificate?lane=nobody")
            .unwrap()
            .status,
        404
    );
    let certificate = get(address, "/admin/rate-limit/certificate").unwrap();
    assert_eq!(
        (certificate.status, &certificate.body["sends"]),
        (200, &json!(0))
    );
    assert!(!certificate.head.contains("retry-after"));
    assert!(certificate.body["asOf"].is_string(), "today is not over");
    let text = get(address, "/admin/rate-limit/certificate?format=text").unwrap();
    assert!(
        text.text.contains("the period is not over"),
        "{}",
        text.text
    );
    let past = get(address, "/admin/rate-limit/certificate?date=2020-02-29").unwrap();
    assert_eq!(past.body["asOf"], Value::Null, "{}", past.text);
}
