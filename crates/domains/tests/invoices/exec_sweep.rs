//! The exec flow: each step failed, repeated, crashed after; judged by the provider's ledger.

use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::item::QueueStatus;
use tollgate_domains::invoices::{Billed, InvoiceExecFlow};
use tollgate_sandbox::BankOptions;

use crate::scene::{Footing, Node, Plan, Town};

fn scene(plan: &Plan) -> Scene<InvoiceExecFlow, Town> {
    let town = Town::build(Footing::Sqlite, plan);
    let taken = town.node.invoice("inv_1");
    town.advance_to(taken.placed.as_ref().unwrap().scheduled);
    let input = town.node.claimed().unwrap();
    // The flow is run by a node of its own: the town looks on.
    let Node { memory, .. } = town.again(plan);
    Scene {
        memory,
        id: input.item.exec_flow(1),
        input,
        world: town,
    }
}

/// One clean run, and every fault at each of the two steps.
const CASES: usize = 1 + 5 * 2;

#[test]
fn an_invoice_is_charged_once_whatever_happens_to_its_steps() {
    for honours_keys in [true, false] {
        let plan = Plan {
            bank: BankOptions {
                honours_keys,
                ..BankOptions::default()
            },
            ..Plan::default()
        };
        assert_eq!(sweep(|| scene(&plan), check_charged_once), CASES);
    }
}

fn check_charged_once(case: &Case, town: &Town, ran: &Ran<Billed>) {
    let view = town.node.view("inv_1");
    let charged = town.charged("inv_1");
    assert!(charged <= 1, "MONEY: paid twice");
    match &ran.result {
        Ok(end) => {
            // A step that ran a second time found that the invoice had ended.
            let is_paid = matches!(end, Billed::Paid | Billed::Superseded(_));
            assert!(is_paid, "{end:?}");
            assert_eq!((charged, view.status.as_str()), (1, "PAID"));
            assert!(view.finished_at.is_some());
        }
        // The sweeper finds it, and its past tells the next run what was done.
        Err(_) => {
            assert_eq!(case.fault(), Some(Fault::FailForGood));
            let was_done = view.attempts.iter().any(|a| a.state.as_str() == "DONE");
            assert_eq!(was_done, charged == 1, "our books and the provider's agree");
        }
    }
}

#[test]
fn a_declined_invoice_waits_for_its_next_retry_whatever_happens_to_its_steps() {
    let plan = Plan::with_faults("sends: decline");
    assert_eq!(sweep(|| scene(&plan), check_waits), CASES);
}

fn check_waits(case: &Case, town: &Town, ran: &Ran<Billed>) {
    assert_eq!(town.charged("inv_1"), 0);
    if ran.result.is_err() {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        return;
    }
    let view = town.node.view("inv_1");
    let seen = (view.status.as_str(), view.queue_status, view.run);
    assert_eq!(seen, ("PENDING", QueueStatus::Ready, 2), "{:?}", ran.result);
    assert_eq!(town.keys(), ["invoice-inv_1-1"], "asked once");
    let due = view.due.duration_since(town.node.now()).as_hours();
    assert!((23..=24).contains(&due), "in a day, not {due} hours");
}

#[test]
fn an_invoice_whose_answer_is_lost_is_in_doubt_and_waits_in_the_queue() {
    let mut plan = Plan::with_faults("all: reset after");
    plan.bank.honours_keys = false;
    assert_eq!(sweep(|| scene(&plan), check_in_doubt), CASES);
}

fn check_in_doubt(case: &Case, town: &Town, ran: &Ran<Billed>) {
    if case.fault() == Some(Fault::FailForGood) {
        assert!(ran.result.is_err());
        return;
    }
    assert_eq!(town.charged("inv_1"), 1, "never charged again blindly");
    let view = town.node.view("inv_1");
    let seen = (view.status.as_str(), view.queue_status, view.run);
    assert_eq!(seen, ("IN_DOUBT", QueueStatus::Ready, 2));
}
