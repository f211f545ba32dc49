//! What operators do from a shell: `tollgate payments|types|dead-letters|audit …`.

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;

use crate::fixture::footing::{Footing, LONG, database, on_both_footings};
use crate::fixture::pair::{Pair, day_ahead, payment};
use crate::fixture::served::eventually;

on_both_footings!(
    payments_are_listed_shown_moved_and_withdrawn,
    the_kill_switch_works_at_once_and_other_changes_leave_it_alone,
    a_dead_letter_is_replayed_once_its_cause_is_gone_and_paid_once,
);

impl Pair {
    /// A command that must succeed.
    fn told(&self, words: &[&str]) -> String {
        self.tollgate(words)
            .unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }
    /// The same, as data.
    pub(crate) fn data(&self, words: &[&str]) -> Value {
        let told = self.told(&[words, &["--json"]].concat());
        serde_json::from_str(&told).unwrap_or_else(|e| panic!("{words:?}: {e}: {told}"))
    }
    fn until_paid(&self, id: &str) {
        eventually("it is paid", LONG, || {
            (self.shown(id)["status"] == "PROCESSING").then_some(())
        });
    }
}

fn far(id: &str) -> Value {
    let mut payment = payment(id);
    payment["executeAt"] = json!(format!("{}T16:00:00Z", day_ahead(60)));
    payment
}

fn payments_are_listed_shown_moved_and_withdrawn(footing: &Footing) {
    let pair = footing.pair("");
    for id in ["a", "b", "c"] {
        pair.pay(&far(id));
    }
    // The newest first.
    let page = pair.told(&["payments", "list", "--limit", "2"]);
    assert!(
        page.contains("125.50") && page.contains("\nc ") && page.contains("\nb "),
        "{page}"
    );
    let (_, next) = page.split_once("more: --after ").unwrap();
    let rest = pair.told(&["payments", "list", "--after", next.trim()]);
    assert!(rest.contains("\na ") && !rest.contains("more"), "{rest}");
    let day_later = format!("{}T16:00:00Z", day_ahead(61));
    let moved = [
        "payments",
        "reschedule",
        "b",
        "--at",
        &day_later,
        "--reason",
        "later",
    ];
    let moved = pair.data(&moved);
    assert_eq!(moved["scheduledTime"], day_later);
    // As at intake.
    for at in ["2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"] {
        let wrong = ["payments", "reschedule", "b", "--at", at, "--reason", "no"];
        let wrong = pair.tollgate(&wrong).unwrap_err();
        assert!(wrong.contains("executeAt"), "{wrong}");
    }
    pair.told(&["payments", "cancel", "c", "--reason", "the customer called"]);
    let shown = pair.told(&["payments", "show", "c"]);
    assert!(
        shown.contains("cancelled by local: the customer called"),
        "{shown}"
    );
    let cancelled = pair.data(&["payments", "list", "--status", "CANCELLED"]);
    assert_eq!(cancelled["payments"].as_array().unwrap().len(), 1);
    assert_eq!(cancelled["payments"][0]["paymentId"], "c");
    let elsewhere = ["payments", "list", "--lane", "elsewhere"];
    let elsewhere = pair.tollgate(&elsewhere).unwrap_err();
    assert!(elsewhere.contains("there is no lane"), "{elsewhere}");
    let wrong = pair
        .tollgate(&["payments", "list", "--status", "GONE"])
        .unwrap_err();
    assert!(wrong.contains("status: must be one of"), "{wrong}");
    let trail = pair.told(&["audit", "--item", "c"]);
    assert!(
        trail.contains("CANCELLED") && trail.contains("the customer called"),
        "{trail}"
    );
    let by_local = pair.data(&["audit", "--actor", "local", "--action", "RESCHEDULED"]);
    assert_eq!(by_local["entries"][0]["item"], "PAYMENT/b");
}

fn the_kill_switch_works_at_once_and_other_changes_leave_it_alone(footing: &Footing) {
    let pair = footing.pair("");
    let off = pair.told(&[
        "types",
        "disable",
        "payment",
        "--reason",
        "the bank is down",
    ]);
    assert!(
        off.contains("false") && off.contains("the bank is down"),
        "{off}"
    );
    pair.pay(&payment("p"));
    let smaller = [
        "types",
        "set",
        "PAYMENT",
        "--batch-size",
        "50",
        "--reason",
        "smaller",
    ];
    assert_eq!(pair.data(&smaller)["enabled"], false);
    let why = pair.shown("p")["whyNotRunning"].to_string();
    let by = "dispatch of PAYMENT was disabled by local at ";
    assert!(
        why.contains(by) && why.contains(": the bank is down"),
        "{why}"
    );
    assert_eq!(pair.bank.ledger().arrivals(), 0);
    pair.told(&["types", "enable", "PAYMENT", "--reason", "it is back"]);
    pair.until_paid("p");
    let versions = pair.data(&["types", "history", "PAYMENT"]);
    assert_eq!(versions.as_array().unwrap().len(), 4);
    assert_eq!(versions[0]["body"]["batchSize"], 50);
    let wrong = [
        "types",
        "set",
        "PAYMENT",
        "--batch-size",
        "0",
        "--reason",
        "none",
    ];
    let wrong = pair.tollgate(&wrong).unwrap_err();
    assert!(
        wrong.contains("batchSize: must be a whole number from 1 to 10000"),
        "{wrong}"
    );
    let queue = ["types", "set", "PAYMENT", "--exec-task-queue", "another"];
    let queue = [&queue[..], &["--reason", "no"]].concat();
    let why = match footing {
        Footing::Embedded => "has no task queues",
        Footing::Temporal(_) => "no process polls the task queue",
    };
    let refused = pair.tollgate(&queue).unwrap_err();
    assert!(refused.contains(why), "{refused}");
    let unknown = pair.tollgate(&["types", "show", "PARCEL"]).unwrap_err();
    assert!(unknown.contains("there is no item type"), "{unknown}");
}

fn a_dead_letter_is_replayed_once_its_cause_is_gone_and_paid_once(footing: &Footing) {
    let url = database();
    let pair = footing.pair_on(&url, "");
    let sql = |text: &str| pair.runtime.block_on(cluster::sql(&url, text));
    pair.told(&["types", "disable", "PAYMENT", "--reason", "to lose a body"]);
    pair.pay(&payment("p"));
    sql("CREATE TABLE kept AS TABLE item_body; DELETE FROM item_body");
    let early = ["dead-letters", "replay", "p", "--reason", "too early"];
    let early = pair.tollgate(&early).unwrap_err();
    assert!(early.contains("cannot be replayed: it is READY"), "{early}");
    pair.told(&["types", "enable", "PAYMENT", "--reason", "go on"]);
    eventually("it is dead", LONG, || {
        let listed = pair.told(&["dead-letters", "list"]);
        listed.contains("its body is missing").then_some(())
    });
    sql("INSERT INTO item_body SELECT * FROM kept");
    let replayed = pair.data(&["dead-letters", "replay", "p", "--reason", "restored"]);
    assert_eq!(replayed["run"], 2);
    pair.until_paid("p");
    assert_eq!(
        pair.told(&["dead-letters", "list"]).trim(),
        "no dead letters"
    );
    let shown = pair.told(&["payments", "show", "p"]);
    assert!(shown.contains("replayed by local: restored"), "{shown}");
    let effective = pair.bank.ledger().effective();
    assert_eq!(effective.values().copied().collect::<Vec<_>>(), [1]);
}
