//! A shift: at each moment the first page, `tollgate status` and the API name what needs a person, with exact counts
//! and amounts. The judges are the payments that were handed in, the store's own lists and the bank's ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_core::Timestamp;

use crate::files::bulk::done;
use crate::fixture::browser::{Browser, DESK, PHONE};
use crate::fixture::footing::LONG;
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::{BINARY, eventually, eventually_or};

/// A person can only decide about what the bank does not recognise by its key; and deadlines are looked at each second.
const SETTINGS: &str =
    "downstream.payments.honours_idempotency_key = false\nsweep.interval_secs = 1\n";

/// What is expected of one kind: how many, and their amounts in whole units by currency.
pub(crate) type Expected = (&'static str, u64, Vec<(&'static str, u64)>);

/// Kind, count and amounts by currency.
type Counted = (String, u64, Vec<(String, String)>);

pub(crate) struct Shift {
    pub(crate) pair: Pair,
    pub(crate) browser: Browser,
    /// About so many payments in all.
    pub(crate) size: u64,
}

/// Small by default; the long form has 20,000.
fn size() -> u64 {
    let asked = std::env::var("TGTEST_SHIFT_PAYMENTS").ok();
    asked.map_or(400, |payments| payments.parse().unwrap())
}

/// Of payments of 1, 2, 3 … up to this: euros where that is odd, dollars where it is even.
pub(crate) fn sums(count: u64) -> Vec<(&'static str, u64)> {
    let (odd, even) = (count.div_ceil(2), count / 2);
    let all = [("EUR", odd * odd), ("USD", even * (even + 1))];
    all.into_iter().filter(|(_, sum)| *sum > 0).collect()
}

#[test]
fn a_shift_names_what_needs_a_person_at_each_moment() {
    let pair = pair(SETTINGS);
    let browser = Browser::at(pair.server.address);
    let shift = Shift {
        pair,
        browser,
        size: size(),
    };
    let limit = json!({"configName": "default", "maxPerWindow": 4000, "windowSizeSecs": 4,
                       "maxPerSecond": 1000, "reason": "a short test"});
    shift.post("/admin/rate-limit/config", &limit);
    shift.needs(&[]);
    shift.a_pause_and_missed_deadlines();
    shift.held_is_worked_through();
    shift.a_kill_switch();
    shift.an_import_with_rejected_lines();
    shift.a_pause_without_end_is_lifted_and_what_it_held_is_released();
    shift.answers_that_differ_are_marked_as_seen();
    shift.the_banks_are_asked_about_what_is_in_doubt();
    shift.a_bank_that_asks_for_quiet();
    shift.a_breaker_closes_the_lane_and_opens_it_again();
    shift.a_refusal_storm_is_reopened_and_resumed();
    shift.nothing_was_paid_twice();
    assert_eq!(shift.browser.complaints(&["404 (Not Found)"]), [""; 0]);
}

impl Shift {
    /// Waits until exactly this needs a person, by the API; then the command line and the first page say the same.
    pub(crate) fn needs(&self, expected: &[Expected]) -> Value {
        let told = eventually_or("what needs a person", LONG, || {
            let told = self.get("/admin/needs-you");
            let found = counted(&told["needs"]);
            (found == expected_of(expected))
                .then_some(told)
                .ok_or(format!("{found:?}"))
        });
        let asked = Timestamp::from_second(0).unwrap().max(as_of(&told));
        let answer = self.get("/admin/needs-you");
        let age = as_of(&answer).duration_since(asked).as_secs();
        assert!((0..60).contains(&age), "{age}");
        let (code, said) = self.status();
        assert_eq!(
            code,
            Some(if expected.is_empty() { 0 } else { 3 }),
            "{said}"
        );
        self.first_page(&told["needs"], &said);
        told
    }

