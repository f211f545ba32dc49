//! Post-schedule validation: rules that came into force after a payment was taken in.

use std::time::Duration;

use serde_json::json;
use tollgate_conformance::memory::{Case, Fault, Memory, Ran, Scene, sweep};
use tollgate_core::actor;
use tollgate_core::flow::ExecInput;
use tollgate_core::id::LaneName;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    ActionResult, Author, OperatorActions, Queue, RuleStop, RuleStops, StatusMove,
};
use tollgate_dispatch::Sent;
use tollgate_domains::notifications::Event;
use tollgate_domains::payments::{self, PaymentExecFlow, RulesEffect, RulesText};
use tollgate_sandbox::BankOptions;

use crate::scene::{LANE, RUNTIME, Town};

fn author() -> Author {
    Author::new("ops", "because")
}

/// "limit" holds what is above the amount; pay_1 is 125.50.
pub(crate) fn limit(minor: i64, on_failure: &str) -> RulesText {
    let require = format!("amountMinor <= {minor}");
    serde_json::from_value(json!({"rules": [
        {"name": "limit", "require": require, "message": "too much", "onFailure": on_failure},
    ]}))
    .unwrap()
}

pub(crate) fn put(town: &Town, text: &RulesText) {
    RUNTIME.block_on(town.rules.put(text, author())).unwrap();
}

fn stopped(on_failure: &str) -> Scene<PaymentExecFlow, Town> {
    let (town, memory) = Town::build(BankOptions::default());
    let input = town.dispatched();
    put(&town, &limit(100, on_failure));
    Scene {
        memory,
        id: input.item.exec_flow(1),
        input,
        world: town,
    }
}

fn run(memory: &Memory, input: &ExecInput) -> Sent {
    let id = input.item.exec_flow(input.run);
    let ran = memory.run::<PaymentExecFlow>(&id, input, None).unwrap();
    ran.result.unwrap()
}

fn claimed(town: &Town) -> ExecInput {
    let lane = LaneName::new(LANE);
    town.claimed(&payments::item_type(), &lane).unwrap()
}

#[test]
fn a_payment_that_a_rule_holds_is_not_sent_whatever_happens_to_its_step() {
    assert_eq!(sweep(|| stopped("hold"), check_held), 1 + 5);
}

fn check_held(case: &Case, town: &Town, ran: &Ran<Sent>) {
    assert_eq!(town.bank.ledger().arrivals(), 0, "{case:?}");
    if ran.result.is_err() {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        return;
    }
    let view = town.item("pay_1").unwrap();
    assert_eq!(view.queue_status, QueueStatus::Held, "{case:?}");
    let why = view.last_error.unwrap();
    assert_eq!(why, "rule \"limit\": too much (rules of version 1)");
    assert_eq!(town.news(), [""; 0]);
}

#[test]
fn a_payment_that_a_rule_rejects_is_not_sent_and_is_told_once() {
    assert_eq!(sweep(|| stopped("reject"), check_rejected), 1 + 5 * 2);
}

fn check_rejected(case: &Case, town: &Town, ran: &Ran<Sent>) {
    assert_eq!(town.bank.ledger().arrivals(), 0, "{case:?}");
    match &ran.result {
        Ok(end) => {
            assert!(matches!(end, Sent::Refused(_)), "{case:?}: {end:?}");
            let view = town.item("pay_1").unwrap();
            assert_eq!(view.status, "REJECTED");
            assert!(view.finished_at.is_some());
            assert_eq!(town.news(), ["payment.rejected"]);
        }
        Err(_) => {
            assert_eq!(case.fault(), Some(Fault::FailForGood));
            let has_ended = town.item("pay_1").unwrap().finished_at.is_some();
            let is_told = town.is_queued("pay_1", Event::Rejected);
            assert!(!has_ended || is_told, "{case:?}: ended untold");
        }
    }
}

/// The process dies when the rejection is written, and the rules are other ones before the next run.
#[test]
fn a_rejection_outlives_its_process_and_its_rules_and_is_told() {
    let none = serde_json::from_value(json!({"rules": []})).unwrap();
    for rules in [none, limit(1_000_000, "hold"), limit(100, "hold")] {
        rejected_and_then(&rules);
    }
}

fn rejected_and_then(rules: &RulesText) {
    let Scene {
        memory,
        input,
        world: town,
        ..
    } = stopped("reject");
    let stop = RuleStop {
        actor: actor::RULES,
        rules: vec![],
        why: "too much".to_owned(),
        rejected: Some(StatusMove::new(&["SCHEDULED"], "REJECTED")),
    };
    let stopped = town.store.stop_by_rules(&input.item, input.run, stop);
    assert!(RUNTIME.block_on(stopped).unwrap());
    put(&town, rules);
    let back = town
        .store
        .put_back(&input.item, input.run, Duration::ZERO, "its flow was lost");
    assert!(RUNTIME.block_on(back).unwrap());
    let sent = run(&memory, &claimed(&town));
    assert!(matches!(sent, Sent::Refused(_)), "{sent:?}");
    assert_eq!(town.bank.ledger().arrivals(), 0);
    let view = town.item("pay_1").unwrap();
    assert_eq!(view.status, "REJECTED");
    assert!(view.finished_at.is_some());
    assert_eq!(town.news(), ["payment.rejected"]);
}

#[test]
fn a_release_passes_the_rule_in_the_words_it_has_and_no_other_wording() {
    let Scene {
        memory,
        input,
        world: town,
        ..
    } = stopped("hold");
    let release = || {
        let released = town.store.release_held(&input.item, author());
        assert_eq!(RUNTIME.block_on(released).unwrap(), ActionResult::Yes);
        claimed(&town)
    };
    assert_eq!(run(&memory, &input), Sent::Held);
    put(&town, &limit(99, "hold"));
    let again = release();
    assert_eq!(run(&memory, &again), Sent::Held, "another wording");
    let effect = || {
        let book = town.rules.read(&limit(99, "hold"), 0).unwrap();
        RUNTIME
            .block_on(RulesEffect::of(&book, &*town.store))
            .unwrap()
    };
    assert_eq!(effect().stopped(), 0, "it is held already");
    let last = release();
    assert_eq!(effect().stopped(), 0, "a person let it pass");
    let other = town.rules.read(&limit(98, "reject"), 0).unwrap();
    let other = RUNTIME.block_on(RulesEffect::of(&other, &*town.store));
    let other = other.unwrap();
    assert_eq!((other.held, other.rejected), (0, 1));
    assert_eq!(other.by_rule["limit"], 1);
    assert!(matches!(run(&memory, &last), Sent::Done(_)));
    assert_eq!(town.effects("pay_1"), 1);
}

#[test]
fn a_payment_in_doubt_is_not_judged_again() {
    let options = BankOptions {
        faults: "send 1: reset after".parse().unwrap(),
        ..BankOptions::default()
    };
    let (town, memory) = Town::build(options);
    let input = town.dispatched();
    assert!(matches!(run(&memory, &input), Sent::Requeued(_)));
    put(&town, &limit(100, "reject"));
    town.time.advance(Duration::from_secs(5));
    let again = claimed(&town);
    let sent = run(&memory, &again);
    assert!(
        matches!(sent, Sent::Done(_) | Sent::Requeued(_)),
        "{sent:?}"
    );
    assert_eq!(town.effects("pay_1"), 1);
    let status = town.item("pay_1").unwrap().status;
    assert!(status == "PROCESSING" || status == "IN_DOUBT", "{status}");
}
