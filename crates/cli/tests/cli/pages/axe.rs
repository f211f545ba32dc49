//! Every page of the console under axe, on a desk, on a phone and in the dark: no violation; on a phone, no page scrolls
//! sideways; and on neither is a word broken in the middle.

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;
use tollgate_core::Timestamp;

use crate::files::bulk::{done, later};
use crate::fixture::browser::{Browser, DESK, PHONE};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair_on, payment};
use crate::fixture::served::eventually;
use crate::pages::pictures::{billed, checked, clock};

/// Runs axe with all rules, or with those whose answer the width or the dark changes.
const RUN: &str = "return axe.run(document, {resultTypes: ['violations'], preload: false, RULES})
    .then(found => found.violations.map(it =>
        it.id + ': ' + it.nodes.slice(0, 3).map(node => node.html.slice(0, 160)).join(' | ')))";
const ALL: &str = "elementRef: false";
const NARROW: &str = "runOnly: ['color-contrast', 'target-size', 'scrollable-region-focusable', 'link-in-text-block']";
const DARK: &str = "runOnly: ['color-contrast', 'link-in-text-block']";

/// Words that lie on more than one line. A text without spaces, such as JSON, must break somewhere: in the cell of a
/// table between its words, elsewhere anywhere.
const BROKEN: &str = "
    const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (!text.parentElement.checkVisibility()) continue;
      const words = text.parentElement.closest('td, th')
        ? /(?<![A-Za-z0-9_])[A-Za-z0-9_]{2,30}(?![A-Za-z0-9_])/g
        : /(?<!\\S)[(]?[A-Za-z]{2,24}[.,:;)]?(?!\\S)/g;
      for (const word of text.data.matchAll(words)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map(it => Math.round(it.top)));
        if (tops.size > 1) broken.push(word[0]);
      }
    }
    return broken";

#[test]
fn every_page_passes_axe_on_a_desk_on_a_phone_and_in_the_dark() {
    let axe = std::env::var("TGTEST_AXE").expect("TGTEST_AXE: axe-core comes with ./dev setup");
    let axe = std::fs::read_to_string(axe).unwrap();
    let url = database();
    let settings = "downstream.payments.honours_idempotency_key = false\nsweep.interval_secs = 1\n";
    let pair = pair_on(&url, settings);
    let mut pages = trouble(&pair, &url);
    let browser = Browser::at(pair.server.address);
    pages.extend(menu(&browser));
    let mut wrong = vec![];
    for page in &pages {
        browser.open(page);
        wrong.extend(looked_at(&browser, &axe, page));
    }
    browser.open("/console/held");
    browser.click("Act on all…");
    browser.click("Release all…");
    browser.sees("Confirm: release");
    wrong.extend(looked_at(&browser, &axe, "a preview"));
    assert!(pages.len() > 25, "{pages:?}");
    assert_eq!(wrong, [""; 0]);
}

/// The page that is open, in each way.
fn looked_at(browser: &Browser, axe: &str, page: &str) -> Vec<String> {
    browser.inject("axe", axe);
    let mut wrong = vec![];
    let mut note = |how: &str, found: Value| {
        let found: Vec<String> = serde_json::from_value(found).unwrap();
        wrong.extend(found.iter().map(|what| format!("{page}, {how}: {what}")));
    };
    note("desk", browser.script(&RUN.replace("RULES", ALL)));
    note("desk, broken word", browser.script(BROKEN));
    browser.dark(true);
    note("dark", browser.script(&RUN.replace("RULES", DARK)));
    browser.dark(false);
    browser.sized(PHONE);
    note("phone", browser.script(&RUN.replace("RULES", NARROW)));
    let wide = "const page = document.documentElement;
        return page.scrollWidth > page.clientWidth ? ['scrolls sideways'] : []";
    note("phone", browser.script(wide));
    note("phone, broken word", browser.script(BROKEN));
    browser.sized(DESK);
    wrong
}

/// All pages that the menu leads to.
fn menu(browser: &Browser) -> Vec<String> {
    browser.open("/");
    let links = "return [...document.querySelectorAll('nav a')].map(it => it.getAttribute('href'))";
    let links: Vec<String> = serde_json::from_value(browser.script(links)).unwrap();
    let ours = links
        .into_iter()
        .filter(|it| it == "/" || it.starts_with("/console/"));
    ours.collect()
}

/// Something of everything; the pages that show it.
pub(crate) fn trouble(pair: &Pair, url: &str) -> Vec<String> {
    let address = pair.server.address;
    let send = |path: &str, body: &Value| {
        let answer = post(address, path, body).unwrap();
        assert!(answer.status < 300, "{path}: {}", answer.text);
        answer.body
    };
    billed(address);
    let dead = "UPDATE item_queue SET queue_status = 'DEAD' WHERE item_id = 'stray'";
    send("/payments", &later("stray"));
    pair.runtime.block_on(cluster::sql(url, dead));
    let lost = "sends of payment unsure: reset after; probes: 500";
    pair.bank.set_faults(lost.parse().unwrap());
    send("/payments", &payment("unsure"));
    let soon = Timestamp::from_second(clock(address) + 2).unwrap();
    let mut late = payment("salary");
    late["deadline"] = json!(soon.to_string());
    late["executeAt"] = json!(soon.to_string());
    late["onMissedDeadline"] = json!("hold");
    send("/payments", &late);
    let file = format!("{}\nno JSON at all\n", payment("line"));
    let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    let batch = taken.body["batchId"].as_str().unwrap().to_owned();
    done(address, &batch);
    eventually("one is held and one in doubt", LONG, || {
        let needs = get(address, "/admin/needs-you").unwrap().text;
        let both = ["\"held\"", "\"in-doubt\""].map(|kind| needs.contains(kind));
        (both == [true, true]).then_some(())
    });
    let job = asked(pair);
    let check = checked(pair);
    let seen = json!({"reason": "sent back"});
    send("/admin/needs-you/in-doubt/seen", &seen);
    send(
        "/admin/lanes/default/pause",
        &json!({"reason": "the bank moves"}),
    );
    pair.data(&[
        "types",
        "disable",
        "NOTIFICATION",
        "--reason",
        "incident 12",
    ]);
    [
        "/console/lanes/default",
        "/console/lanes/default?whatIf=60&reason=agreed",
        "/console/payments/line",
        "/console/in-doubt/unsure",
        "/console/dead-letters?type=PAYMENT",
        "/console/invoices/inv_1",
        "/console/schedules?cron=0+9+15+*+*&zone=Europe%2FCopenhagen",
        "/console/search?q=line",
        "/console/audit?actor=local",
        "/console/audit?by=machine",
        "/console/handbook/payments-are-held",
        "/console/no-such-page",
        &format!("/console/imports/{batch}"),
        &format!("/console/status-checks/{check}"),
        &format!("/console/jobs/{job}"),
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A job that has asked about what is in doubt.
fn asked(pair: &Pair) -> String {
    let digest = pair.data(&["jobs", "preview", "ask", "--all"])["digest"].clone();
    let digest = digest.as_str().unwrap();
    let start = [
        "jobs", "start", "ask", "--all", "--reason", "day end", "--digest", digest,
    ];
    let started = pair.data(&start);
    let job = started["jobId"].as_str().unwrap().to_owned();
    eventually("it has ended", LONG, || {
        let shown = pair.data(&["jobs", "show", &job]);
        (shown["state"] == "DONE").then_some(())
    });
    job
}
