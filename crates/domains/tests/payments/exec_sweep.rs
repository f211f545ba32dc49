//! The exec flow: each step failed, repeated, crashed after; judged by the bank's ledger.

use tollgate_conformance::memory::{Case, Fault, Memory, Ran, Scene, sweep};
use tollgate_core::id::BatchId;
use tollgate_core::item::QueueStatus;
use tollgate_dispatch::Sent;
use tollgate_domains::payments::{self, PaymentExecFlow};
use tollgate_sandbox::BankOptions;

use crate::scene::Town;

fn scene(options: BankOptions) -> Scene<PaymentExecFlow, Town> {
    in_town(Town::build(options))
}

fn in_town((town, memory): (Town, Memory)) -> Scene<PaymentExecFlow, Town> {
    let input = town.dispatched();
    Scene {
        memory,
        id: input.item.exec_flow(1),
        input,
        world: town,
    }
}

/// One clean run, and every fault at each of the three steps.
const CASES: usize = 1 + 5 * 3;

#[test]
fn a_payment_is_paid_once_whatever_happens_to_its_steps() {
    for honours_keys in [true, false] {
        let options = BankOptions {
            honours_keys,
            ..BankOptions::default()
        };
        assert_eq!(sweep(|| scene(options.clone()), check_paid_once), CASES);
    }
}

fn check_paid_once(case: &Case, town: &Town, ran: &Ran<Sent>) {
    let view = town.item("pay_1").unwrap();
    let effects = town.effects("pay_1");
    assert!(effects <= 1, "MONEY: paid twice");
    match &ran.result {
        Ok(end) => {
            assert!(matches!(end, Sent::Done(_)), "{end:?}");
            assert_eq!((effects, view.status.as_str()), (1, "PROCESSING"));
            assert!(view.finished_at.is_some());
            assert_eq!(town.news(), ["payment.processing"]);
        }
        // The flow failed: the item has no end yet, so the sweeper finds it, and its past tells
        // the next run what was done.
        Err(_) => {
            assert_eq!(case.fault(), Some(Fault::FailForGood));
            assert_eq!(
                (view.queue_status, view.finished_at),
                (QueueStatus::Dispatched, None)
            );
            let sent = view.attempts.iter().any(|a| a.state.as_str() == "DONE");
            assert_eq!(sent, effects == 1, "our books and the bank's agree");
        }
    }
}

#[test]
fn a_payment_without_receivers_ends_with_the_banks_answer() {
    for honours_keys in [true, false] {
        let options = BankOptions {
            honours_keys,
            ..BankOptions::default()
        };
        // With others, in the flow of a batch.
        let among_others = || Scene {
            id: BatchId::new("BATCH-1").exec_flow(&payments::item_type(), 1),
            ..in_town(Town::without_receivers(options.clone()))
        };
        // The clean run has one step. The step that runs a second time finds the answer, and the others follow.
        let cases = sweep(among_others, |case, town, ran| {
            let view = town.item("pay_1").unwrap();
            let effects = town.effects("pay_1");
            assert!(effects <= 1, "MONEY: paid twice");
            match &ran.result {
                Ok(end) => {
                    let is_clean = case.fault().is_none();
                    assert!(matches!(end, Sent::Ended(_)) || !is_clean, "{end:?}");
                    assert_eq!((effects, view.status.as_str()), (1, "PROCESSING"));
                    assert!(view.finished_at.is_some());
                    assert!(town.audit(&view.item).is_empty());
                }
                Err(_) => assert_eq!(case.fault(), Some(Fault::FailForGood)),
            }
        });
        assert_eq!(cases, 1 + 5);
    }
}

#[test]
fn a_payment_whose_answer_is_lost_is_in_doubt_and_waits_in_the_queue() {
    let faults = "all: reset after".parse().unwrap();
    // Keys are not honoured: a second send would be a second payment.
    let options = BankOptions {
        honours_keys: false,
        faults,
        ..BankOptions::default()
    };
    // The clean run and the faults at its only step; later steps are not reached.
    assert_eq!(sweep(|| scene(options.clone()), check_in_doubt), 1 + 5);
}

fn check_in_doubt(case: &Case, town: &Town, ran: &Ran<Sent>) {
    let view = town.item("pay_1").unwrap();
    if case.fault() == Some(Fault::FailForGood) {
        assert!(ran.result.is_err());
        return;
    }
    assert_eq!(town.effects("pay_1"), 1, "never resent blindly");
    // The step that ran a second time found that the item is no longer its own.
    let ended = matches!(ran.result, Ok(Sent::Requeued(_) | Sent::Superseded(_)));
    assert!(ended, "{:?}", ran.result);
    assert_eq!(
        (view.status.as_str(), view.queue_status, view.run),
        ("IN_DOUBT", QueueStatus::Ready, 2)
    );
}

#[test]
fn a_payment_that_the_bank_refuses_ends_and_its_news_are_queued_once() {
    let faults = "sends: 422".parse().unwrap();
    let options = BankOptions {
        faults,
        ..BankOptions::default()
    };
    assert_eq!(sweep(|| scene(options.clone()), check_refused), 1 + 5 * 2);
}

fn check_refused(case: &Case, town: &Town, ran: &Ran<Sent>) {
    let view = town.item("pay_1").unwrap();
    assert_eq!(town.effects("pay_1"), 0);
    match &ran.result {
        Ok(end) => {
            assert!(matches!(end, Sent::Refused(_)), "{end:?}");
            assert_eq!(view.status, "REJECTED");
            assert!(view.finished_at.is_some());
            assert_eq!(town.news(), ["payment.rejected"]);
        }
        Err(_) => assert_eq!(case.fault(), Some(Fault::FailForGood)),
    }
}

#[test]
fn a_payment_ends_although_its_news_cannot_be_queued() {
    let no_lane = || in_town(Town::without_the_receivers_lane(BankOptions::default()));
    assert_eq!(sweep(no_lane, check_ended_untold), CASES);
}

fn check_ended_untold(case: &Case, town: &Town, ran: &Ran<Sent>) {
    if case.fault() == Some(Fault::FailForGood) {
        return;
    }
    assert!(matches!(ran.result, Ok(Sent::Done(_))), "{:?}", ran.result);
    let view = town.item("pay_1").unwrap();
    assert_eq!(view.status, "PROCESSING");
    assert!(town.news().is_empty());
    let audited = town.audit(&view.item);
    let told = audited.iter().any(|entry| entry.action == "NOT_NOTIFIED");
    assert!(told, "{audited:?}");
}

/// Taken in for a gateway that has been taken out of the configuration since.
fn orphan() -> Scene<PaymentExecFlow, Town> {
    let mut scene = scene(BankOptions::default());
    let context = &mut scene.input.context_json;
    *context = context.replacen("\"route\":{", "\"route\":{\"connector\":\"gone\",", 1);
    scene
}

#[test]
fn a_payment_whose_gateway_is_gone_waits_and_no_other_bank_gets_it() {
    assert_eq!(sweep(orphan, check_unsent), 1 + 5);
}

fn check_unsent(case: &Case, town: &Town, ran: &Ran<Sent>) {
    assert_eq!(town.bank.ledger().arrivals(), 0, "{case:?}");
    let view = town.item("pay_1").unwrap();
    match &ran.result {
        Ok(Sent::Requeued(why)) => assert!(why.contains("gone"), "{why}"),
        // The step ran twice: the first time it put the item back.
        Ok(Sent::Superseded(_)) => {}
        Ok(other) => panic!("{other:?}"),
        Err(_) => {
            assert_eq!(case.fault(), Some(Fault::FailForGood));
            return;
        }
    }
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
}