    fn first_page(&self, needs: &Value, said: &str) {
        let number = needs.as_array().unwrap().len();
        let title = match number {
            0 => "Now · Tollgate".to_owned(),
            number => format!("({number}) Now · Tollgate"),
        };
        self.browser.open("/");
        for need in needs.as_array().unwrap() {
            let (title, count) = (text(&need["title"]), need["count"].as_u64().unwrap());
            let headline = format!("{title}: {count}");
            assert!(said.contains(&headline), "{headline}: {said}");
            let headline = format!("{title}: {}", crate::people::shift_cures::grouped(count));
            self.browser.comes_to_see(&headline);
            for sum in need["amounts"].as_array().unwrap() {
                let sum = format!("{} {}", text(&sum["amount"]), text(&sum["currency"]));
                self.browser.sees(&sum);
                assert!(said.contains(&sum), "{sum}: {said}");
            }
        }
        self.browser.until("the title tells the number", || {
            let now = self.browser.script("return document.title");
            (now == title.as_str()).then_some(()).ok_or(now.to_string())
        });
        self.browser.is_whole();
    }

    fn status(&self) -> (Option<i32>, String) {
        let server = format!("http://{}", self.pair.server.address);
        let run = Command::new(BINARY)
            .args(["status", "--server", &server])
            .output()
            .unwrap();
        (run.status.code(), String::from_utf8(run.stdout).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = get(self.pair.server.address, path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let answer = post(self.pair.server.address, path, body).unwrap();
        assert!(
            matches!(answer.status, 200..=202),
            "{path}: {}",
            answer.text
        );
        answer.body
    }

    /// Hands in payments of 1, 2, 3 … dollars, or euros where that is odd, as a file; with more fields.
    pub(crate) fn pay(&self, prefix: &str, count: u64, more: &Value) {
        let mut lines = String::new();
        for n in 1..=count {
            let mut new = payment(&format!("{prefix}{n}"));
            new["amount"] = json!(n.to_string());
            new["currency"] = json!(if n % 2 == 0 { "USD" } else { "EUR" });
            let fields = new.as_object_mut().unwrap();
            fields.extend(more.as_object().unwrap().clone());
            let _ = writeln!(lines, "{new}");
        }
        let told = self.import(&lines);
        assert_eq!(told["accepted"], count, "{told}");
    }

    /// Waits until every line is judged.
    fn import(&self, lines: &str) -> Value {
        let (address, kind) = (self.pair.server.address, "application/x-ndjson");
        let answer = post_raw(address, "/payments/bulk", kind, lines).unwrap();
        assert_eq!(answer.status, 202, "{}", answer.text);
        done(address, text(&answer.body["batchId"]))
    }

    pub(crate) fn until_paid(&self, prefix: &str, count: u64) {
        for n in 1..=count {
            let path = format!("/payments/{prefix}{n}");
            eventually("it is paid", LONG, || {
                (self.get(&path)["status"] == "PROCESSING").then_some(())
            });
        }
    }

    fn a_pause_and_missed_deadlines(&self) {
        self.post(
            "/admin/lanes/default/pause",
            &json!({"reason": "the bank moves"}),
        );
        let in_an_hour = (as_of(&self.get("/admin/needs-you")).as_second() + 3600).to_string();
        let late = json!({"deadline": time(&in_an_hour)});
        let (few, many) = (self.size / 40, self.size / 4);
        self.pay("late", few, &late);
        let paused = ("lanes-paused", 1, vec![]);
        let at_risk = ("deadlines-at-risk", few, sums(few));
        let told = self.needs(&[paused.clone(), at_risk.clone()]);
        let detail = text(&told["needs"][0]["details"][0]["what"]);
        assert!(
            detail.contains("paused by local: the bank moves; "),
            "{detail}"
        );
        self.pay("held", many, &self.held_in_a_moment());
        let held = ("held", many, sums(many));
        let told = self.needs(&[paused, held, at_risk]);
        let oldest = told["needs"][1]["oldest"].as_str().unwrap();
        let listed = self.get("/admin/held?limit=1&order=due");
        assert_eq!(listed["items"][0]["due"], oldest);
        let gauge = format!("tollgate_needs_you{{kind=\"held\"}} {many}");
        eventually("the gauge tells it", LONG, || {
            let metrics = get(self.pair.server.address, "/metrics").unwrap().text;
            metrics.contains(&gauge).then_some(())
        });
        let totals = self.get("/admin/totals");
        let buckets = totals["payments"].as_array().unwrap().iter();
        let held = buckets.filter(|it| it["status"] == "HELD");
        let held: u64 = held.map(|it| it["count"].as_u64().unwrap()).sum();
        assert_eq!(held, many, "{totals}");
        self.post(
            "/admin/lanes/default/resume",
            &json!({"reason": "it has moved"}),
        );
        self.until_paid("late", few);
    }

    fn held_is_worked_through(&self) {
        let many = self.size / 4;
        self.needs(&[("held", many, sums(many))]);
        let listed = self.pair.data(&["held", "list", "--limit", "1000"]);
        let ids: BTreeSet<&str> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| text(&it["id"]))
            .collect();
        let shown = usize::try_from(many.min(1000)).unwrap();
        assert_eq!((ids.len(), &listed["count"]), (shown, &json!(many)));
        self.pair
            .data(&["held", "release", "held1", "--reason", "the customer waits"]);
        self.pair.data(&[
            "held",
            "cancel",
            "held2",
            "--reason",
            "the customer cancelled",
        ]);
        let browser = &self.browser;
        browser.open("/console/needs-you");
        browser.click(&format!(
            "Held: {}",
            crate::people::shift_cures::grouped(many - 2)
        ));
        let [(_, euros), (_, dollars)] = sums(many)[..] else {
            panic!("both currencies");
        };
        browser.sees(&format!("{}.00 EUR", euros - 1));
        for size in [PHONE, DESK] {
            browser.sized(size);
            browser.dark(size == PHONE);
            browser.is_whole();
        }
        browser.click("oldest first");
        browser.click_in("held3", "Release or cancel…");
        browser.fill("Reason", "the customer called");
        browser.click("Release");
        browser.sees("The payment is released.");
        let left = (
            "held",
            many - 3,
            vec![("EUR", euros - 4), ("USD", dollars - 2)],
        );
        self.needs(std::slice::from_ref(&left));
        for id in ["held1", "held3"] {
            eventually("the bank has it", LONG, || {
                let effective = self.pair.bank.ledger().effective();
                (effective.get(id) == Some(&1)).then_some(())
            });
        }
        assert_eq!(self.pair.bank.ledger().effective().get("held2"), None);
        self.seen_until_it_grows(left);
    }

    /// What is held when the lane does not open before a few seconds are over.
    pub(crate) fn held_in_a_moment(&self) -> Value {
        let now = as_of(&self.get("/admin/needs-you")).as_second();
        let moment = now + 10 + i64::try_from(self.size / 500).unwrap();
        json!({"deadline": time(&moment.to_string()), "onMissedDeadline": "hold"})
    }

    fn seen_until_it_grows(&self, (kind, left, sums): Expected) {
        let browser = &self.browser;
        browser.open("/console/needs-you");
        browser.click("Mark as seen…");
        browser.fill("Why nothing needs to be done now", "they are paid tomorrow");
        browser.click("Mark as seen");
        browser.sees("Seen by local");
        let told = self.needs(&[]);
        assert_eq!(told["seen"][0]["count"], left);
        assert_eq!(told["seen"][0]["seen"]["reason"], "they are paid tomorrow");
        let trail = self.get("/admin/audit?action=SEEN");
        assert_eq!(
            trail["entries"][0]["detail"],
            format!("{kind}, {left} of them: they are paid tomorrow")
        );
        // One less, and one more again: that one is new.
        self.pair.data(&[
            "held",
            "cancel",
            "held4",
            "--reason",
            "the customer cancelled",
        ]);
        eventually("fewer were seen", LONG, || {
            let told = self.get("/admin/needs-you");
            (told["seen"][0]["count"] == left - 1).then_some(())
        });
        self.post(
            "/admin/lanes/default/pause",
            &json!({"reason": "once more"}),
        );
        self.pay("again", 1, &self.held_in_a_moment());
        let [(_, euros), (_, dollars)] = sums[..] else {
            panic!("both currencies");
        };
        let grown = ("held", left, vec![("EUR", euros + 1), ("USD", dollars - 4)]);
        self.needs(&[("lanes-paused", 1, vec![]), grown]);
        self.post("/admin/lanes/default/resume", &json!({"reason": "enough"}));
        let seen = json!({"reason": "they are paid tomorrow", "count": left - 7});
        let stale = post(
            self.pair.server.address,
            "/admin/needs-you/held/seen",
            &seen,
        )
        .unwrap();
        assert_eq!(stale.status, 409, "{}", stale.text);
        assert!(stale.text.contains(" now, but you saw "), "{}", stale.text);
        let count = left.to_string();
        let reason = ["--reason", "they are paid tomorrow", "--count", &count];
        self.pair.data(&[&["seen", "held"][..], &reason].concat());
        self.needs(&[]);
    }

    fn a_kill_switch(&self) {
        self.pair
            .data(&["types", "disable", "PAYMENT", "--reason", "incident 12"]);
        let told = self.needs(&[("kill-switches", 1, vec![])]);
        assert_eq!(told["killSwitches"][0]["reason"], "incident 12");
        let browser = &self.browser;
        for path in [
            "/",
            "/console/no-such-page",
            "/console/payments",
            "/console/held",
            "/console/handbook/stop-everything",
        ] {
            browser.open(path);
            browser.sees("PAYMENT is not dispatched. Switched off by local");
            for size in [PHONE, DESK] {
                browser.sized(size);
                browser.is_whole();
            }
        }
        browser.fill("Reason for switching on", "incident 12 is over");
        browser.click("Switch on PAYMENT");
        browser.sees("Saved. The change applies to every node.");
        assert_eq!(browser.all(".banner"), [""; 0]);
        self.needs(&[]);
        let log = self.pair.server.log().join("\n");
        for act in [
            "lane paused",
            "lane resumed",
            "released",
            "item type disabled",
            "item type enabled",
        ] {
            assert!(log.contains(act), "{act}: {log}");
        }
        assert!(
            !log.contains("incident 12"),
            "reasons are in the audit log only"
        );
    }

    fn an_import_with_rejected_lines(&self) {
        let mut lines = String::new();
        for n in 1..=5 {
            let _ = writeln!(lines, "{}", payment(&format!("file{n}")));
        }
        lines.push_str("{\"paymentId\": \"without\"}\nno JSON at all\n");
        self.import(&lines);
        let told = self.needs(&[("imports-rejected", 1, vec![])]);
        assert_eq!(told["needs"][0]["details"][0]["what"], "2 rejected lines");
        self.pair
            .data(&["seen", "imports-rejected", "--reason", "sent back"]);
        self.needs(&[]);
        self.until_paid("file", 5);
    }

    fn a_bank_that_asks_for_quiet(&self) {
        self.pair
            .bank
            .set_faults("send 1: 429 retry-after 15".parse().unwrap());
        self.pay("quiet", 2, &json!({}));
        self.needs(&[("lanes-closed", 1, vec![])]);
        self.until_paid("quiet", 2);
        self.needs(&[]);
    }

    /// In minor units, by currency.
    pub(crate) fn paid_by_the_bank(&self) -> BTreeMap<String, u64> {
        let total = self.pair.bank.ledger().total_by_currency();
        let minor = |sum: &str| sum.replace('.', "").parse().unwrap();
        total
            .into_iter()
            .map(|(code, (_, sum))| (code, minor(&sum)))
            .collect()
    }
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

pub(crate) fn as_of(told: &Value) -> Timestamp {
    text(&told["asOf"]).parse().unwrap()
}

pub(crate) fn time(second: &str) -> String {
    Timestamp::from_second(second.parse().unwrap())
        .unwrap()
        .to_string()
}

/// Kind, count and amounts of each.
fn counted(needs: &Value) -> Vec<Counted> {
    let amount = |it: &Value| {
        (
            text(&it["currency"]).to_owned(),
            text(&it["amount"]).to_owned(),
        )
    };
    let one = |need: &Value| {
        let amounts = need["amounts"].as_array().unwrap().iter().map(amount);
        (
            text(&need["kind"]).to_owned(),
            need["count"].as_u64().unwrap(),
            amounts.collect(),
        )
    };
    needs.as_array().unwrap().iter().map(one).collect()
}

fn expected_of(expected: &[Expected]) -> Vec<Counted> {
    let amount = |(currency, units): &(&str, u64)| ((*currency).to_owned(), format!("{units}.00"));
    let one = |(kind, count, amounts): &Expected| {
        (
            (*kind).to_owned(),
            *count,
            amounts.iter().map(amount).collect(),
        )
    };
    expected.iter().map(one).collect()
}
