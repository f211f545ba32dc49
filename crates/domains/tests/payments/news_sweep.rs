//! The exec flow of a notification: its step failed, repeated, crashed after; judged by what the
//! receiver has written down.

use std::time::Duration;

use tollgate_conformance::memory::{Case, Fault, Memory, Ran, Scene, sweep};
use tollgate_core::flow::ExecInput;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ItemView, Queue, Records, SharedClock};
use tollgate_domains::notifications::{self, Delivery, Event, News, NotificationExecFlow};
use tollgate_domains::payments;
use tollgate_sandbox::{BankOptions, Received};

use crate::scene::{RUNTIME, Town};

fn scene(faults: &str) -> Scene<NotificationExecFlow, Town> {
    let (town, memory) = Town::build(BankOptions {
        faults: faults.parse().unwrap(),
        ..BankOptions::default()
    });
    let input = told(&town);
    in_town(town, memory, input)
}

fn in_town(world: Town, memory: Memory, input: ExecInput) -> Scene<NotificationExecFlow, Town> {
    Scene {
        memory,
        id: input.item.exec_flow(input.run),
        input,
        world,
    }
}

/// The news of a payment, dispatched.
fn told(town: &Town) -> ExecInput {
    let payment = payments::item(&ItemId::new("pay_1"));
    let news = News {
        event: Event::Processing,
        payment: &payment,
        reopened: 0,
        at: RUNTIME.block_on(town.store.now()).unwrap(),
        payment_id: "pay_1",
        amount: "125.50",
        currency: "USD",
        gateway: "default",
        reference: None,
    };
    let item = news.item(&town.receiver, &FlowId::new("exec-payment-pay_1"));
    town.dispatch(&notifications::item_type(), item.unwrap())
}

fn view(town: &Town) -> ItemView {
    let id = notifications::news_id(Event::Processing, "pay_1", &town.receiver.place, 0);
    let item = notifications::item(&id);
    RUNTIME.block_on(town.store.item(&item)).unwrap().unwrap()
}

/// What the receiver has seen: genuine, of one id, taken at most once.
fn taken(town: &Town) -> usize {
    let all = town.bank.ledger().deliveries();
    let id = view(town).item.id.to_string();
    assert!(all.iter().all(|it| it.id == id), "{all:?}");
    let count = |received| all.iter().filter(|it| it.received == received).count();
    assert_eq!(count(Received::Forged) + count(Received::Changed), 0);
    assert!(count(Received::Took) <= 1);
    count(Received::Took)
}

/// The clean run, and every fault at the one step.
const CASES: usize = 1 + 5;

#[test]
fn a_notification_is_taken_once_whatever_happens_to_its_step() {
    let check = |case: &Case, town: &Town, ran: &Ran<Delivery>| match &ran.result {
        Ok(end) => {
            assert_eq!(end, &Delivery::Delivered);
            let view = view(town);
            assert_eq!((taken(town), view.status.as_str()), (1, "DELIVERED"));
            assert!(view.finished_at.is_some());
        }
        // The sweeper finds it: dispatched, without an end.
        Err(_) => assert_eq!(case.fault(), Some(Fault::FailForGood)),
    };
    assert_eq!(sweep(|| scene(""), check), CASES);
}

/// Whatever else happened, it waits for its next run and nobody calls it in doubt.
fn check_waits(case: &Case, town: &Town, ran: &Ran<Delivery>) {
    if case.fault() == Some(Fault::FailForGood) {
        return;
    }
    let waits = matches!(ran.result, Ok(Delivery::Waits(_) | Delivery::Superseded(_)));
    assert!(waits, "{:?}", ran.result);
    let view = view(town);
    assert_eq!(
        (view.status.as_str(), view.queue_status, view.run),
        ("PENDING", QueueStatus::Ready, 2)
    );
}

