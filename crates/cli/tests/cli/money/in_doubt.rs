//! A payment in doubt, as a support person works through it: `tollgate in-doubt …`.

use serde_json::Value;

use crate::fixture::footing::{Footing, LONG, on_both_footings};
use crate::fixture::pair::{Pair, payment};
use crate::fixture::served::eventually;

on_both_footings!(
    a_persons_word_ends_a_payment_in_doubt_and_nobody_pays_it_again,
    where_two_must_agree_one_is_not_enough,
    a_person_asks_the_bank_and_its_word_ends_the_doubt,
);

/// The bank does the work and hangs up without an answer, then says nothing useful when asked.
const SILENT: &str = "sends: reset after; probes: 500";

fn in_doubt(footing: &Footing, extra: &str) -> Pair {
    let keys = "downstream.payments.honours_idempotency_key = false\n";
    let pair = footing.pair(&format!("{keys}{extra}"));
    pair.bank.set_faults(SILENT.parse().unwrap());
    pair.pay(&payment("p1"));
    eventually("it is in doubt", LONG, || {
        (pair.shown("p1")["status"] == "IN_DOUBT").then_some(())
    });
    pair
}

/// Tried until no question is under way. It was sent once, and is only asked about.
fn resolve(pair: &Pair, words: &[&str]) -> String {
    resolve_after("1", pair, words)
}

fn resolve_after(sends: &str, pair: &Pair, words: &[&str]) -> String {
    eventually("it is resolved", LONG, || {
        let base = ["in-doubt", "resolve", "p1", "--reason", "asked the bank"];
        match pair.tollgate(&[&base[..], &["--sends", sends], words].concat()) {
            Ok(told) => Some(told),
            Err(why) if why.contains("try again in a moment") => None,
            Err(why) => Some(why),
        }
    })
}

fn a_persons_word_ends_a_payment_in_doubt_and_nobody_pays_it_again(footing: &Footing) {
    let pair = in_doubt(footing, "");
    let listed = pair.tollgate(&["in-doubt", "list"]).unwrap();
    assert!(
        listed.contains("p1") && listed.contains("At risk"),
        "{listed}"
    );
    assert!(listed.contains("125.50"), "{listed}");
    let shown = pair.tollgate(&["in-doubt", "show", "p1"]).unwrap();
    assert!(shown.contains("outcome unknown"), "{shown}");
    // What the bank is asked about.
    for fact in ["Ann, A-1", "Bob, B-2", "payment-p1", "default"] {
        assert!(shown.contains(fact), "{fact}: {shown}");
    }
    let hasty = resolve_after("0", &pair, &["--outcome", "not-done"]);
    assert!(hasty.contains("it is now 1; check again"), "{hasty}");
    let told = resolve(&pair, &["--outcome", "done"]);
    assert!(told.contains("PROCESSING"), "{told}");
    assert!(
        told.contains("resolved by local: done: asked the bank"),
        "{told}"
    );
    let again = resolve(&pair, &["--outcome", "not-done"]);
    assert!(
        again.contains("cannot be resolved: it is PROCESSING"),
        "{again}"
    );
    let empty = pair.tollgate(&["in-doubt", "list"]).unwrap();
    assert!(empty.contains("nothing is in doubt"), "{empty}");
    let effective = pair.bank.ledger().effective();
    assert_eq!(effective.values().copied().collect::<Vec<_>>(), [1]);
}

fn where_two_must_agree_one_is_not_enough(footing: &Footing) {
    let pair = in_doubt(footing, "in_doubt.two_persons = true\n");
    let nobody = resolve(&pair, &["--outcome", "done"]);
    assert!(nobody.contains("actor: is required"), "{nobody}");
    let ann = ["--outcome", "done", "--actor", "ann"];
    assert!(resolve(&pair, &ann).contains("proposal"));
    assert!(
        resolve(&pair, &ann).contains("proposal"),
        "the same person again"
    );
    let other = resolve(&pair, &["--outcome", "failed", "--actor", "bob"]);
    assert!(other.contains("proposal"), "they do not agree: {other}");
    let hasty = resolve_after("2", &pair, &["--outcome", "failed", "--actor", "ann"]);
    assert!(hasty.contains("check again"), "about another send: {hasty}");
    assert_eq!(pair.shown("p1")["status"], Value::from("IN_DOUBT"));
    let agreed = resolve(&pair, &["--outcome", "failed", "--actor", "ann"]);
    assert!(agreed.contains("proposed by bob"), "{agreed}");
    assert_eq!(pair.shown("p1")["status"], Value::from("FAILED"));
}

/// Its own flow does not run meanwhile, so it is the person's question that is answered.
fn a_person_asks_the_bank_and_its_word_ends_the_doubt(footing: &Footing) {
    let pair = in_doubt(footing, "");
    let ask = ["in-doubt", "ask", "p1"];
    pair.data(&["lanes", "pause", "default", "--reason", "the bank moves"]);
    let nobody = pair.tollgate(&ask).unwrap_err();
    assert!(nobody.contains("no bank was asked"), "{nobody}");
    assert!(nobody.contains("paused by local"), "{nobody}");
    pair.data(&["types", "disable", "PAYMENT", "--reason", "only people ask"]);
    pair.data(&["lanes", "resume", "default", "--reason", "it has moved"]);
    eventually("its flow has ended", LONG, || {
        (pair.shown("p1")["queueStatus"] == "READY").then_some(())
    });
    let silent = pair.tollgate(&ask).unwrap();
    let said = "payments asked about: 1, answered: 0, resolved: 0";
    assert!(silent.starts_with(said), "{silent}");
    pair.bank.set_faults("".parse().unwrap());
    let before = pair.bank.ledger().arrivals();
    let told = pair.tollgate(&ask).unwrap();
    let said = "payments asked about: 1, answered: 1, resolved: 1";
    assert!(told.starts_with(said), "{told}");
    assert_eq!(pair.bank.ledger().arrivals(), before + 1, "a question");
    pair.data(&["types", "enable", "PAYMENT", "--reason", "enough"]);
    eventually("it is paid", LONG, || {
        (pair.shown("p1")["status"] == "PROCESSING").then_some(())
    });
    let effective = pair.bank.ledger().effective();
    assert_eq!(effective.values().copied().collect::<Vec<_>>(), [1]);
    let again = pair.tollgate(&ask).unwrap_err();
    assert!(
        again.contains("none of these payments is in doubt"),
        "{again}"
    );
}
