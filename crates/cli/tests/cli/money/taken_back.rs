//! A payment is cancelled or rescheduled until its turn is taken, and again while every attempt so far is definitely not
//! done. After a 200 no byte goes out; the bank's ledger is the judge.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;
use tollgate_core::Timestamp;

use crate::fixture::footing::{Footing, LONG, database, on_both_footings, take_in};
use crate::fixture::http::{Response, get, post};
use crate::fixture::pair::{Pair, payment};
use crate::fixture::served::eventually;
use crate::promises::forecast::{done, time};

on_both_footings!(
    what_is_dispatched_is_taken_back_before_its_turn,
    what_is_dead_is_taken_back_and_can_be_given_another_time,
    what_may_have_been_paid_is_not_taken_back_and_what_was_not_done_is,
);

impl Pair {
    fn act(&self, id: &str, how: &str, wish: &Value) -> Response {
        let path = format!("/payments/{id}/{how}");
        post(self.server.address, &path, wish).unwrap()
    }

    fn cancel(&self, id: &str) -> Response {
        self.act(id, "cancel", &json!({"reason": "the customer called"}))
    }

    fn reschedule(&self, id: &str, secs: u64) -> Response {
        let at = (self.now() + Duration::from_secs(secs)).to_string();
        self.act(
            id,
            "reschedule",
            &json!({"executeAt": at, "reason": "later"}),
        )
    }

    /// How many requests about a payment have arrived at the bank.
    fn arrivals_of(&self, id: &str) -> usize {
        let entries = self.bank.ledger().entries();
        let mine = entries
            .iter()
            .filter(|it| it.payment_id.as_deref() == Some(id));
        mine.count()
    }

    fn until_effective(&self, id: &str) {
        eventually(&format!("{id} is paid"), LONG, || {
            self.bank.ledger().effective().get(id).copied()
        });
    }

    fn queue_status(&self, id: &str) -> String {
        let shown = self.shown(id);
        shown["queueStatus"].as_str().unwrap_or_default().to_owned()
    }

    /// In which place of the queue the last act of a person found a payment.
    fn found_in(&self, id: &str) -> Value {
        let path = format!("/admin/audit?item=PAYMENT/{id}&by=people");
        let audit = get(self.server.address, &path).unwrap().body;
        audit["entries"][0]["statusBefore"].clone()
    }
}

/// Its flow runs, and waits for the slot.
fn what_is_dispatched_is_taken_back_before_its_turn(footing: &Footing) {
    let pair = footing.pair("");
    let early = json!({"preStartBufferMins": 1, "dispatchIntervalSecs": 1, "reason": "test"});
    done(pair.server.address, "/admin/item-types/PAYMENT", &early);
    let (cancelled, slot) = while_dispatched(&pair, "c", |id| pair.cancel(id));
    assert_eq!(pair.shown(&cancelled)["status"], "CANCELLED");
    let (moved, other_slot) = while_dispatched(&pair, "r", |id| pair.reschedule(id, 3600));
    assert_eq!(pair.queue_status(&moved), "READY");
    // Behind the slots that both had.
    let mut later = payment("later");
    later["executeAt"] = json!((slot.max(other_slot) + Duration::from_secs(1)).to_string());
    take_in(pair.server.address, &later);
    pair.until_effective("later");
    for id in [&cancelled, &moved] {
        assert_eq!(pair.arrivals_of(id), 0, "{id}");
    }
    let again = pair.reschedule(&moved, 1);
    assert_eq!(again.status, 200, "{}", again.text);
    pair.until_effective(&moved);
    assert_eq!(pair.arrivals_of(&moved), 1);
    assert_eq!(pair.cancel(&moved).status, 409, "it is paid");
    assert_eq!(pair.arrivals_of(&cancelled), 0);
}

/// Does something to a payment that is DISPATCHED, and says which and what slot it had. A machine may be too slow to do so before the slot; then
/// the next one has more time.
fn while_dispatched(
    pair: &Pair,
    name: &str,
    act: impl Fn(&str) -> Response,
) -> (String, Timestamp) {
    let mut refusals = vec![];
    for secs in [4, 8, 16, 32] {
        let id = format!("{name}{secs}");
        let mut order = payment(&id);
        order["executeAt"] = json!((pair.now() + Duration::from_secs(secs)).to_string());
        let slot = time(&take_in(pair.server.address, &order).body["scheduledTime"]);
        eventually("it is dispatched", LONG, || {
            (pair.queue_status(&id) == "DISPATCHED").then_some(())
        });
        let answer = act(&id);
        if answer.status == 200 {
            assert_eq!(pair.found_in(&id), "DISPATCHED");
            return (id, slot);
        }
        assert_eq!(answer.status, 409, "{}", answer.text);
        refusals.push(answer.text);
    }
    panic!("nothing that was dispatched could be taken back: {refusals:?}");
}

