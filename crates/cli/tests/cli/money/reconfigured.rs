//! Changes while payments run: the kill switch, a pause, a limit and the rules. From when each of
//! them binds is judged by the store's own times and by the bank's ledger. How fast it was is
//! printed: a second is nothing that a loaded machine can be held to.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tollgate_core::{SignedDuration, Timestamp};

use crate::files::bulk::done;
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::eventually;

/// Half a minute at the first limit: however slow the machine, some are not claimed yet when the
/// switch is thrown.
const PAYMENTS: usize = 600;
const FIRST_LIMIT: &str = "20";
const LOWER_LIMIT: usize = 5;
const PATIENCE: Duration = Duration::from_mins(1);
const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// A claim that had read its configuration before the switch was thrown still commits; so long it
/// takes on the slowest machine that is worth a test.
const SLOWEST_CLAIM: SignedDuration = SignedDuration::from_secs(20);

#[test]
fn the_kill_switch_a_pause_a_limit_and_rules_bind_while_payments_run_and_are_audited() {
    let pair = running();
    the_kill_switch_stops_claims(&pair);
    a_pause_ends_the_turns(&pair);
    a_lower_limit_spreads_them(&pair);
    rules_bind_the_next_payment(&pair);
    everything_else_is_paid_once(&pair);
    who_did_what_is_known(&pair);
}

fn the_kill_switch_stops_claims(pair: &Pair) {
    let off = pair.data(&[
        "types",
        "disable",
        "PAYMENT",
        "--reason",
        "1: the bank called",
    ]);
    let since = time(&off["since"]);
    pair.cycles(2);
    let claimed = pair.ids(|line| line["queueStatus"] != "READY");
    assert!(claimed.len() < PAYMENTS, "some were not claimed yet");
    let last = claimed
        .iter()
        .map(|id| claimed_at(&pair.shown(id)))
        .max()
        .unwrap();
    let took = last.duration_since(since);
    println!(
        "kill switch: the last claim was {} ms after it",
        took.as_millis()
    );
    assert!(took < SLOWEST_CLAIM, "{took:?}");

    eventually("what was claimed is sent", PATIENCE, || {
        (pair.paid() == claimed).then_some(())
    });
    pair.cycles(5);
    assert_eq!(pair.paid(), claimed, "and nothing else ever is");
    let waiting = pair.ids(|line| line["queueStatus"] == "READY");
    assert_eq!(waiting.len(), PAYMENTS - claimed.len());
    let why = pair.shown(waiting.first().unwrap())["whyNotRunning"].to_string();
    assert!(why.contains("dispatch of PAYMENT was disabled by"), "{why}");
    pair.data(&[
        "types",
        "enable",
        "PAYMENT",
        "--reason",
        "2: it called again",
    ]);
    pair.goes_on(10);
}

fn a_pause_ends_the_turns(pair: &Pair) {
    let paused = pair.data(&["lanes", "pause", "default", "--reason", "3: quiet"]);
    let binds = time(&paused["effectiveAt"]);
    // What had its turn gets its answer, and there is no other.
    pair.cycles(5);
    let before = pair.paid();
    pair.cycles(5);
    assert_eq!(pair.paid(), before, "nobody is paid in the pause");
    let turns = pair.turns(&before);
    let last = turns.last().unwrap();
    println!("pause: it bound at {binds}, the last turn was at {last}");
    assert!(*last <= binds);
    pair.data(&["lanes", "resume", "default", "--reason", "4: go on"]);
    pair.goes_on(10);
}

fn a_lower_limit_spreads_them(pair: &Pair) {
    let before = pair.paid();
    let lowered = pair.data(&[
        "lanes",
        "set",
        "default",
        "--max-per-second",
        &LOWER_LIMIT.to_string(),
        "--max-per-window",
        "20",
        "--reason",
        "5: less",
    ]);
    let binds = time(&lowered["effectiveAt"]);
    pair.goes_on(30);
    let after: BTreeSet<String> = pair.paid().difference(&before).cloned().collect();
    let mut turns = pair.turns(&after);
    turns.retain(|turn| *turn > binds);
    let in_second = |from: &Timestamp| {
        let second = *from..*from + SECOND;
        turns.iter().filter(|turn| second.contains(turn)).count()
    };
    let worst = turns.iter().map(in_second).max();
    println!("limit: it bound at {binds}, the worst second after it has {worst:?} turns");
    assert!(turns.len() > LOWER_LIMIT && worst <= Some(LOWER_LIMIT));
    let certificate = pair.data(&["lanes", "certificate", "default"]);
    assert_eq!(certificate["holds"], true, "{certificate}");
}

