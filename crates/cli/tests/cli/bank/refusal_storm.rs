//! A bank that refuses everything: the lane pauses itself after a few payments, and one command sends
//! them again. The judge is the bank's ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::Timestamp;
use tollgate_core::gate::HORIZON;
use tollgate_sandbox::{Effect, Entry, Received, WEBHOOK_SECRET};

use crate::fixture::footing::{Footing, LONG, on_both_footings, take_in};
use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, paired, payment};
use crate::fixture::served::eventually;

on_both_footings!(a_storm_from_the_start_is_over_after_five_at_1000_a_second,);

/// Of a storm from the start: enough for a sixth to be refused.
const COUNT: usize = 20;
const REFUSES: &str = "sends: 422";

/// A server and its bank, which refuses, and is also told what becomes of payments.
struct Fixture(Pair);

impl Deref for Fixture {
    type Target = Pair;
    fn deref(&self) -> &Pair {
        &self.0
    }
}

fn fixture(footing: &Footing, per_second: u32) -> Fixture {
    fixture_with(footing, per_second, "")
}

fn fixture_with(footing: &Footing, per_second: u32, extra: &str) -> Fixture {
    let pair = paired(|bank| {
        bank.set_faults(REFUSES.parse().unwrap());
        let told = format!(
            "{extra}[downstream.notifications]\nurls = [\"{}/webhooks\"]\nsecret = \"{WEBHOOK_SECRET}\"\n",
            bank.url()
        );
        footing.setting(bank, &told)
    });
    let limit = json!({"configName": "default", "maxPerWindow": per_second * 4, "windowSizeSecs": 4,
                       "maxPerSecond": per_second, "reason": "a storm"});
    let answer = post(pair.server.address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    Fixture(pair)
}

fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

impl Fixture {
    fn take_in_all(&self, ids: &[String]) {
        std::thread::scope(|scope| {
            for some in ids.chunks(ids.len().div_ceil(4)) {
                scope.spawn(move || {
                    for id in some {
                        take_in(self.server.address, &payment(id));
                    }
                });
            }
        });
    }

    fn shown(&self, id: &str) -> Value {
        let path = format!("/payments/{id}");
        get(self.server.address, &path).unwrap().body
    }

    fn status(&self, id: &str) -> String {
        self.shown(id)["status"].as_str().unwrap().to_owned()
    }

    /// Waits for the storm, and until nothing of the lane is under way any more.
    fn storm(&self, number: i64, ids: &[String]) -> Value {
        let storm = eventually("the lane pauses itself", LONG, || {
            let storms = get(self.server.address, "/admin/storms").unwrap().body;
            let newest = storms["storms"].get(0)?.clone();
            (newest["storm"] == number).then_some(newest)
        });
        eventually("all is at rest", LONG, || {
            let rests = |id: &String| {
                let shown = self.shown(id);
                shown["status"] != "SCHEDULED" || shown["queueStatus"] == "READY"
            };
            ids.iter().all(rests).then_some(())
        });
        storm
    }

    fn rejected(&self, ids: &[String]) -> Vec<String> {
        let is_rejected = |id: &&String| self.status(id) == "REJECTED";
        ids.iter().filter(is_rejected).cloned().collect()
    }

    /// The cause is fixed: everything is reopened by one command, and the lane is resumed.
    fn put_right(&self, storm: i64, rejected: usize) {
        self.bank.set_faults("".parse().unwrap());
        let number = storm.to_string();
        let reopen = |more: &[&str]| {
            let words = [&["payments", "reopen", "--storm", &number][..], more].concat();
            self.tollgate(&words).unwrap()
        };
        let previewed = reopen(&["--preview"]);
        let told = format!("{rejected} payments would be reopened");
        assert!(previewed.starts_with(&told), "{previewed}");
        let reopened = reopen(&["--reason", "the path was wrong"]);
        let told = format!("{rejected} payments reopened");
        assert!(reopened.starts_with(&told), "{reopened}");
        let again = reopen(&["--reason", "once more"]);
        assert!(again.starts_with("0 payments reopened"), "{again}");
        let resume = [
            "lanes",
            "resume",
            "default",
            "--reason",
            "the path is right",
        ];
        self.tollgate(&resume).unwrap();
    }

    fn all_are_paid_once(&self, ids: &[String]) {
        eventually("all are paid", LONG, || {
            let is_paid = |id: &String| self.status(id) == "PROCESSING";
            ids.iter().all(is_paid).then_some(())
        });
        let effective = self.bank.ledger().effective();
        let paid: BTreeMap<_, _> = ids.iter().map(|id| (id.clone(), 1)).collect();
        let of_these = effective
            .into_iter()
            .filter(|(id, _)| paid.contains_key(id));
        assert_eq!(of_these.collect::<BTreeMap<_, _>>(), paid);
        assert_eq!(
            self.bank.ledger().doubles(),
            Vec::<String>::new(),
            "MONEY: paid twice"
        );
    }

    /// Killed, and started again on the same store.
    fn restarted(self) -> Self {
        let Pair {
            runtime,
            bank,
            setting,
            server,
        } = self.0;
        server.kill();
        let server = setting.start("127.0.0.1:0");
        Self(Pair {
            runtime,
            bank,
            setting,
            server,
        })
    }

    fn metric_tells_the_storm(&self) {
        eventually("the metric says so", LONG, || {
            let metrics = get(self.server.address, "/metrics").unwrap().text;
            let line = "tollgate_lane_refusal_storm{lane=\"default\"} 1\n";
            metrics.contains(line).then_some(())
        });
    }

    /// The lane's page says what happened, what was answered and what to do.
    fn page_tells_the_storm(&self, in_storm: bool) {
        let what = [
            "Refusal storm 1",
            "the first 5 payments",
            "the last answer: status 422",
            "tollgate jobs preview reopen --storm 1",
        ];
        // What is foreseen may be two seconds old, and says why no time can be told.
        eventually("the page says so", LONG, || {
            let page = get(self.server.address, "/console/lanes/default").unwrap();
            let is_right = |told: &&str| page.text.contains(told) == in_storm;
            what.iter().all(is_right).then_some(())
        });
    }

    /// Which payments were announced, by event.
    fn announced(&self, event: &str) -> BTreeSet<String> {
        let deliveries = self.bank.ledger().deliveries().into_iter();
        let taken = deliveries
            .filter(|it| it.received == Received::Took && it.event.as_deref() == Some(event));
        taken.filter_map(|it| it.payment_id).collect()
    }
}

fn a_storm_from_the_start_is_over_after_five_at_1000_a_second(footing: &Footing) {
    let keys = a_storm_from_the_start(fixture(footing, 1000), |pair| pair);
    let second = |key: &&String| key.ends_with("~2");
    assert_eq!(keys.iter().filter(second).count(), 5, "{keys:?}");
}

/// And outlives the process. This bank remembers no refusals: what is reopened keeps its key.
#[test]
fn a_storm_from_the_start_is_over_after_five_at_50_a_second() {
    let forgets = "downstream.payments.remembers_refusals = false\n";
    let pair = fixture_with(&Footing::Embedded, 50, forgets);
    let keys = a_storm_from_the_start(pair, |pair| {
        let pair = pair.restarted();
        pair.metric_tells_the_storm();
        pair
    });
    let distinct: BTreeSet<_> = keys.iter().cloned().collect();
    let expected: BTreeSet<_> = ids("payment-a", COUNT).into_iter().collect();
    assert_eq!((keys.len(), distinct), (COUNT + 5, expected));
}

/// The keys of all sends, those of the five that were sent again twice.
fn a_storm_from_the_start(
    pair: Fixture,
    meanwhile: impl FnOnce(Fixture) -> Fixture,
) -> Vec<String> {
    let ids = ids("a", COUNT);
    pair.take_in_all(&ids);
    let storm = pair.storm(1, &ids);
    let told = "the first 5 payments of connector \"payments\" were all refused; the last answer: ";
    assert!(
        storm["reason"].as_str().unwrap().starts_with(told),
        "{storm}"
    );
    let rejected = pair.rejected(&ids);
    assert_eq!((rejected.len(), pair.bank.ledger().arrivals()), (5, 5));
    let repeated = post(pair.server.address, "/payments", &payment(&rejected[0])).unwrap();
    assert_eq!(
        (repeated.status, &repeated.body["status"]),
        (200, &json!("REJECTED"))
    );
    let lanes = get(pair.server.address, "/admin/rate-limit/config").unwrap();
    let lane = &lanes.body.as_array().unwrap()[0];
    assert_eq!(
        (&lane["open"], &lane["pause"]["actor"]),
        (&json!(false), &json!("storm"))
    );
    assert_eq!(lane["storm"], 1);
    let pair = meanwhile(pair);
    pair.page_tells_the_storm(true);

    pair.put_right(1, 5);
    pair.all_are_paid_once(&ids);
    pair.page_tells_the_storm(false);
    let everybody: BTreeSet<_> = ids.iter().cloned().collect();
    eventually("all are announced", LONG, || {
        (pair.announced("payment.processing") == everybody).then_some(())
    });
    assert_eq!(pair.announced("payment.rejected"), BTreeSet::new());
    let entries = pair.bank.ledger().entries().into_iter();
    entries.filter_map(|entry| entry.key).collect()
}

#[test]
fn a_storm_in_the_middle_stops_within_the_horizon_and_is_undone_by_one_command() {
    let pair = fixture(&Footing::Embedded, 1000);
    pair.bank.set_faults("".parse().unwrap());
    let first = ids("a", 20);
    pair.take_in_all(&first);
    pair.all_are_paid_once(&first);
    pair.bank.set_faults(REFUSES.parse().unwrap());
    let second = ids("b", 400);
    pair.take_in_all(&second);
    let storm = pair.storm(1, &second);
    let rejected = pair.rejected(&second);
    println!("{} of {} were refused", rejected.len(), second.len());
    assert!((20..second.len()).contains(&rejected.len()));
    // Nothing was given a turn after the twentieth refusal.
    let since: Timestamp = storm["since"].as_str().unwrap().parse().unwrap();
    for id in &rejected {
        let shown = pair.shown(id);
        let sent_at = shown["attempts"][0]["sentAt"].as_str().unwrap();
        let sent_at: Timestamp = sent_at.parse().unwrap();
        assert!(sent_at <= since + HORIZON, "{shown}");
    }
    pair.put_right(1, rejected.len());
    pair.all_are_paid_once(&second);
    assert_eq!(pair.announced("payment.rejected"), BTreeSet::new());
    some_are_told_to_come_later_and_do(&pair);
}

/// 15 of 600 are answered 429. Each of them closes the lane for a second, which puts others back: an item's pause
/// grows with its own failures and not with those, so nobody waits for minutes.
fn some_are_told_to_come_later_and_do(pair: &Fixture) {
    let ids = ids("c", 600);
    let later = (0..600).step_by(40);
    let later = later.map(|n| format!("send 1 of payment c{n}: 429 retry-after 1\n"));
    let later: String = later.collect();
    pair.bank.set_faults(later.parse().unwrap());
    pair.take_in_all(&ids);
    pair.all_are_paid_once(&ids);
    let entries = pair.bank.ledger().entries();
    let told = |entry: &&Entry| entry.effect == Effect::Refused429;
    assert_eq!(entries.iter().filter(told).count(), 15);
}

/// The bank keeps the canaries waiting, and the process dies.
#[test]
fn a_process_that_dies_in_a_canary_gives_no_sixth_turn_and_does_not_stop_the_lane() {
    let pair = fixture(&Footing::Embedded, 1000);
    pair.bank.set_faults("sends: stall".parse().unwrap());
    let ids = ids("a", 20);
    for id in &ids {
        take_in(pair.server.address, &payment(id));
    }
    let five = async {
        let arrivals = pair.bank.ledger().wait_for_arrivals(5);
        tokio::time::timeout(Duration::from_mins(1), arrivals).await
    };
    pair.runtime.block_on(five).unwrap();
    pair.server.signal("-KILL");
    assert_eq!(pair.bank.ledger().arrivals(), 5);
    pair.bank.set_faults("".parse().unwrap());
    let pair = pair.restarted();
    pair.all_are_paid_once(&ids);
}
