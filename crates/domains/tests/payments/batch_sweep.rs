//! A flow of several payments: its step failed, repeated, crashed after; judged by the bank's ledger.

use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::flow::{BatchEnd, BatchInput, BatchItem};
use tollgate_core::id::{BatchId, FlowId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{OperatorActions, Queue};
use tollgate_dispatch::ExecBatchFlow;
use tollgate_domains::payments::{self, Payments};
use tollgate_sandbox::BankOptions;

use crate::before_send::{limit, put};
use crate::scene::{LANE, RUNTIME, Town, payment};

const IDS: [&str; 5] = ["pay_1", "pay_2", "pay_3", "pay_4", "pay_5"];

/// Five payments that were dispatched together, with what happens to them before the flow runs.
fn scene(options: BankOptions, meanwhile: impl Fn(&Town)) -> Scene<ExecBatchFlow<Payments>, Town> {
    let (town, memory) = Town::build(options);
    let lane = LaneName::new(LANE);
    let items = IDS.map(|id| {
        let init = FlowId::new(format!("init-payment-{id}"));
        let item = payments::new_item(&payment(id), &lane, &init).unwrap();
        let input = town.dispatch(&payments::item_type(), item);
        BatchItem {
            id: input.item.id,
            run: input.run,
            jitter_ms: 0,
        }
    });
    meanwhile(&town);
    Scene {
        memory,
        id: BatchId::new("BATCH-1").exec_flow(&payments::item_type(), 1),
        input: BatchInput {
            item_type: payments::item_type(),
            items: items.to_vec(),
        },
        world: town,
    }
}

/// One clean run, and every fault at the one step.
const CASES: usize = 1 + 5;

#[test]
fn each_payment_of_a_batch_is_paid_once_whatever_happens_to_its_step() {
    for honours_keys in [true, false] {
        let options = BankOptions {
            honours_keys,
            ..BankOptions::default()
        };
        let scene = || scene(options.clone(), |_| {});
        assert_eq!(sweep(scene, check_paid_once), CASES);
    }
}

fn check_paid_once(case: &Case, town: &Town, ran: &Ran<BatchEnd>) {
    for id in IDS {
        let (view, effects) = (town.item(id).unwrap(), town.effects(id));
        if ran.result.is_ok() {
            assert_eq!((effects, view.status.as_str()), (1, "PROCESSING"), "{id}");
            assert!(view.finished_at.is_some(), "{id}");
            continue;
        }
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        let sent = view.attempts.iter().any(|a| a.state.as_str() == "DONE");
        assert_eq!((sent, effects <= 1), (effects == 1, true), "{id}");
    }
    if case.fault().is_none() {
        let end = ran.result.as_ref().unwrap();
        assert_eq!((end.executed, end.moved_on), (5, 0), "{end:?}");
    }
}

#[test]
fn a_batch_executes_what_it_owns_and_no_other() {
    let moved_on = |town: &Town| {
        let [waits, held] = [0, 1].map(|n| payments::item(&ItemId::new(IDS[n])));
        let pause = std::time::Duration::from_hours(1);
        let back = town.store.put_back(&waits, 1, pause, "it waits");
        assert!(RUNTIME.block_on(back).unwrap());
        let given_up = town.store.hold(&held, 1);
        assert!(RUNTIME.block_on(given_up).unwrap());
    };
    let scene = || scene(BankOptions::default(), moved_on);
    assert_eq!(sweep(scene, check_the_rest), CASES);
}

fn check_the_rest(case: &Case, town: &Town, ran: &Ran<BatchEnd>) {
    for id in &IDS[..2] {
        assert_eq!(town.effects(id), 0, "{id}");
    }
    if case.fault().is_none() {
        let end = ran.result.as_ref().unwrap();
        assert_eq!((end.executed, end.moved_on), (3, 2), "{end:?}");
        assert!(IDS[2..].iter().all(|id| town.effects(id) == 1));
    }
}

#[test]
fn one_answer_that_is_lost_holds_up_no_other_payment() {
    let options = BankOptions {
        honours_keys: false,
        faults: "send 3: reset after".parse().unwrap(),
        ..BankOptions::default()
    };
    let scene = || scene(options.clone(), |_| {});
    assert_eq!(sweep(scene, check_one_in_doubt), CASES);
}

fn check_one_in_doubt(case: &Case, town: &Town, ran: &Ran<BatchEnd>) {
    if case.fault() == Some(Fault::FailForGood) {
        assert!(ran.result.is_err());
        return;
    }
    let views = IDS.map(|id| town.item(id).unwrap());
    let in_doubt = views.iter().filter(|view| view.status == "IN_DOUBT");
    let back = in_doubt.filter(|view| view.queue_status == QueueStatus::Ready && view.run == 2);
    assert_eq!(back.count(), 1, "{views:?}");
    let paid = views.iter().filter(|view| view.status == "PROCESSING");
    assert_eq!(paid.count(), 4, "{views:?}");
    assert!(IDS.iter().all(|id| town.effects(id) == 1));
}

#[test]
fn refused_payments_of_a_batch_end_once_their_news_are_queued() {
    let options = BankOptions {
        faults: "sends: 422".parse().unwrap(),
        ..BankOptions::default()
    };
    let scene = || scene(options.clone(), |_| {});
    assert_eq!(sweep(scene, check_refused), CASES);
}

#[test]
fn payments_of_a_batch_that_rules_reject_end_once_their_news_are_queued() {
    let against = |town: &Town| put(town, &limit(100, "reject"));
    let scene = || scene(BankOptions::default(), against);
    assert_eq!(sweep(scene, check_refused), CASES);
}

fn check_refused(_: &Case, town: &Town, _: &Ran<BatchEnd>) {
    for id in IDS {
        let view = town.item(id).unwrap();
        assert_eq!(town.effects(id), 0);
        let is_told = town.is_queued(id, tollgate_domains::notifications::Event::Rejected);
        assert!(view.finished_at.is_none() || is_told, "{id} ended untold");
    }
}

/// The payments are not due for an hour: a step that waits for them would keep a process that hands over from ending.
#[test]
fn a_batch_of_a_node_that_may_send_nothing_more_ends_at_once() {
    let mut scene = scene(BankOptions::default(), |_| {});
    for item in &mut scene.input.items {
        item.jitter_ms = 3_600_000;
    }
    let Scene { id, input, .. } = &scene;
    scene.world.gate.fence("this process is handing over");
    let ran = scene
        .memory
        .run::<ExecBatchFlow<Payments>>(id, input, None)
        .unwrap();
    let why = ran.result.unwrap_err().0;
    assert!(why.contains("this process is handing over"), "{why}");
    for id in IDS {
        let view = scene.world.item(id).unwrap();
        assert!(view.attempts.is_empty(), "{id}: {:?}", view.attempts);
    }
}
