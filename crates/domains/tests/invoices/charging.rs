//! What becomes of a charge: paid, declined and asked again, refused, lost; through moved time and
//! on both stores, judged by the provider's ledger.

use serde_json::json;
use tollgate_core::id::ItemId;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ActionResult, Author, Resolved};
use tollgate_domains::invoices::{self, Billed, BillingError, CheckText};

use crate::scene::{AwaitNow, BOTH, DAY, Footing, Plan, Town, test};

#[test]
fn each_retry_is_a_charge_of_its_own_and_after_the_last_the_invoice_has_failed() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::with_faults("sends: decline"));
        town.node.invoice("inv_1");
        for _ in 0..2 {
            let billed = town.bill("inv_1");
            assert!(matches!(billed[..], [Billed::Waits(_)]), "{billed:?}");
            assert_eq!(town.node.status("inv_1"), "PENDING");
            assert!(town.node.execute_all().is_empty(), "not before its time");
        }
        let billed = town.bill("inv_1");
        assert!(matches!(billed[..], [Billed::Failed(_)]), "{billed:?}");
        assert_eq!(town.node.status("inv_1"), "FAILED");
        let keys = ["invoice-inv_1-1", "invoice-inv_1-2", "invoice-inv_1-3"];
        assert_eq!(town.keys(), keys, "each retry has a key of its own");
        assert_eq!(town.charged("inv_1"), 0);

        // A person has called the customer, and wants it tried again.
        town.set_faults("");
        let id = ItemId::new("inv_1");
        let now = town.node.now();
        let again = town.node.billing.reschedule(&id, Some(now), test());
        assert_eq!(again.await_now().unwrap().status, "PENDING");
        assert_eq!(town.bill("inv_1"), [Billed::Paid]);
        assert_eq!(town.charged("inv_1"), 1);
        assert_eq!(town.keys().last().unwrap(), "invoice-inv_1-4");
        let paid = town.node.billing.reschedule(&id, None, test()).await_now();
        let said = paid.unwrap_err().to_string();
        assert!(said.contains("is PAID"), "{said}");
    }
}

#[test]
fn a_customer_may_have_a_retry_schedule_of_its_own() {
    let town = Town::build(Footing::Sqlite, &Plan::with_faults("sends: decline"));
    town.node.customer(
        &json!({"customerId": "c_1", "currency": "DKK", "timeZone": "UTC", "ladder": ["2h"]}),
    );
    town.node.invoice("inv_1");
    town.bill("inv_1");
    let view = town.node.view("inv_1");
    let hours = view.due.duration_since(town.node.now());
    assert!(hours.as_mins() > 110 && hours.as_mins() <= 120, "{hours}");
    let billed = town.bill("inv_1");
    assert!(matches!(billed[..], [Billed::Failed(_)]), "{billed:?}");
    assert_eq!(town.keys().len(), 2);
}

#[test]
fn a_lost_answer_is_found_out_under_the_same_key_and_never_charged_twice() {
    // What strikes the first charge, and what becomes of the invoice in the end.
    let table = [
        ("send 1: reset after", "PAID"),
        ("send 1: reset before", "PAID"),
        ("send 1: half after", "PAID"),
        ("send 1: 500 after", "PAID"),
        ("send 1: garbage before", "PAID"),
        ("send 1: reset after; send 1: decline", "PENDING"),
        ("send 1: reset after; send 2: 409", "PAID"),
    ];
    // Time is not moved while it is in doubt: how long ago a send was would be nobody's to tell.
    std::thread::scope(|scope| {
        for footing in BOTH {
            for (faults, end) in table {
                for honours_keys in [true, false] {
                    scope.spawn(move || found_out(footing, faults, honours_keys, end));
                }
            }
        }
    });
}

fn found_out(footing: Footing, faults: &str, honours_keys: bool, end: &str) {
    let mut plan = Plan::with_faults(faults);
    plan.bank.honours_keys = honours_keys;
    let town = Town::build(footing, &plan);
    town.node.invoice("inv_1");
    let billed = town.bill("inv_1");
    let case = format!("{footing:?}, {faults}, keys {honours_keys}: {billed:?}");
    let was = town.node.view("inv_1");
    assert_eq!(was.attempts[0].state.as_str(), "UNKNOWN", "{case}");
    town.until_not_in_doubt("inv_1");
    assert_eq!(town.node.status("inv_1"), end, "{case}");
    assert_eq!(town.charged("inv_1"), u32::from(end == "PAID"), "{case}");
    let keys = town.keys();
    let is_first = |key: &String| key == "invoice-inv_1-1";
    assert!(keys.iter().all(is_first), "{case} {keys:?}");
}

