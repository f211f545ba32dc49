//! The journeys of a shift, in a real browser, on one server from its empty start to its loss. What was sent
//! is told by the bank's own ledger.

use std::fmt::Write;

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;

use crate::fixture::browser::{Browser, DESK, PHONE};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::get;
use crate::fixture::pair::{Pair, pair_on, payment};
use crate::fixture::served::eventually;

/// More than a minute at the first limit: however slow the browser, there is still a storm to look at.
const PAYMENTS: usize = 800;

/// A person can only decide about what the bank does not recognise by its key.
const ASKS: &str = "downstream.payments.honours_idempotency_key = false\n";

#[test]
fn a_shift_at_the_console() {
    let url = database();
    let pair = pair_on(&url, ASKS);
    let browser = Browser::at(pair.server.address);
    an_empty_system_says_so_and_fits(&browser);
    a_file_with_bad_lines_goes_in_but_for_these(&pair, &browser);
    a_storm_is_seen_without_loading_the_page_again(&browser);
    a_limit_is_forecast_and_changed(&pair, &browser);
    a_pause_with_a_reason_stops_the_sends(&pair, &browser);
    the_rest_is_sent_at_once(&pair);
    a_payment_is_found_by_its_id(&browser);
    a_dead_letter_is_replayed_and_paid_once(&pair, &url, &browser);
    one_in_doubt_is_resolved_with_a_reason(&pair, &browser);
    // A decision may have to wait until a question to the bank is answered.
    assert_eq!(browser.complaints(&["409 (Conflict)"]), [""; 0]);
    a_lost_stream_says_so_and_comes_back(pair, &browser);
}

fn an_empty_system_says_so_and_fits(browser: &Browser) {
    let pages = [
        ("/", "nothing is waiting"),
        ("/console/lanes/default", "always open"),
        ("/console/payments", "There are none."),
        ("/console/needs-you", "Nothing needs attention."),
        ("/console/held", "Nothing is held."),
        ("/console/in-doubt", "Nothing is in doubt."),
        ("/console/imports", "No imports yet."),
        ("/console/feeds", "There are no feeds."),
        ("/console/invoices", "There are none."),
        ("/console/schedules", "0 0 1 * *"),
        ("/console/status-checks", "No status checks, or"),
        ("/console/dead-letters", "There are no dead letters."),
        ("/console/jobs", "No jobs yet."),
        ("/console/item-types", "enabled"),
        ("/console/audit", "who"),
        ("/console/totals", "There are none."),
        ("/console/archive", "Every day of the archive is in order."),
    ];
    for size in [PHONE, DESK] {
        browser.sized(size);
        for (path, words) in pages {
            browser.open(path);
            browser.sees(words);
            browser.is_whole();
        }
    }
}

fn a_file_with_bad_lines_goes_in_but_for_these(pair: &Pair, browser: &Browser) {
    pair.data(&[
        "lanes",
        "set",
        "default",
        "--max-per-second",
        "10",
        "--max-per-window",
        "40",
        "--reason",
        "so that there is a storm",
    ]);
    let ahead = ["types", "set", "PAYMENT", "--pre-start-buffer-mins", "0.02"];
    pair.data(&[&ahead[..], &["--reason", "no further than a second"]].concat());
    let mut lines = String::new();
    for n in 0..PAYMENTS {
        let _ = writeln!(lines, "{}", payment(&format!("p{n:03}")));
        if n == 1 {
            lines.push_str("{\"paymentId\": \"without\"}\nno JSON at all\n");
        }
    }
    let file = pair.setting.folder.path().join("night.ndjson");
    std::fs::write(&file, lines).unwrap();

    browser.open("/console/imports");
    browser.fill("A file of payments", &file.display().to_string());
    browser.click("Import");
    browser.sees("802 lines");
    browser.comes_to_see("DONE");
    let numbers = ["accepted", "duplicate", "rejected"].map(|name| browser.number(name));
    assert_eq!(numbers, ["800", "0", "2"]);
    assert_eq!(browser.all("tbody td.number:first-child"), ["3", "4"]);
    browser.sees("without");
    browser.is_whole();
}