#[test]
fn a_notification_that_was_not_taken_or_whose_answer_is_lost_waits_and_is_not_in_doubt() {
    let faults = [
        "500 before",
        "500 after",
        "reset after",
        "404",
        "429",
        "half",
        "huge",
    ];
    for fault in faults {
        let sweeped = sweep(|| scene(&format!("webhooks: {fault}")), check_waits);
        assert_eq!(sweeped, CASES);
    }
}

#[test]
fn a_lost_answer_is_told_again_under_the_same_id_and_taken_once() {
    let scene = scene("webhook 1: reset after");
    let (town, memory) = (scene.world, scene.memory);
    let run = |input: &ExecInput| {
        let id = input.item.exec_flow(input.run);
        let ran = memory.run::<NotificationExecFlow>(&id, input, None);
        ran.unwrap().result
    };
    let first = run(&scene.input);
    assert!(matches!(first, Ok(Delivery::Waits(_))), "{first:?}");
    // Moving the time is a jump of the clock, after which a doubt takes a question or two, and a second.
    town.time.advance(Duration::from_mins(1));
    let delivered = (0..1000).any(|_| {
        let again = town.claimed(&notifications::item_type(), &town.receiver.lane);
        let Some(again) = again else {
            std::thread::sleep(Duration::from_millis(20));
            return false;
        };
        run(&again) == Ok(Delivery::Delivered)
    });
    assert!(delivered);
    assert_eq!(
        (taken(&town), town.bank.ledger().deliveries().len()),
        (1, 2)
    );
}

#[test]
fn a_receiver_that_is_gone_ends_it() {
    let check = |case: &Case, town: &Town, ran: &Ran<Delivery>| {
        if case.fault() == Some(Fault::FailForGood) {
            return;
        }
        assert!(
            matches!(ran.result, Ok(Delivery::Refused(_))),
            "{:?}",
            ran.result
        );
        let view = view(town);
        assert_eq!((taken(town), view.status.as_str()), (0, "REFUSED"));
        assert!(view.finished_at.is_some());
    };
    assert_eq!(sweep(|| scene("webhooks: 410"), check), CASES);
}

#[test]
fn a_receiver_that_left_the_configuration_is_waited_for_and_no_other_gets_it() {
    let orphan = || {
        let mut scene = scene("");
        let place = &scene.world.receiver.place;
        scene.input.context_json = scene.input.context_json.replace(place, "gone:80/");
        scene
    };
    let check = |case: &Case, town: &Town, ran: &Ran<Delivery>| {
        check_waits(case, town, ran);
        assert_eq!(taken(town), 0);
    };
    assert_eq!(sweep(orphan, check), CASES);
}

/// Tried so often in vain that the next run is beyond what is tried.
fn worn_out() -> Scene<NotificationExecFlow, Town> {
    let (town, memory) = Town::build(BankOptions::default());
    let mut input = told(&town);
    for _ in 0..20 {
        let back = town
            .store
            .put_back(&input.item, input.run, Duration::ZERO, "refused");
        assert!(RUNTIME.block_on(back).unwrap());
        let claimed = town.claimed(&notifications::item_type(), &town.receiver.lane);
        input = claimed.unwrap();
    }
    town.time.advance(Duration::from_hours(73));
    in_town(town, memory, input)
}

#[test]
fn after_days_in_vain_it_is_dead_with_the_reason() {
    let check = |case: &Case, town: &Town, ran: &Ran<Delivery>| {
        if case.fault() == Some(Fault::FailForGood) {
            return;
        }
        let ended = matches!(
            ran.result,
            Ok(Delivery::GivenUp(_) | Delivery::Superseded(_))
        );
        assert!(ended, "{:?}", ran.result);
        let view = view(town);
        assert_eq!((taken(town), view.queue_status), (0, QueueStatus::Dead));
        let why = view.last_error.clone().unwrap();
        assert!(why.contains("given up") && why.contains("refused"), "{why}");
        let audit = town.audit(&view.item);
        assert_eq!(audit[0].status_after.as_deref(), Some("DEAD"));
    };
    assert_eq!(sweep(worn_out, check), CASES);
}