/// Both have lost their bodies for a while, and an item without a body cannot be executed.
fn what_is_dead_is_taken_back_and_can_be_given_another_time(footing: &Footing) {
    let url = database();
    let pair = footing.pair_on(&url, "");
    let sql = |text: &str| pair.runtime.block_on(cluster::sql(&url, text));
    let dispatch = |enabled: bool| {
        let wish = json!({"enabled": enabled, "reason": "to lose bodies"});
        done(pair.server.address, "/admin/item-types/PAYMENT", &wish);
    };
    dispatch(false);
    for id in ["gone", "moved"] {
        take_in(pair.server.address, &payment(id));
    }
    sql("CREATE TABLE kept AS TABLE item_body; DELETE FROM item_body");
    dispatch(true);
    eventually("both are dead", LONG, || {
        let dead = get(pair.server.address, "/admin/dead-letters")
            .unwrap()
            .body;
        (dead["deadLetters"].as_array()?.len() == 2).then_some(())
    });
    sql("INSERT INTO item_body SELECT * FROM kept");
    let cancelled = pair.cancel("gone");
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    assert_eq!(cancelled.body["status"], "CANCELLED");
    let moved = pair.reschedule("moved", 1);
    assert_eq!(moved.status, 200, "{}", moved.text);
    assert_eq!(moved.body["queueStatus"], "READY");
    for id in ["gone", "moved"] {
        assert_eq!(pair.found_in(id), "DEAD");
    }
    pair.until_effective("moved");
    let replay = json!({"reason": "not any more"});
    let path = "/admin/dead-letters/PAYMENT/gone/replay";
    let replayed = post(pair.server.address, path, &replay).unwrap();
    assert_eq!(replayed.status, 409, "{}", replayed.text);
    assert_eq!(
        (pair.arrivals_of("gone"), pair.arrivals_of("moved")),
        (0, 1)
    );
}

/// One is sent and never answered, of one the answer is lost, and the bank takes nothing of the others yet.
const FAULTS: &str = "sends of payment open: stall; sends of payment lost: reset after; probes: 500;\
     sends of payment busy: 429 retry-after 1; sends of payment later: 429 retry-after 1";

fn what_may_have_been_paid_is_not_taken_back_and_what_was_not_done_is(footing: &Footing) {
    let pair = footing.pair("");
    // The bank is known to take payments.
    take_in(pair.server.address, &payment("first"));
    pair.until_effective("first");
    pair.bank.set_faults(FAULTS.parse().unwrap());
    for id in ["open", "lost"] {
        take_in(pair.server.address, &payment(id));
        let wanted = if id == "open" { "OPEN" } else { "UNKNOWN" };
        eventually(&format!("{id} is {wanted}"), LONG, || {
            let shown = pair.shown(id);
            (shown["attempts"][0]["outcome"] == wanted).then_some(())
        });
        for answer in [pair.cancel(id), pair.reschedule(id, 60)] {
            assert_eq!(answer.status, 409, "{id}: {}", answer.text);
        }
        assert_ne!(pair.shown(id)["status"], "CANCELLED");
    }
    for id in ["busy", "later"] {
        take_in(pair.server.address, &payment(id));
        eventually(&format!("{id} was sent and not done"), LONG, || {
            (pair.arrivals_of(id) > 0).then_some(())
        });
        // Not while it is asked for the next time.
        eventually(&format!("{id} is taken back"), LONG, || {
            let answer = match id {
                "busy" => pair.cancel(id),
                _ => pair.reschedule(id, 3600),
            };
            assert!(matches!(answer.status, 200 | 409), "{}", answer.text);
            (answer.status == 200).then_some(())
        });
    }
    let before = ["busy", "later"].map(|id| pair.arrivals_of(id));
    pair.bank
        .set_faults("sends of payment open: stall".parse().unwrap());
    take_in(pair.server.address, &payment("last"));
    pair.until_effective("last");
    assert_eq!(["busy", "later"].map(|id| pair.arrivals_of(id)), before);
    assert_eq!(pair.shown("busy")["status"], "CANCELLED");
    let again = pair.reschedule("later", 1);
    assert_eq!(again.status, 200, "{}", again.text);
    pair.until_effective("later");
}
