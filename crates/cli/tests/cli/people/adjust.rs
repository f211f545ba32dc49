//! Deadlines at risk, from the list of what needs a person to the one act that cures them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::Timestamp;

use crate::checks::status_checks::LONG;
use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::eventually;
use crate::pages::console::{Reader, header};

/// One a minute, and three payments that are due and late within the same minute.
fn slow_lane() -> Pair {
    let pair = pair("");
    let address = pair.server.address;
    let slow = json!({"configName": "default", "maxPerWindow": 1, "windowSizeSecs": 60,
                      "maxPerSecond": 1, "reason": "a slow bank"});
    let changed = post(address, "/admin/rate-limit/config", &slow).unwrap();
    assert_eq!(changed.status, 200, "{}", changed.text);
    let now = get(address, "/admin/now").unwrap().body;
    let now: Timestamp = now["now"].as_str().unwrap().parse().unwrap();
    let minute = now.as_second().div_euclid(60) * 60 + 3600;
    let due = Timestamp::from_second(minute).unwrap();
    for id in ["p1", "p2", "p3"] {
        let mut wish = payment(id);
        wish["executeAt"] = json!(due.to_string());
        wish["deadline"] = json!((due + Duration::from_secs(50)).to_string());
        pair.pay(&wish);
    }
    pair
}

fn at_risk(pair: &Pair) -> Option<Value> {
    let told = get(pair.server.address, "/admin/needs-you").unwrap().body;
    let mut needs = told["needs"].as_array().unwrap().iter();
    needs.find(|it| it["kind"] == "deadlines-at-risk").cloned()
}

fn hidden(page: &str, field: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("name=\"{field}\" value=\""))
        .unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn deadlines_at_risk_are_cured_in_one_previewed_act() {
    let pair = slow_lane();
    let need = eventually("two are at risk", LONG, || {
        at_risk(&pair).filter(|it| it["count"] == 2)
    });
    assert_eq!(need["console"], "/console/lanes/default/adjust");
    a_stale_preview_changes_nothing(pair.server.address);
    the_console_adjusts_once(&pair);
    the_command_adjusts(&pair);
}

fn a_stale_preview_changes_nothing(address: SocketAddr) {
    let list = get(address, "/payments?lane=default&atRisk=true")
        .unwrap()
        .body;
    let listed = list["payments"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{list}");

    let wish = json!({"dryRun": true});
    let adjust = "/admin/lanes/default/adjust";
    let preview = post(address, adjust, &wish).unwrap().body;
    assert_eq!(preview["effect"]["missedBefore"], 2, "{preview}");
    assert_eq!(preview["effect"]["missedAfter"], 0, "{preview}");
    assert_eq!(preview["binds"], "plan", "{preview}");
    assert_eq!(
        preview["after"]["maxPerWindow"],
        preview["enough"]["maxPerWindow"]
    );
    let mut confirmed = json!({"reason": "the bank agreed", "digest": preview["digest"],
        "maxPerSecond": preview["after"]["maxPerSecond"],
        "maxPerWindow": preview["after"]["maxPerWindow"]});
    let other = json!({"configName": "default", "maxPerSecond": 2, "reason": "meanwhile"});
    assert_eq!(
        post(address, "/admin/rate-limit/config", &other)
            .unwrap()
            .status,
        200
    );
    let stale = post(address, adjust, &confirmed).unwrap();
    assert_eq!(
        (stale.status, &stale.body["code"]),
        (409, &json!("preview_stale"))
    );
    let lane = get(address, "/admin/rate-limit/config").unwrap().body[0].clone();
    assert_eq!(lane["maxPerWindow"], 1, "nothing was done: {lane}");
    confirmed["digest"] = json!("none");
    assert_eq!(post(address, adjust, &confirmed).unwrap().status, 400);
}

fn the_console_adjusts_once(pair: &Pair) {
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let page = reader.page("/console/lanes/default/adjust").text;
    assert!(page.contains("<dd>the plan</dd>"), "{page}");
    let fields = ["csrf", "digest", "limit", "plan", "window", "calendar"];
    let (_, form) = page
        .split_once("<form method=\"post\" action=\"/console/lanes")
        .unwrap();
    let fields = fields.map(|field| format!("{field}={}", hidden(form, field)));
    let fields = format!("{}&reason=the+bank+agreed", fields.join("&"));
    let done = reader.form("/console/lanes/default/adjust", &fields);
    let there = "/console/lanes/default?done=adjusted";
    assert_eq!(
        (done.status, header(&done, "location")),
        (303, there),
        "{}",
        done.text
    );
    eventually("none is at risk", LONG, || {
        at_risk(pair).is_none().then_some(())
    });
    let again = reader.form("/console/lanes/default/adjust", &fields);
    assert_eq!(again.status, 409, "once: {}", again.text);
    let trail = get(address, "/admin/audit?action=REPLAN_BEGUN")
        .unwrap()
        .body;
    assert!(
        trail["entries"][0]["detail"]
            .to_string()
            .contains("the bank agreed")
    );
}

fn the_command_adjusts(pair: &Pair) {
    let wider = [
        "lanes",
        "adjust",
        "default",
        "--max-per-second",
        "9",
        "--max-per-window",
        "90",
    ];
    let told = pair.tollgate(&wider).unwrap();
    let (_, rest) = told.split_once("--digest ").unwrap();
    let digest = rest.split(' ').next().unwrap();
    let apply = [&wider[..], &["--digest", digest, "--reason", "more room"]].concat();
    let told = pair.tollgate(&apply).unwrap();
    assert!(
        told.contains("90 per 60 s") && told.contains("waiting"),
        "{told}"
    );
}
