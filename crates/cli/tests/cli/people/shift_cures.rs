//! The shift goes on: each kind of what needs a person is cured from the first page, all of it at once, in under five
//! clicks. The judges are the bank's ledger and what needs a person afterwards.

use serde_json::json;

use crate::fixture::footing::LONG;
use crate::fixture::served::{eventually, eventually_or};
use crate::people::needs_you::{Shift, sums, text};

/// A person who starts at the first page and counts the clicks.
struct Clicks<'a> {
    shift: &'a Shift,
    count: usize,
}

impl Shift {
    fn at_the_first_page(&self) -> Clicks<'_> {
        self.browser.open("/");
        let shift = self;
        Clicks { shift, count: 0 }
    }
}

impl Clicks<'_> {
    fn click(&mut self, words: &str) -> &mut Self {
        self.shift.browser.click(words);
        self.count += 1;
        assert!(self.count < 5, "{words} is one click too many");
        self
    }

    fn because(&mut self, label: &str, reason: &str) -> &mut Self {
        self.shift.browser.fill(label, reason);
        self
    }

    /// Confirms a preview; the job ends with every item done.
    fn confirm(&mut self, act: &str, count: u64) {
        self.because("Reason", "from the first page");
        self.click(&format!("Confirm: {act} {}", grouped(count)));
        let patience = LONG * u32::try_from(1 + count / 1000).unwrap();
        eventually_or("the job has ended", patience, || {
            let jobs = self.shift.get("/admin/jobs?limit=1");
            let job = &jobs["jobs"][0];
            let is_over = job["state"] == "DONE" && job["act"] == act && job["done"] == count;
            is_over.then_some(()).ok_or_else(|| job.to_string())
        });
    }
}

/// 1,234 as people read it.
pub(crate) fn grouped(count: u64) -> String {
    match (count / 1000, count % 1000) {
        (0, less) => less.to_string(),
        (thousands, rest) => format!("{},{rest:03}", grouped(thousands)),
    }
}

impl Shift {
    pub(crate) fn a_pause_without_end_is_lifted_and_what_it_held_is_released(&self) {
        let pause = json!({"reason": "until further notice"});
        self.post("/admin/lanes/default/pause", &pause);
        self.needs(&[("lanes-paused", 1, vec![])]);
        let count = self.size / 2;
        self.pay("bulk", count, &self.held_in_a_moment());
        // Those from before were seen; now there are more.
        let all = eventually("they are held", LONG * 5, || {
            let told = self.get("/admin/held?limit=1");
            (told["count"].as_u64() >= Some(count + self.size / 4 - 3)).then_some(told)
        });
        let all = all["count"].as_u64().unwrap();
        let before = self.pair.bank.ledger().effective().len();
        let mut person = self.at_the_first_page();
        person.click("Lanes paused: 1");
        person.because("Reason", "it is over").click("Resume");
        self.browser.sees("The lane is resumed.");
        let mut person = self.at_the_first_page();
        person.click(&format!("Held: {}", grouped(all)));
        person.click("Act on all…").click("Release all…");
        person.confirm("release", all);
        self.needs(&[]);
        let patience = LONG * u32::try_from(1 + all / 2000).unwrap();
        eventually("the bank has all of them", patience, || {
            let paid = self.pair.bank.ledger().effective().len() - before;
            (paid as u64 == all).then_some(())
        });
    }

    pub(crate) fn answers_that_differ_are_marked_as_seen(&self) {
        let count = 6;
        let faults = "sends: wrong-amount";
        self.pair.bank.set_faults(faults.parse().unwrap());
        self.pay("other", count, &json!({}));
        self.until_paid("other", count);
        self.pair.bank.set_faults("".parse().unwrap());
        self.needs(&[("answers-differ", count, sums(count))]);
        let mut person = self.at_the_first_page();
        person.click("Mark as seen…").click("Mark as seen…");
        person.because("Why nothing needs to be done now", "ticket 7");
        person.click("Mark as seen");
        self.browser.sees("Marked as seen.");
        self.needs(&[]);
    }

