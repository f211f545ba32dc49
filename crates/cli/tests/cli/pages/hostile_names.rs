//! What people name things and write as reasons, as hostile as it can be, in a real browser: it stays text,
//! nothing of it runs, and the pages stay whole on a desk and on a phone.

use std::fmt::Write;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::files::bulk::{done, later};
use crate::fixture::browser::{Browser, DESK, PHONE};
use crate::fixture::http::{post, post_raw, put};
use crate::fixture::pair::pair;

/// Ends whatever it stands in, runs what it can, and turns the line around.
const NASTY: &str = "</td></script>'\"><script>window.ran=1;alert(1)</script>\
    <img src=x onerror=window.ran=1><svg onload=window.ran=1>\u{202e}\u{5e9}\u{5dc}\u{5d5}\u{5dd}";

/// The same, and a word that no line can hold.
fn endless() -> String {
    NASTY.to_owned() + &"W".repeat(10_000)
}

/// The same, as long as a reason may be.
fn reason() -> String {
    endless().chars().take(500).collect()
}

fn done_with(address: SocketAddr, path: &str, body: &Value) {
    let answer = post(address, path, body).unwrap();
    assert!(answer.status < 300, "{path}: {}", answer.text);
}

#[test]
fn hostile_names_stay_text_and_pages_stay_whole() {
    let pair = pair("");
    let address = pair.server.address;
    let because = json!({"reason": reason()});
    done_with(address, "/admin/lanes/default/pause", &because);
    let name = format!("lane-{}", "x".repeat(120));
    done_with(
        address,
        "/admin/rate-limit/config",
        &json!({"configName": name, "maxPerSecond": 1, "maxPerWindow": 4, "windowSizeSecs": 4,
                "reason": reason()}),
    );
    let off = json!({"enabled": false, "reason": reason()});
    let switched = put(address, "/admin/item-types/PAYMENT", &off);
    assert_eq!(switched.unwrap().status, 200);
    let id = "i".repeat(128);
    done_with(address, "/payments", &named(&id));
    done_with(address, "/payments", &named("gone"));
    done_with(address, "/payments/gone/cancel", &because);
    // Refused: what is told of it is the page of one that was not taken in.
    let mut circle = named("circle");
    circle["creditor"] = circle["debtor"].clone();
    assert_eq!(post(address, "/payments", &circle).unwrap().status, 422);
    let batch = hostile_file(address);

    let browser = Browser::at(address);
    let pages = hostile_pages(&name, &id, &batch);
    for size in [DESK, PHONE] {
        browser.sized(size);
        for page in &pages {
            browser.open(page);
            browser.is_whole();
        }
    }
    browser.open("/");
    browser.sees("<script>window.ran=1;alert(1)</script>");
    browser.until("it is live", || {
        let state = browser
            .script("return document.querySelector('[data-live-state]').dataset.state ?? ''");
        (state == "live")
            .then_some(())
            .ok_or_else(|| state.to_string())
    });
    browser.is_whole();
    let answers = ["400 (Bad Request)", "404 (Not Found)"];
    assert_eq!(browser.complaints(&answers), [""; 0]);
}

/// Every page, asked for with such names where it takes one.
fn hostile_pages(lane: &str, id: &str, batch: &str) -> Vec<String> {
    let asked = in_an_address(NASTY);
    vec![
        "/".to_owned(),
        "/console/lanes/default".to_owned(),
        format!("/console/lanes/default?whatIf=5&reason={asked}"),
        "/console/lanes/default/adjust?plan=5".to_owned(),
        format!("/console/lanes/{lane}"),
        "/console/payments".to_owned(),
        format!("/console/payments?lane={asked}"),
        format!("/console/payments/{id}"),
        format!("/console/payments/{asked}"),
        "/console/payments/gone".to_owned(),
        "/console/payments/circle".to_owned(),
        format!("/console/imports/{batch}"),
        "/console/imports".to_owned(),
        "/console/feeds".to_owned(),
        format!("/console/invoices/{asked}"),
        format!("/console/schedules?cron={asked}&zone={asked}"),
        format!("/console/status-checks?id={asked}"),
        "/console/jobs".to_owned(),
        "/console/item-types".to_owned(),
        "/console/needs-you".to_owned(),
        "/console/held".to_owned(),
        "/console/audit".to_owned(),
        "/console/archive".to_owned(),
        format!("/console/archive?before={asked}"),
        format!("/console/archive/2026-10-16?type=PAYMENT&account={asked}"),
        format!("/console/audit?actor={asked}&item={asked}"),
        format!("/console/totals?zone={asked}"),
    ]
}

fn in_an_address(text: &str) -> String {
    text.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "%{byte:02X}");
        text
    })
}

/// As hostile as a payment that is taken in can be.
fn named(id: &str) -> Value {
    let name: String = NASTY.chars().take(140).collect();
    let mut payment = later(id);
    payment["reference"] = name.as_str().into();
    payment["debtor"]["name"] = name.as_str().into();
    let account: String = name.chars().take(64).collect();
    payment["debtor"]["account"] = account.into();
    payment["creditor"]["name"] = name.into();
    payment
}

/// A file whose lines are all rejected, and told with what stood in them.
fn hostile_file(address: SocketAddr) -> String {
    let mut field = named("odd");
    field[endless()] = 1.into();
    let lines = format!("{}\n{field}\n{NASTY}\n", named(&endless()));
    let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &lines).unwrap();
    let batch = taken.body["batchId"].as_str().unwrap().to_owned();
    assert_eq!(done(address, &batch)["rejected"], 3);
    batch
}