/// A load balancer answers a charge in the provider's place, before or after it has passed it on, and then a question.
#[test]
fn a_strangers_answer_neither_fails_an_invoice_nor_charges_it_twice() {
    let table = [
        "send 1: stranger 404 before; probe 1: stranger 404",
        "send 1: stranger 404 after; probe 1: stranger 404",
        "send 1: stranger 409 after; send 2: stranger 410 after",
    ];
    std::thread::scope(|scope| {
        for footing in BOTH {
            for (faults, keys) in table.into_iter().flat_map(|it| [(it, true), (it, false)]) {
                scope.spawn(move || answered_by_a_stranger(footing, faults, keys));
            }
        }
    });
}

fn answered_by_a_stranger(footing: Footing, faults: &str, honours_keys: bool) {
    let mut plan = Plan::with_faults(faults);
    plan.bank.honours_keys = honours_keys;
    let town = Town::build(footing, &plan);
    town.node.invoice("inv_1");
    let billed = town.bill("inv_1");
    let case = format!("{footing:?}, {faults}, keys {honours_keys}: {billed:?}");
    assert_eq!(town.node.status("inv_1"), "IN_DOUBT", "{case}");
    let reason = town.pause_reason().unwrap();
    assert!(reason.contains("not recognisably the bank's"), "{reason}");
    town.until("inv_1", |status| {
        town.resume();
        status == "PAID"
    });
    assert_eq!(town.charged("inv_1"), 1, "{case}");
}

/// What is asked about, and never reached the provider.
fn never_arrived(faults: &str) -> Plan {
    let mut plan = Plan::with_faults(faults);
    plan.bank.honours_keys = false;
    plan
}

/// Somebody has configured a check meanwhile.
#[test]
fn what_was_proved_not_to_be_charged_is_checked_again_before_it_is_charged() {
    for footing in BOTH {
        let plan = never_arrived("send 1: reset before");
        let mut town = Town::build(footing, &plan);
        town.node.invoice("inv_1");
        town.bill("inv_1");
        assert_eq!(town.node.status("inv_1"), "IN_DOUBT");
        let strict = Plan {
            checks: vec![CheckText {
                name: "nobody".to_owned(),
                require: "amountMinor < 0".to_owned(),
                otherwise: "fail".to_owned(),
                pause: None,
                message: "nobody is charged".to_owned(),
            }],
            ..plan
        };
        town.node = town.again(&strict);
        town.until("inv_1", |status| status == "FAILED");
        assert_eq!(town.charged("inv_1"), 0);
        let verdicts = town.node.verdicts("inv_1");
        let (check, said) = verdicts.last().unwrap();
        assert_eq!(
            (check.as_str(), said.as_str()),
            ("nobody", "fail: nobody is charged")
        );
    }
}

#[test]
fn what_was_proved_not_to_be_charged_and_then_refused_can_be_tried_again() {
    for footing in BOTH {
        let town = Town::build(footing, &never_arrived("send 1: reset before; send 2: 409"));
        town.node.invoice("inv_1");
        town.bill("inv_1");
        town.until("inv_1", |status| status == "FAILED");
        let id = ItemId::new("inv_1");
        let again = town.node.billing.reschedule(&id, None, test());
        again.await_now().unwrap();
        assert_eq!(town.bill("inv_1"), [Billed::Paid]);
        assert_eq!(town.charged("inv_1"), 1);
        assert_eq!(town.keys().last().unwrap(), "invoice-inv_1-2");
    }
}