fn rules_bind_the_next_payment(pair: &Pair) {
    pair.write_config(
        "[[rules]]\nname = \"euros\"\nrequire = \"currency == 'EUR'\"\nmessage = \"only euros\"\nat = [\"intake\"]\n",
    );
    pair.data(&["rules", "reload", "--reason", "6: only euros"]);
    let refused = post(pair.server.address, "/payments", &payment("dollars")).unwrap();
    assert_eq!(refused.status, 422, "{}", refused.text);
}

fn everything_else_is_paid_once(pair: &Pair) {
    let raised = [
        "lanes",
        "set",
        "default",
        "--max-per-second",
        "500",
        "--max-per-window",
        "2000",
        "--reason",
        "7: more",
    ];
    pair.data(&raised);
    pair.data(&["lanes", "replan", "default", "--reason", "8: sooner"]);
    eventually("all are paid", PATIENCE * 3, || {
        (pair.paid().len() == PAYMENTS).then_some(())
    });
    assert_eq!(
        pair.bank.ledger().doubles(),
        Vec::<String>::new(),
        "MONEY: paid twice"
    );
}

fn who_did_what_is_known(pair: &Pair) {
    let log = pair.data(&["audit", "--actor", "local", "--limit", "1000"]);
    let entries = log["entries"].as_array().unwrap();
    let told: Vec<&str> = entries
        .iter()
        .map(|entry| entry["detail"].as_str().unwrap())
        .collect();
    for number in 1..=8 {
        let reason = format!("{number}: ");
        assert!(
            told.iter().any(|detail| detail.contains(&reason)),
            "{told:?}"
        );
    }
}

/// A server on its way through many payments, which claims little ahead.
fn running() -> Pair {
    let pair = pair("");
    let limit = [
        "lanes",
        "set",
        "default",
        "--max-per-second",
        FIRST_LIMIT,
        "--max-per-window",
        "80",
        "--reason",
        "slow",
    ];
    pair.data(&limit);
    let ahead = ["types", "set", "PAYMENT", "--pre-start-buffer-mins", "0.02"];
    pair.data(&[&ahead[..], &["--reason", "no further than a second"]].concat());
    let lines = (0..PAYMENTS).map(|n| payment(&format!("p{n:03}")).to_string() + "\n");
    let (address, lines) = (pair.server.address, lines.collect::<String>());
    let file = post_raw(address, "/payments/bulk", "application/x-ndjson", &lines).unwrap();
    done(address, file.body["batchId"].as_str().unwrap());
    pair.goes_on(10);
    pair
}

impl Pair {
    fn ids(&self, which: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        let page = get(self.server.address, "/payments?limit=1000")
            .unwrap()
            .body;
        let lines = page["payments"].as_array().unwrap().iter();
        lines
            .filter(|line| which(line))
            .map(|line| line["paymentId"].as_str().unwrap().to_owned())
            .collect()
    }

    /// By the bank's own ledger.
    pub(crate) fn paid(&self) -> BTreeSet<String> {
        self.bank.ledger().effective().into_keys().collect()
    }

    /// Until so many more are paid.
    pub(crate) fn goes_on(&self, more: usize) {
        let enough = self.paid().len() + more;
        eventually("it goes on", PATIENCE, || {
            (self.paid().len() >= enough).then_some(())
        });
    }

    /// When they were sent, in order.
    fn turns(&self, ids: &BTreeSet<String>) -> Vec<Timestamp> {
        let mut turns = vec![];
        for id in ids {
            let shown = self.shown(id);
            let attempts = shown["attempts"].as_array().unwrap();
            turns.extend(attempts.iter().map(|attempt| time(&attempt["sentAt"])));
        }
        turns.sort();
        turns
    }

    /// Until the dispatcher has ended so many cycles; the second of them has begun after now.
    pub(crate) fn cycles(&self, more: u64) {
        let enough = self.cycles_so_far() + more;
        eventually("the dispatcher cycles", PATIENCE, || {
            (self.cycles_so_far() >= enough).then_some(())
        });
    }

    fn cycles_so_far(&self) -> u64 {
        let name = "dispatch_cycle_duration_seconds_count{item_type=\"PAYMENT\"} ";
        let text = get(self.server.address, "/metrics").unwrap().text;
        let count = text.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse().unwrap()
    }
}

fn claimed_at(shown: &Value) -> Timestamp {
    let mut timeline = shown["timeline"].as_array().unwrap().iter();
    let claim = timeline.find(|event| event["what"] == "claimed by the dispatcher");
    time(&claim.unwrap()["at"])
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}