fn a_storm_is_seen_without_loading_the_page_again(browser: &Browser) {
    browser.open("/");
    browser.script("window.same = true");
    let waiting = || -> u64 { browser.number("waiting").replace(',', "").parse().unwrap() };
    // What waits is counted every few seconds, so the first look may be from before the storm.
    let mut most = 0;
    browser.until("many wait, then fewer", || {
        let now = waiting();
        most = most.max(now);
        let worst = browser.number("worst second");
        let seen = (now, browser.all("svg .bar").len(), worst);
        let fewer = seen.0 < most && seen.1 > 0 && seen.2 != "0 of 10";
        let instead = || format!("{seen:?} after {most}");
        fewer.then_some(()).ok_or_else(instead)
    });
    assert_eq!(state(browser), "live");
    assert_eq!(browser.script("return window.same"), true);
    browser.is_whole();
}

/// What the first page says about its connection.
fn state(browser: &Browser) -> String {
    let state = browser.script("return document.querySelector('[data-live-state]').dataset.state");
    state.as_str().unwrap_or_default().to_owned()
}

fn lane(pair: &Pair) -> Value {
    let lanes = get(pair.server.address, "/admin/rate-limit/config").unwrap();
    let mut lanes = lanes.body.as_array().unwrap().clone().into_iter();
    lanes.find(|lane| lane["configName"] == "default").unwrap()
}

fn a_limit_is_forecast_and_changed(pair: &Pair, browser: &Browser) {
    browser.click("default");
    browser.fill("Additional items", "1000");
    browser.click("Forecast");
    browser.sees("none of the 1000 has a deadline");
    browser.click("Change the limit…");
    browser.fill("Hard limit per second", "60");
    browser.fill("Reason", "the bank allows it tonight");
    browser.click("Preview");
    browser.sees("60 a second instead of 10");
    assert_eq!(lane(pair)["maxPerSecond"], json!(10.0), "only asked so far");
    browser.click("Change the limit to 60 a second");
    browser.sees("The limit is changed");
    assert_eq!(lane(pair)["maxPerSecond"], json!(60.0));
    browser.sees("the bank allows it tonight");
}

fn a_pause_with_a_reason_stops_the_sends(pair: &Pair, browser: &Browser) {
    browser.click("Pause…");
    browser.fill("Reason", "the bank called");
    browser.click("Pause");
    browser.sees("The lane is paused.");
    // What had its turn gets its answer, and there is no other.
    pair.cycles(5);
    let before = pair.paid();
    pair.cycles(5);
    assert_eq!(pair.paid(), before, "nobody is paid in the pause");
    assert!(before.len() < PAYMENTS, "the storm was not over");
    browser.open("/");
    browser.sees("the bank called");
    browser.click("default");
    browser.fill("Reason", "it called again");
    browser.click("Resume");
    browser.sees("The lane is resumed.");
    pair.goes_on(1);
}

/// So that what comes now need not wait behind the storm.
fn the_rest_is_sent_at_once(pair: &Pair) {
    pair.data(&[
        "lanes",
        "set",
        "default",
        "--max-per-second",
        "500",
        "--max-per-window",
        "2000",
        "--reason",
        "more",
    ]);
    pair.data(&["lanes", "replan", "default", "--reason", "sooner"]);
}

fn a_payment_is_found_by_its_id(browser: &Browser) {
    browser.open("/console/payments");
    browser.fill("Id", "p123");
    browser.click("Find");
    browser.sees("Payment p123");
    browser.comes_to_see("PROCESSING (done)");
    browser.sees("125.50 USD");
    browser.sees("claimed by the dispatcher");
    browser.is_whole();
}

