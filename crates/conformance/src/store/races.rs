//! A person against the machine, at the same moment: exactly one of them has it.

use futures::future::join_all;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ActionResult, Claim, Recounted, Turn};

use super::fixture::{Fixture, bank, claim_all, many, new_item_at, payment, payments, plan, send};
use super::planning::{count_windows, secs, withdrawn};

const ROUNDS: usize = 30;

/// People may act until the turn is taken: whoever has claimed it finds it gone.
pub async fn an_item_that_is_cancelled_as_it_is_claimed_is_never_sent(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let soon = f.now().await + secs(1800);
    for round in 0..ROUNDS {
        let id = format!("p{round}");
        f.place(vec![new_item_at(&id, soon)]).await;
        let (one, other, item) = (f.store(), f.store(), payment(&id));
        let claim = tokio::spawn(async move { one.claim(claim_all()).await.unwrap().len() });
        let cancel = tokio::spawn(async move {
            let author = super::fixture::ops();
            other.cancel(&item, withdrawn(), author).await.unwrap()
        });
        let (taken, cancelled) = (claim.await.unwrap(), cancel.await.unwrap());
        assert!(taken <= 1, "{taken}");
        assert_eq!(cancelled, ActionResult::Yes, "{id}");
        let status = f.view(&payment(&id)).await.queue_status;
        assert_eq!(status, QueueStatus::Cancelled);
        let turn = f.turn(send(&payment(&id))).await;
        assert!(matches!(turn, Turn::NotYours(_)), "{turn:?}");
    }
    let used: u32 = f.windows().await.iter().map(|w| w.used).sum();
    assert_eq!(used, 0, "each gave its room back");
}

pub async fn an_item_cancelled_by_many_at_once_gives_its_room_back_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let hour = f.next_hour().await;
    let items = ["p", "q", "r"].map(|id| new_item_at(id, hour));
    f.place(items.into()).await;
    let answers = join_all((0..10).map(|_| f.cancel("p"))).await;
    let yes = answers.iter().filter(|a| **a == ActionResult::Yes).count();
    assert_eq!(yes, 1, "{answers:?}");
    let used: u32 = f.windows().await.iter().map(|w| w.used).sum();
    assert_eq!(used, 2);
}

pub async fn rescheduling_and_admitting_at_once_overfill_no_window(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let later = hour + secs(3600);
    let ids: Vec<String> = (0..20).map(|n| format!("p{n}")).collect();
    f.place(ids.iter().map(|id| new_item_at(id, hour)).collect())
        .await;
    let moves = join_all(ids.iter().map(|id| f.reschedule(id, later)));
    let admits = join_all((0..20).map(|n| {
        let new = new_item_at(&format!("q{n}"), later);
        async move { f.place(vec![new]).await }
    }));
    let (answers, _) = futures::join!(moves, admits);
    assert!(
        answers.iter().all(|a| *a == ActionResult::Yes),
        "{answers:?}"
    );
    let used: Vec<_> = f.windows().await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10, 10, 10, 10], "and the hour is empty");
    let waiting = f.store().waiting(&bank(), &payments(), None, 100).await;
    assert_eq!(waiting.unwrap().len(), 40);
}

/// Everything at once: what each does counts, and the counters are slots when all have done it.
pub async fn a_replan_beside_admissions_claims_and_cancels_loses_nothing(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 60, hour)).await;
    f.advance_to(hour - secs(1800)).await;
    let replans = async {
        for _ in 0..3 {
            f.replan().await;
        }
    };
    let admits = async {
        for n in 0..15 {
            f.place(many(&format!("q{n}-"), 2, hour)).await;
        }
    };
    let claims = async {
        for _ in 0..12 {
            let one = Claim {
                limit: 1,
                ..claim_all()
            };
            assert_eq!(f.claim(one).await.len(), 1);
        }
    };
    let cancels = async {
        for n in 45..60 {
            assert_eq!(f.cancel(&format!("p{n:05}")).await, ActionResult::Yes);
        }
    };
    futures::join!(replans, admits, claims, cancels);
    let old = (0..60).map(|n| format!("p{n:05}"));
    let new = (0..15).flat_map(|n| (0..2).map(move |k| format!("q{n}-{k:05}")));
    let (windows, mut held) = (f.lane_windows().await, vec![]);
    for id in old.chain(new) {
        let view = f.view(&payment(&id)).await;
        if view.queue_status != QueueStatus::Cancelled {
            held.push(windows.start_of(view.slot));
        }
    }
    assert_eq!(held.len(), 75);
    assert_eq!(f.windows_from(hour).await, count_windows(held.into_iter()));
    let recounted = f.store().recount(&bank()).await.unwrap();
    assert_eq!(recounted, Recounted::default());
    assert_eq!(f.waiting().await.len(), 63);
}
