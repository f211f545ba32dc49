//! A payment that was promised to meet its deadline meets it: on a lane that nothing disturbs, none that was answered
//! `meetsDeadline: true` ends HELD. The judge is the bank's ledger.
//!
//! A busy machine disturbs a lane, too. Witnesses show it: payments without a deadline, at the slots between the
//! others. Promises may be broken only where witnesses were late as well (decision 0058).

use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::{SignedDuration, Timestamp};

use crate::fixture::footing::{LONG, database, take_in};
use crate::fixture::http::post;
use crate::fixture::pair::{Pair, pair, pair_on, payment};
use crate::fixture::served::eventually;
use crate::money::kill_storm::MEASURED_ALONE;
use crate::promises::forecast::{UNHURRIED, done, pay_all, time};

/// Promises that are judged, and the most rounds in which they are collected.
const ENOUGH: usize = 24;
const MOST_ROUNDS: u32 = 6;
/// Payments with a deadline in a round, each before a witness.
const PAYMENTS: usize = 20;
/// Between two slots: 200 in two seconds.
const APART: SignedDuration = SignedDuration::from_millis(10);
/// On a busy machine this many more promises than witnesses may be late: the lane promises what 99 of 100 sends keep.
const MOST_ALONE: usize = 3;

#[test]
fn what_was_promised_in_time_is_never_held_on_sqlite() {
    keeps_its_promises(&pair(UNHURRIED), 1);
}

#[test]
fn what_was_promised_in_time_is_never_held_on_postgres() {
    keeps_its_promises(&pair_on(&database(), UNHURRIED), 50);
}

#[derive(Debug, Default)]
struct Tally {
    promised: usize,
    /// Promised, and held.
    held: Vec<String>,
    /// Witnesses that were sent later after their slots than the lane says that it takes.
    late: usize,
}

fn keeps_its_promises(pair: &Pair, items_per_flow: u32) {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let address = pair.server.address;
    let flows = json!({"itemsPerFlow": items_per_flow, "reason": "test"});
    done(address, "/admin/item-types/PAYMENT", &flows);
    pair.limit(json!({"maxPerWindow": 200, "windowSizeSecs": 2, "maxPerSecond": 150}));
    assert_eq!(pair.way(), 20, "the least, while nothing was sent");
    // What the way takes on this machine is measured first.
    let first: Vec<String> = (0..60).map(|n| format!("first{n}")).collect();
    pay_all(address, first.iter().map(|id| payment(id)).collect());
    pair.until_sent(&first);
    let (mut all, mut lead) = (Tally::default(), 4);
    for n in 0..MOST_ROUNDS {
        let round = pair.round(n, lead);
        // Handed in after their slots, if there are too few.
        if round.promised < PAYMENTS / 3 {
            lead *= 2;
        }
        all.promised += round.promised;
        all.held.extend(round.held);
        all.late += round.late;
        if all.promised >= ENOUGH {
            break;
        }
    }
    assert!(all.promised >= ENOUGH, "too few promises: {all:?}");
    // One in a hundred may be later than its neighbours, also where no witness was.
    let most = if all.late == 0 {
        1
    } else {
        all.late + MOST_ALONE
    };
    assert!(all.held.len() <= most, "promised, and held: {all:?}");
}

/// How far a deadline lies behind the slot, in milliseconds. The first three are too close to be promised.
fn distance(n: usize, way: i64) -> SignedDuration {
    let distances = [1, 3, way - 4, way + 2, way + 6, way + 15, way + 40];
    SignedDuration::from_millis(distances[n % distances.len()])
}

impl Pair {
    /// From slot to turn, as the API shows it.
    fn way(&self) -> i64 {
        self.default_lane()["slotToTurnMs"].as_i64().unwrap()
    }

    fn until_sent(&self, ids: &[String]) {
        eventually("all are sent", LONG, || {
            let sent = self.bank.ledger().effective();
            ids.iter().all(|id| sent.contains_key(id)).then_some(())
        });
    }

    /// In a window that begins in so many seconds, or in one or two less.
    fn round(&self, n: u32, lead: i64) -> Tally {
        // A change of the lane has its way measured again.
        self.limit(json!({"maxPerWindow": 200}));
        let way = self.way();
        let begins = self.now().as_second() + lead;
        let begins = Timestamp::from_second(begins - begins % 2).unwrap();
        let mut slot = begins;
        let (mut promised, mut witnesses) = (vec![], vec![]);
        for k in 0..PAYMENTS {
            let id = format!("p{n}-{k}");
            if self.is_promised(&id, begins, slot + distance(k, way), k % 2 == 1) {
                promised.push(id);
            }
            let mut witness = payment(&format!("w{n}-{k}"));
            witness["executeAt"] = json!(begins.to_string());
            take_in(self.server.address, &witness);
            witnesses.push(format!("w{n}-{k}"));
            slot += APART * 2;
        }
        self.until_sent(&witnesses);
        let ways: Vec<SignedDuration> = witnesses.iter().map(|id| self.way_of(id)).collect();
        let way = SignedDuration::from_millis(way);
        let held = promised.iter().filter(|id| self.is_held(id));
        let round = Tally {
            promised: promised.len(),
            held: held.cloned().collect(),
            late: ways.iter().filter(|it| **it > way).count(),
        };
        println!("{way:?}: {round:?}");
        round
    }

    /// Posts a payment that is held when it is late: for its time, or for a second before and then rescheduled.
    fn is_promised(&self, id: &str, at: Timestamp, deadline: Timestamp, moved: bool) -> bool {
        let mut order = payment(id);
        let first = if moved {
            at - Duration::from_secs(1)
        } else {
            at
        };
        order["executeAt"] = json!(first.to_string());
        order["deadline"] = json!(deadline.to_string());
        order["onMissedDeadline"] = json!("hold");
        let mut told = take_in(self.server.address, &order).body;
        if moved {
            let wish = json!({"executeAt": at.to_string(), "reason": "a second later"});
            let path = format!("/payments/{id}/reschedule");
            let answer = post(self.server.address, &path, &wish).unwrap();
            // Its first time has come already.
            if answer.status == 409 {
                return false;
            }
            assert_eq!(answer.status, 200, "{}", answer.text);
            told = answer.body;
        }
        told["meetsDeadline"] == Value::Bool(true)
    }

    /// Once it is known: every payment is sent, or held.
    fn is_held(&self, id: &String) -> bool {
        eventually("it is sent or held", LONG, || {
            if self.bank.ledger().effective().contains_key(id) {
                return Some(false);
            }
            (self.shown(id)["queueStatus"] == "HELD").then_some(true)
        })
    }

    fn way_of(&self, id: &str) -> SignedDuration {
        let shown = self.shown(id);
        let sent = shown["attempts"].as_array().unwrap().last().unwrap();
        time(&sent["sentAt"]).duration_since(time(&shown["scheduledTime"]))
    }
}