fn a_dead_letter_is_replayed_and_paid_once(pair: &Pair, url: &str, browser: &Browser) {
    let sql = |text: &str| pair.runtime.block_on(cluster::sql(url, text));
    let of = "item_body WHERE item_id = 'lost'";
    browser.open("/console/item-types");
    browser.click_in("PAYMENT", "Disable…");
    browser.fill("Reason", "to lose a body");
    browser.click("Disable PAYMENT");
    browser.sees("disabled");
    pair.pay(&payment("lost"));
    sql(&format!(
        "CREATE TABLE kept AS SELECT * FROM {of}; DELETE FROM {of}"
    ));
    // Without the notice of the first change, so that the next one is that of the second.
    browser.open("/console/item-types");
    browser.click_in("PAYMENT", "Enable…");
    browser.fill("Reason", "go on");
    browser.click("Enable PAYMENT");
    browser.sees("Saved. The change applies to every node.");

    browser.open("/console/dead-letters");
    browser.comes_to_see("its body is missing");
    browser.is_whole();
    sql("INSERT INTO item_body SELECT * FROM kept");
    browser.click("Replay…");
    browser.fill("Reason", "restored");
    browser.click("Replay");
    browser.sees("Replayed: it is back in the queue, as its next run.");
    eventually("it is paid", LONG, || {
        pair.paid().contains("lost").then_some(())
    });
    assert_eq!(pair.bank.ledger().effective()["lost"], 1);
}

fn one_in_doubt_is_resolved_with_a_reason(pair: &Pair, browser: &Browser) {
    let silent = "sends of payment unsure: reset after; probes: 500";
    pair.bank.set_faults(silent.parse().unwrap());
    pair.pay(&payment("unsure"));
    browser.open("/");
    browser.sees("In doubt: 1");
    browser.sees("125.50 USD");
    browser.is_whole();
    // The bank is asked meanwhile, or it is sent again under its key, which makes an older page worthless.
    let told = [
        "Resolved. It is no longer in doubt.",
        "try again in a moment",
        "look again",
    ];
    browser.until("nobody asks the bank meanwhile", || {
        browser.open("/console/in-doubt");
        browser.click("unsure");
        browser.click("it was paid");
        browser.fill("Evidence", "asked the bank");
        browser.click("Resolve");
        let seen = browser.sees_one_of(&told);
        let recorded = seen == told[0];
        recorded.then_some(()).ok_or_else(|| seen.to_owned())
    });
    browser.open("/console/payments/unsure");
    browser.sees("resolved by local: done: asked the bank");
    assert_eq!(pair.bank.ledger().effective()["unsure"], 1);
    let log = pair.server.log();
    let is_told = |line: &String| line.contains("a person acted") && line.contains("resolved");
    assert!(log.iter().any(is_told), "{log:?}");
}

/// How many things are shown as good.
const GREEN: &str = "
    const good = getComputedStyle(document.documentElement).getPropertyValue('--good').trim();
    const probe = document.createElement('i');
    probe.style.color = good;
    document.body.append(probe);
    const green = getComputedStyle(probe).color;
    probe.remove();
    return [...document.querySelectorAll('main *')].filter(it => it.checkVisibility()
        && (getComputedStyle(it).color === green
            || getComputedStyle(it).borderLeftColor === green)).length";

fn a_lost_stream_says_so_and_comes_back(pair: Pair, browser: &Browser) {
    browser.open("/");
    browser.script("window.same = true");
    let is = |wanted: &'static str| {
        browser.until(&format!("the page is {wanted}"), || {
            let state = state(browser);
            if state == wanted { Ok(()) } else { Err(state) }
        });
    };
    is("live");
    let address = pair.server.address;
    pair.server.kill();
    is("lost");
    browser.sees("Connection lost: the data below may be old. Reconnecting…");
    let title = browser.script("return document.title");
    assert_eq!(
        title, "(?) Now · Tollgate",
        "nobody knows what needs a person"
    );
    assert_eq!(browser.script(GREEN), 0, "what may be old is not green");
    let _server = pair.setting.start(&address.to_string());
    is("live");
    assert_eq!(browser.script("return window.same"), true);
}
