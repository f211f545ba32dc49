//! What people put right: cancelled, corrected, settled; checks that change; judged by the provider's ledger.

use serde_json::json;
use tollgate_core::id::ItemId;
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::AttemptState;
use tollgate_domains::invoices::{self, Billed, BillingError, CheckText, ChecksInForce};

use crate::scene::{AwaitNow, BOTH, Footing, Plan, Town, test};

fn kroner(value: &str) -> Money {
    Money::parse(value, Currency::from_code("DKK").unwrap()).unwrap()
}

fn refused<T: std::fmt::Debug>(said: Result<T, BillingError>, why: &str) {
    match said {
        Err(BillingError::Conflict(said)) => assert!(said.contains(why), "{said}"),
        other => panic!("{other:?} instead of {why}"),
    }
}

#[test]
fn a_correction_is_charged_under_the_next_key_and_a_repeat_tells_the_new_amount() {
    for footing in BOTH {
        // The provider is busy and knows the old amount under the old key.
        let town = Town::build(footing, &Plan::with_faults("send 1: 429"));
        let id = ItemId::new("inv_1");
        town.node.invoice("inv_1");
        town.bill("inv_1");
        let corrected = town.node.billing.correct(&id, kroner("90.00"), test());
        assert_eq!(corrected.await_now().unwrap().money, kroner("90.00"));
        let repeat = town.node.invoice("inv_1");
        assert!(repeat.repeat, "the request that was made");
        assert_eq!(
            (repeat.money, repeat.status.as_str()),
            (kroner("90.00"), "PENDING")
        );
        town.until("inv_1", |status| status == "PAID");
        assert_eq!(town.keys(), ["invoice-inv_1-1", "invoice-inv_1-2"]);
        assert_eq!(town.charged("inv_1"), 1);
        let again = town.node.billing.correct(&id, kroner("80.00"), test());
        refused(again.await_now(), "it is PAID");
        let euros = Money::parse("1", Currency::from_code("EUR").unwrap()).unwrap();
        let other = town.node.billing.correct(&id, euros, test()).await_now();
        assert!(matches!(other, Err(BillingError::Invalid(_))), "{other:?}");
    }
}

#[test]
fn a_flow_that_has_read_the_old_amount_charges_nothing_after_a_correction() {
    let town = Town::build(Footing::Sqlite, &Plan::default());
    let id = ItemId::new("inv_1");
    town.node.invoice("inv_1");
    town.advance_to(town.node.view("inv_1").due);
    let under_way = town.node.claimed().unwrap();
    let corrected = town.node.billing.correct(&id, kroner("90.00"), test());
    corrected.await_now().unwrap();
    let billed = town.node.execute(&under_way);
    assert!(matches!(billed, Billed::Superseded(_)), "{billed:?}");
    assert_eq!(town.charged("inv_1"), 0);
    assert_eq!(town.node.execute_all(), [Billed::Paid]);
    assert_eq!(town.keys(), ["invoice-inv_1-2"]);
}

#[test]
fn what_is_cancelled_or_settled_elsewhere_is_never_charged() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        town.node.invoice("inv_1");
        town.node.invoice("inv_2");
        let (one, two) = (ItemId::new("inv_1"), ItemId::new("inv_2"));
        let cancelled = town.node.billing.cancel(&one, test()).await_now();
        assert_eq!(cancelled.unwrap().status, "CANCELLED");
        let settled = town.node.billing.settle(&two, "TRX-1".into(), test());
        let settled = settled.await_now().unwrap();
        assert_eq!(settled.status, "PAID");
        let by = invoices::document(&settled).unwrap().settled_by.unwrap();
        assert_eq!(
            (by.actor.as_str(), by.reference.as_str()),
            ("test", "TRX-1")
        );
        refused(
            town.node.billing.cancel(&two, test()).await_now(),
            "already",
        );
        let again = town.node.billing.reschedule(&one, None, test());
        refused(again.await_now(), "CANCELLED already");
        town.advance(std::time::Duration::from_hours(24 * 40));
        assert!(town.node.execute_all().is_empty());
        assert_eq!(
            town.node.billing.sweep(None).await_now().unwrap().rescued,
            0
        );
        assert_eq!(town.bank.ledger().arrivals(), 0);
    }
}

#[test]
fn an_invoice_in_doubt_is_neither_cancelled_nor_corrected_nor_settled() {
    let plan = Plan::with_faults("all: reset after");
    let town = Town::build(Footing::Sqlite, &plan);
    town.node.invoice("inv_1");
    town.bill("inv_1");
    assert_eq!(town.node.status("inv_1"), "IN_DOUBT");
    let id = ItemId::new("inv_1");
    let billing = &town.node.billing;
    refused(
        billing.cancel(&id, test()).await_now(),
        "may have been executed",
    );
    let corrected = billing.correct(&id, kroner("1"), test()).await_now();
    refused(corrected, "it is IN_DOUBT");
    let settled = billing.settle(&id, "T".into(), test()).await_now();
    refused(settled, "it is IN_DOUBT");
}

#[test]
fn a_refusal_stays_one_when_a_person_has_the_invoice_tried_again() {
    let town = Town::build(Footing::Sqlite, &Plan::with_faults("send 1: 422"));
    town.node.invoice("inv_1");
    town.bill("inv_1");
    assert_eq!(town.node.status("inv_1"), "FAILED");
    let (now, id) = (town.node.now(), ItemId::new("inv_1"));
    let again = town.node.billing.reschedule(&id, Some(now), test());
    again.await_now().unwrap();
    town.until("inv_1", |status| status == "PAID");
    let attempts = town.node.view("inv_1").attempts;
    let states: Vec<_> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [AttemptState::Refused, AttemptState::Done]);
    assert_eq!(town.keys(), ["invoice-inv_1-1", "invoice-inv_1-2"]);
}

fn never() -> CheckText {
    CheckText {
        name: "never".into(),
        require: "false".into(),
        otherwise: "skip".into(),
        pause: None,
        message: "not this time".into(),
    }
}

#[test]
fn checks_that_are_reloaded_count_for_the_next_charge_and_a_skip_follows_the_schedule() {
    let town = Town::build(Footing::Sqlite, &Plan::default());
    town.node.invoice("inv_1");
    let every_minute = json!({"invoiceId": "inv_2", "customerId": "c_1",
        "amount": {"value": "1.00", "currency": "DKK"}, "schedule": {"cron": "* * * * *"}});
    town.node.create(&every_minute);
    let checks = ChecksInForce::new(town.node.store.clone());
    let put = |texts: &[CheckText]| checks.put(texts, test()).await_now().unwrap();
    assert!(put(&[never()]).is_some() && put(&[never()]).is_none());
    let node = town.again(&Plan {
        checks: vec![never()],
        ..Plan::default()
    });
    town.advance_to(town.node.view("inv_2").due);
    let input = node.claimed().unwrap();
    let billed = node.execute(&input);
    assert!(matches!(billed, Billed::Waits(_)), "{billed:?}");
    let due = town.node.view("inv_2").due;
    let past_the_minute = due.as_second() % 60;
    assert_eq!(past_the_minute, 0, "{due}");
    assert!(due.duration_since(town.node.now()).as_secs() < 60, "{due}");
    assert!(put(&[]).is_some());
    let node = town.again(&Plan::default());
    town.advance_to(due);
    assert_eq!(node.execute_all(), [Billed::Paid]);
}
