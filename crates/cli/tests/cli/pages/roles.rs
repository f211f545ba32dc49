//! Sessions in a real browser: each role sees and may do its own, sessions end, and two operators who change
//! one lane do not overwrite each other.

use serde_json::{Value, json};

use crate::fixture::browser::Browser;
use crate::fixture::pair::pair;
use crate::fixture::tokens::{Token, auth, call, of_each_role, token};

const LANE: &str = "/console/lanes/default";

#[test]
fn each_role_sees_and_may_do_only_its_own_in_a_session_that_ends() {
    let roles = of_each_role();
    let other = token("b-operate", "operate");
    let [ingest, read, operate] = &roles;
    let pair = pair(&auth(&[ingest, read, operate, &other]));
    let browser = Browser::at(pair.server.address);
    let lane = || -> Value {
        let lanes = "/admin/rate-limit/config";
        let told = call(pair.server.address, Some(&other.text), "GET", lanes, "");
        told.body[0].clone()
    };

    nobody_gets_in_with_a_wrong_token(&browser);
    who_hands_payments_in_sees_no_lanes(&browser, ingest);
    who_reads_sees_all_and_acts_on_nothing(&browser, read);
    who_operates_may_act(&browser, operate);
    an_act_after_the_end_of_a_session_does_nothing(&browser);
    assert_eq!(lane()["open"], true);
    the_page_that_was_asked_for_comes_after_signing_in(&browser, operate);

    browser.open(LANE);
    browser.click("Pause…");
    browser.fill("Reason", "a was second");
    let first = json!({"reason": "b was first"}).to_string();
    let pause = "/admin/lanes/default/pause";
    let told = call(
        pair.server.address,
        Some(&other.text),
        "POST",
        pause,
        &first,
    );
    assert_eq!(told.status, 200, "{}", told.text);
    browser.click("Pause");
    browser.sees("this lane was changed after you opened the page");
    browser.sees("Nothing was changed.");
    assert_eq!(lane()["pause"]["reason"], "b was first");
    browser.open(LANE);
    browser.sees("Paused by b-operate: b was first");

    let answers = ["401 (Unauthorized)", "403 (Forbidden)", "409 (Conflict)"];
    assert_eq!(browser.complaints(&answers), [""; 0]);
}

fn sign_in(browser: &Browser, token: &str) {
    browser.fill("Your token", token);
    browser.click("Sign in");
}

fn enter(browser: &Browser, token: &Token) {
    browser.forget_session();
    browser.open("/");
    sign_in(browser, &token.text);
}

fn has(browser: &Browser, name: &str) -> bool {
    browser.all("nav a").iter().any(|it| it == name)
}

fn nobody_gets_in_with_a_wrong_token(browser: &Browser) {
    browser.open("/");
    browser.sees("Sign in to continue");
    sign_in(browser, "tg_wrong");
    browser.sees("Unknown token.");
    browser.is_whole();
    browser.open("/console/payments");
    browser.sees("Your token");
}

fn who_hands_payments_in_sees_no_lanes(browser: &Browser, token: &Token) {
    enter(browser, token);
    browser.sees("a-ingest");
    assert_eq!(browser.address(), "/console/payments");
    browser.sees("Your token only allows you to look up individual payments by id.");
    let shown = ["Payments", "Imports", "Now", "In doubt", "Audit"].map(|name| has(browser, name));
    assert_eq!(shown, [true, true, false, false, false]);
    browser.open(LANE);
    browser.sees("Not allowed");
    browser.open("/console/imports");
    browser.sees("A file of payments");
}

fn who_reads_sees_all_and_acts_on_nothing(browser: &Browser, token: &Token) {
    enter(browser, token);
    browser.sees("a-read");
    browser.sees("nothing is waiting");
    let shown = ["Payments", "Imports", "Now", "In doubt", "Audit"].map(|name| has(browser, name));
    assert_eq!(shown, [true; 5]);
    let pages = [
        "/console/imports",
        LANE,
        "/console/item-types",
        "/console/jobs",
        "/console/dead-letters",
    ];
    for page in pages {
        browser.open(page);
        browser.sees("a-read");
        let acts = browser.all("main form[method=post]");
        assert_eq!(acts, [""; 0], "{page}");
    }
}

fn who_operates_may_act(browser: &Browser, token: &Token) {
    enter(browser, token);
    browser.sees("a-operate");
    for (page, act) in [(LANE, "Pause…"), ("/console/item-types", "Disable…")] {
        browser.open(page);
        browser.sees(act);
    }
}

fn an_act_after_the_end_of_a_session_does_nothing(browser: &Browser) {
    browser.open(LANE);
    browser.click("Pause…");
    browser.fill("Reason", "too late");
    browser.forget_session();
    browser.click("Pause");
    browser.sees("Your token");
}

fn the_page_that_was_asked_for_comes_after_signing_in(browser: &Browser, token: &Token) {
    browser.open("/console/audit?actor=a-operate");
    browser.sees("Sign in to continue. A session ends after twelve hours.");
    sign_in(browser, &token.text);
    browser.sees("No entries.");
    assert_eq!(browser.address(), "/console/audit?actor=a-operate");
    browser.click("Sign out");
    browser.sees("You have signed out.");
    browser.open("/");
    browser.sees("Sign in to continue");
    sign_in(browser, &token.text);
    browser.sees("nothing is waiting");
}