#[test]
fn an_unknown_customer_or_a_wrong_currency_fails_without_retries_and_can_be_tried_again() {
    for footing in BOTH {
        for status in [404, 409] {
            let town = Town::build(footing, &Plan::with_faults(&format!("sends: {status}")));
            town.node.invoice("inv_1");
            let billed = town.bill("inv_1");
            assert!(matches!(billed[..], [Billed::Failed(_)]), "{billed:?}");
            assert_eq!(town.node.status("inv_1"), "FAILED");
            town.set_faults("");
            let id = ItemId::new("inv_1");
            let again = town.node.billing.reschedule(&id, None, test());
            again.await_now().unwrap();
            assert_eq!(town.bill("inv_1"), [Billed::Paid]);
            assert_eq!(town.keys(), ["invoice-inv_1-1", "invoice-inv_1-2"]);
        }
    }
}

#[test]
fn nothing_is_rescheduled_while_it_may_have_been_charged() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::with_faults("send 1: reset after"));
        town.node.invoice("inv_1");
        let id = ItemId::new("inv_1");
        let refused = |what: &str| {
            let said = town.node.billing.reschedule(&id, None, test()).await_now();
            match said {
                Err(BillingError::Conflict(why)) => assert!(why.contains(what), "{why}"),
                other => panic!("{other:?} instead of {what}"),
            }
        };
        town.advance_to(town.node.view("inv_1").due);
        let input = town.node.claimed().unwrap();
        town.node.execute(&input);
        let view = town.node.view("inv_1");
        let seen = (view.status.as_str(), view.queue_status);
        assert_eq!(seen, ("IN_DOUBT", QueueStatus::Ready));
        refused("may have been executed");
    }
}

#[test]
fn a_person_may_decide_what_became_of_an_invoice_in_doubt() {
    for footing in BOTH {
        for (resolved, end) in [
            (Resolved::Done, "PAID"),
            (Resolved::NotDone, "PENDING"),
            (Resolved::Failed, "FAILED"),
        ] {
            let mut plan = Plan::with_faults("all: reset before");
            plan.bank.honours_keys = false;
            let town = Town::build(footing, &plan);
            town.node.invoice("inv_1");
            town.bill("inv_1");
            let item = invoices::item(&ItemId::new("inv_1"));
            let resolution = invoices::resolution(resolved, 1);
            let author = Author::new("ann", "asked the provider");
            let said = town
                .node
                .store
                .resolve(&item, resolution, author)
                .await_now();
            assert_eq!(said.unwrap(), ActionResult::Yes);
            assert_eq!(town.node.status("inv_1"), end);
            town.set_faults("");
            town.advance(DAY);
            town.node.execute_all();
            let charged = u32::from(resolved == Resolved::NotDone);
            assert_eq!(town.charged("inv_1"), charged, "{resolved:?}");
        }
    }
}

#[test]
fn a_provider_that_asks_for_quiet_or_turns_us_away_costs_no_invoice() {
    for faults in ["send 1: 429 retry-after 1", "send 1: 503 before"] {
        let town = Town::build(Footing::Sqlite, &Plan::with_faults(faults));
        town.node.invoice("inv_1");
        town.bill("inv_1");
        assert_ne!(town.node.status("inv_1"), "FAILED", "{faults}");
        town.until("inv_1", |status| status == "PAID");
        assert_eq!(town.charged("inv_1"), 1);
    }
}

/// As if a bug had ended its item: nothing would ever charge it.
#[test]
fn an_outstanding_invoice_that_is_not_scheduled_is_found_by_the_sweep() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        town.node.invoice("inv_1");
        town.node.invoice("inv_2");
        town.advance_to(town.node.view("inv_2").due);
        let lost = town.node.claimed().unwrap();
        let nothing = tollgate_core::ports::StatusMove::new(&[], "PAID");
        let ended = town.node.store.finish(&lost.item, 1, nothing).await_now();
        assert!(ended.unwrap());
        let sweep = || town.node.billing.sweep(None).await_now().unwrap();
        assert_eq!((sweep().rescued, sweep().rescued), (1, 0), "once");
        let id = lost.item.id.as_str();
        let view = town.node.view(id);
        assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
        assert!(view.due > town.node.now(), "with its schedule's next time");
        town.bill(id);
        town.node.execute_all();
        for id in ["inv_1", "inv_2"] {
            assert_eq!(
                (town.node.status(id).as_str(), town.charged(id)),
                ("PAID", 1)
            );
        }
    }
}