    pub(crate) fn the_banks_are_asked_about_what_is_in_doubt(&self) {
        // So few that no breaker closes the lane.
        let (before, count) = (self.paid_by_the_bank(), 4);
        let silent = "sends: reset after; probes: 500";
        self.pair.bank.set_faults(silent.parse().unwrap());
        self.pay("lost", count, &json!({}));
        eventually("all are in doubt", LONG * 5, || {
            let told = self.get("/admin/in-doubt");
            let at_risk = told["atRisk"].as_array().unwrap().iter();
            let found: u64 = at_risk.map(|it| it["count"].as_u64().unwrap()).sum();
            (found == count).then_some(())
        });
        // From here on only people ask.
        self.pair
            .data(&["types", "disable", "PAYMENT", "--reason", "incident 13"]);
        for n in 1..=count {
            eventually("no question of its own is under way", LONG, || {
                let shown = self.get(&format!("/payments/lost{n}"));
                (shown["queueStatus"] == "READY").then_some(())
            });
        }
        self.pair.bank.set_faults("".parse().unwrap());
        let switch = ("kill-switches", 1, vec![]);
        self.needs(&[switch.clone(), ("in-doubt", count, sums(count))]);
        let now = self.paid_by_the_bank();
        for (currency, sum) in sums(count) {
            let more = now[currency] - before.get(currency).copied().unwrap_or(0);
            assert_eq!(more, sum * 100, "the bank has done what is in doubt");
        }
        let mut person = self.at_the_first_page();
        person.click(&format!("In doubt: {}", grouped(count)));
        person.click("Ask the banks about all…");
        person.confirm("ask", count);
        let mut person = self.at_the_first_page();
        person.because("Reason for switching on", "incident 13 is over");
        person.click("Switch on PAYMENT");
        self.until_paid("lost", count);
        self.needs(&[]);
    }

    pub(crate) fn a_breaker_closes_the_lane_and_opens_it_again(&self) {
        self.pair
            .bank
            .set_faults("all: reset before".parse().unwrap());
        self.pay("broken", 24, &json!({}));
        let told = eventually("the breaker is told", LONG, || {
            let told = self.get("/admin/needs-you");
            let kinds = told["needs"].as_array().unwrap().iter();
            let closed = kinds.clone().find(|it| it["kind"] == "lanes-closed")?;
            let why = text(&closed["details"][0]["what"]);
            why.contains("closed by the breaker")
                .then_some(told.clone())
        });
        assert_ne!(told["needs"], json!([]));
        self.pair.bank.set_faults("".parse().unwrap());
        self.until_paid("broken", 24);
        self.needs(&[]);
    }

    pub(crate) fn a_refusal_storm_is_reopened_and_resumed(&self) {
        self.pair.bank.set_faults("sends: 422".parse().unwrap());
        self.pay("no", 60, &json!({}));
        let told = self.needs(&[("refusal-storms", 1, vec![])]);
        assert_eq!(told["needs"][0]["console"], "/console/lanes/default");
        let refused = eventually("nothing is under way", LONG, || {
            let preview = json!({"act": "reopen", "filter": {"storm": 1}, "dryRun": true});
            let first = self.post("/admin/jobs", &preview)["count"].clone();
            let again = self.post("/admin/jobs", &preview)["count"].clone();
            (first == again).then_some(first)
        });
        self.pair.bank.set_faults("".parse().unwrap());
        let storm = "Lanes stopped by a refusal storm: 1";
        let mut person = self.at_the_first_page();
        person.click(storm).click("Reopen all…");
        person.confirm("reopen", refused.as_u64().unwrap());
        let mut person = self.at_the_first_page();
        person.click(storm);
        person
            .because("Reason", "the bank has mended it")
            .click("Resume");
        self.until_paid("no", 60);
        self.needs(&[]);
    }

    pub(crate) fn nothing_was_paid_twice(&self) {
        assert!(
            self.pair.bank.ledger().doubles().is_empty(),
            "MONEY: paid twice"
        );
        let totals = self.get("/admin/totals");
        let buckets = totals["payments"].as_array().unwrap().iter();
        let paid = buckets.filter(|it| it["status"] == "PROCESSING");
        let paid: u64 = paid.map(|it| it["count"].as_u64().unwrap()).sum();
        let effective = self.pair.bank.ledger().effective().len() as u64;
        assert_eq!(paid, effective, "store and ledger agree: {totals}");
    }
}
