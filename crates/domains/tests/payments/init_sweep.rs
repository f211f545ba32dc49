//! The init flow: each step failed, repeated, crashed after; then everything or nothing is there.

use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, LaneName};
use tollgate_core::ports::Lanes;
use tollgate_domains::payments::{Answer, InitInput, PaymentInitFlow, Verdict};
use tollgate_sandbox::BankOptions;

use crate::scene::{RUNTIME, Town, payment};

fn scene() -> Scene<PaymentInitFlow, Town> {
    let (town, memory) = Town::build(BankOptions::default());
    let mut circle = payment("circle");
    circle.creditor = circle.debtor.clone();
    // The second is refused by a rule, the fourth repeats the first.
    let payments = vec![payment("pay_1"), circle, payment("pay_2"), payment("pay_1")];
    Scene {
        memory,
        id: FlowId::new("init-1"),
        input: InitInput { payments },
        world: town,
    }
}

#[test]
fn a_batch_is_admitted_once_whatever_happens_to_its_steps() {
    assert_eq!(sweep(scene, check), 1 + 5 * 2);
}

fn check(case: &Case, town: &Town, ran: &Ran<Vec<Answer>>) {
    let lane = LaneName::new("default");
    let windows = town.store.windows(&lane, Timestamp::UNIX_EPOCH, 10);
    let windows = RUNTIME.block_on(windows).unwrap();
    let slots: u32 = windows.iter().map(|w| w.used).sum();
    let there: Vec<bool> = ["pay_1", "pay_2", "circle"]
        .iter()
        .map(|id| town.item(id).is_some())
        .collect();
    let Ok(answers) = &ran.result else {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        assert_eq!((slots, there), (0, vec![false; 3]), "nothing half-written");
        return;
    };
    assert_eq!((slots, there), (2, vec![true, true, false]));
    let scheduled = |n: usize| matches!(answers[n].verdict, Verdict::Scheduled { .. });
    assert!(scheduled(0) && scheduled(2) && scheduled(3), "{answers:?}");
    assert!(
        matches!(&answers[1].verdict, Verdict::Refused { rule, .. } if rule == "distinct_accounts")
    );
    let Verdict::Scheduled { placed, .. } = &answers[0].verdict else {
        return;
    };
    let Verdict::Scheduled {
        placed: again,
        repeat,
    } = &answers[3].verdict
    else {
        return;
    };
    assert_eq!(
        (placed, true),
        (again, *repeat),
        "a repeat gets the same answer"
    );
}
