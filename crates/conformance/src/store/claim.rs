//! `Queue::lanes_due` and `Queue::claim`: what is due, oldest first, within limit and credit, and
//! each item to one claimer only.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{Claim, DueLanes, NewItem, Settlement, Started};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, STALE, bank, claim_all, hard_limit, is_new, many, new_item,
    new_item_at, ops, payment, payments, plan, settlement, signed, start,
};

/// So many items for the concurrent claimers, unless `TGTEST_CASE_ITEMS` says otherwise.
const ITEMS: usize = 4_000;

async fn due(f: &dyn Fixture, ahead: Duration) -> DueLanes {
    let store = f.store();
    store.lanes_due(&payments(), ahead, STALE).await.unwrap()
}

pub async fn only_what_is_due_within_reach_is_claimed(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let items = vec![
        new_item_at("soon", now + signed(5 * MINUTE)),
        new_item_at("later", now + signed(20 * MINUTE)),
    ];
    f.place(items).await;
    let within = |ahead| Claim {
        ahead,
        stale_after: 24 * HOUR,
        ..claim_all()
    };
    assert_eq!(f.claim_ids(within(MINUTE)).await, [""; 0]);
    assert_eq!(f.claim_ids(within(6 * MINUTE)).await, ["soon"]);
    f.advance(20 * MINUTE).await;
    assert_eq!(f.claim_ids(within(5 * SECOND)).await, ["later"]);
}

pub async fn the_oldest_is_claimed_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let at = |id: &str, minutes: u32| new_item_at(id, now + signed(minutes * MINUTE));
    f.place(vec![at("c", 3), at("a", 1), at("d", 4), at("b", 2)])
        .await;
    let two = || Claim {
        limit: 2,
        ..claim_all()
    };
    assert_eq!(f.claim_ids(two()).await, ["a", "b"]);
    assert_eq!(f.claim_ids(two()).await, ["c", "d"]);
}

pub async fn a_claim_is_never_larger_than_its_limit_even_with_stale_claims(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    f.place(many("p", 10, now)).await;
    let four = || Claim {
        limit: 4,
        ..claim_all()
    };
    assert_eq!(f.claim(four()).await.len(), 4);
    f.advance(STALE).await;
    assert_eq!(f.claim(four()).await.len(), 4, "four stale, and no more");
    let rest: Vec<_> = [f.claim(four()).await.len(), f.claim(four()).await.len()].into();
    assert_eq!(rest, [4, 2]);
    assert_eq!(
        f.claim(Claim {
            limit: 0,
            ..claim_all()
        })
        .await
        .len(),
        0
    );
}

pub async fn the_credit_is_what_the_gate_can_send_less_what_is_unsent(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    f.place(many("p", 100, now)).await;
    let horizon = SECOND;
    let credit = f
        .current_lane()
        .await
        .pace(DEFAULT_MARGIN)
        .turns_in(horizon) as usize;
    assert_eq!(credit, 48);
    let claim = || Claim {
        credit_horizon: horizon,
        ..claim_all()
    };
    let first = f.claim(claim()).await;
    assert_eq!(first.len(), credit, "nothing was under way");
    assert_eq!(f.claim(claim()).await.len(), 0, "claimed counts as unsent");
    f.record(first.iter().map(|c| start(c, Started::New)).collect())
        .await;
    assert_eq!(f.claim(claim()).await.len(), 0, "so does dispatched");
    f.sent(&payment(first[0].id.as_str())).await;
    f.sent(&payment(first[1].id.as_str())).await;
    assert_eq!(f.claim(claim()).await.len(), 2, "two have had their turn");
}

pub async fn the_types_of_a_lane_share_its_credit(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let invoices = ItemType::new("INVOICE");
    f.place(many("p", 60, now)).await;
    f.store()
        .admit(&invoices, many("p", 60, now))
        .await
        .unwrap();
    let claim = |item_type: ItemType| Claim {
        item_type,
        credit_horizon: SECOND,
        ..claim_all()
    };
    assert_eq!(f.claim(claim(payments())).await.len(), 48);
    assert_eq!(f.claim(claim(invoices)).await.len(), 0);
}

pub async fn the_slowest_lane_has_a_credit_of_one(f: &dyn Fixture) {
    f.lane(plan(1, 600)).await;
    f.place(vec![new_item("a"), new_item("b")]).await;
    let claim = || Claim {
        ahead: 24 * HOUR,
        credit_horizon: SECOND,
        ..claim_all()
    };
    assert_eq!(f.claim(claim()).await.len(), 1);
    assert_eq!(f.claim(claim()).await.len(), 0);
}

pub async fn every_claim_of_an_item_has_a_higher_fence(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let first = f.claimed_one("p").await;
    assert_eq!(f.release(&claim_all()).await, 1);
    let second = f.claim(claim_all()).await.remove(0);
    assert!(second.fence > first.fence);
    f.advance(STALE).await;
    let third = f.claim(claim_all()).await.remove(0);
    assert!(third.fence > second.fence);
}

pub async fn a_stale_claim_is_taken_again_under_a_higher_fence_as_its_next_run(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let first = f.claimed_one("p").await;
    f.advance(STALE / 2).await;
    assert_eq!(f.claim(claim_all()).await, [], "not stale yet");
    f.advance(STALE / 2).await;
    let again = f.claim(claim_all()).await.remove(0);
    assert_eq!((again.run, &again.id), (first.run + 1, &first.id));
    assert!(again.fence > first.fence);
    assert_eq!(again.context_json, first.context_json);
    assert_eq!(
        f.record(vec![start(&first, Started::New)]).await,
        0,
        "too late"
    );
    assert_eq!(f.record(vec![start(&again, Started::New)]).await, 1);
}

pub async fn a_claim_tells_how_long_until_the_items_time(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let items = vec![new_item("now"), new_item_at("ahead", now + signed(MINUTE))];
    f.place(items).await;
    f.advance(5 * SECOND).await;
    let claimed = f.claim(claim_all()).await;
    assert_eq!(claimed[0].delay, Duration::ZERO);
    let left = claimed[1].delay;
    assert!(
        left > 40 * SECOND && left <= 59 * SECOND,
        "{left:?} of 55 s"
    );
}

pub async fn a_claim_leaves_other_lanes_and_other_types_alone(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let stripe = LaneName::new("stripe");
    f.store()
        .change_lane(&stripe, plan(100, 4), ops())
        .await
        .unwrap();
    let elsewhere = NewItem {
        lane: stripe.clone(),
        ..new_item("elsewhere")
    };
    f.place(vec![new_item("here"), elsewhere]).await;
    let invoices = ItemType::new("INVOICE");
    f.store()
        .admit(&invoices, vec![new_item("invoice")])
        .await
        .unwrap();
    assert_eq!(f.claim_ids(claim_all()).await, ["here"]);
    let other = |lane: &str| Claim {
        lane: LaneName::new(lane),
        ..claim_all()
    };
    assert_eq!(f.claim_ids(other("stripe")).await, ["elsewhere"]);
    assert_eq!(f.claim_ids(other("nowhere")).await, [""; 0]);
}

pub async fn a_claimed_item_shows_when_it_was_claimed(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let before = f.now().await;
    f.claimed_one("p").await;
    let view = f.view(&payment("p")).await;
    assert_eq!(view.queue_status, QueueStatus::Claimed);
    assert!(view.claimed_at.is_some_and(|at| at >= before));
}

pub async fn lanes_with_work_in_reach_are_named_and_others_are_not(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let idle = LaneName::new("idle");
    f.store()
        .change_lane(&idle, plan(100, 4), ops())
        .await
        .unwrap();
    assert_eq!(due(f, HOUR).await, DueLanes::default(), "nothing waits");
    let now = f.now().await;
    f.place(vec![new_item_at("p", now + signed(30 * MINUTE))])
        .await;
    assert_eq!(due(f, MINUTE).await.lanes, []);
    assert_eq!(due(f, HOUR).await.lanes, [bank()]);
    let (store, invoices) = (f.store(), ItemType::new("INVOICE"));
    let others = store.lanes_due(&invoices, HOUR, STALE);
    assert_eq!(
        others.await.unwrap(),
        DueLanes::default(),
        "not another type's"
    );
    f.dispatch_all().await;
    assert_eq!(
        due(f, HOUR).await.lanes,
        [],
        "what is dispatched is not due"
    );
}

pub async fn stale_claims_make_a_lane_due(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.claimed_one("p").await;
    let fresh = due(f, HOUR).await;
    assert_eq!(fresh.lanes, []);
    let wait = fresh.next_in.expect("the claim grows stale");
    assert!(wait <= STALE && wait > STALE / 2, "{wait:?}");
    f.advance(STALE).await;
    assert_eq!(due(f, HOUR).await.lanes, [bank()]);
}

pub async fn next_in_tells_when_the_next_item_comes_into_reach(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let items = vec![
        new_item_at("far", now + signed(2 * HOUR)),
        new_item_at("near", now + signed(HOUR)),
    ];
    f.place(items).await;
    let wait = due(f, MINUTE).await.next_in.expect("something waits");
    let (least, most) = (58 * MINUTE, 59 * MINUTE + 4 * SECOND);
    assert!(wait > least && wait <= most, "{wait:?}");
    f.advance(wait).await;
    assert_eq!(due(f, MINUTE).await.lanes, [bank()]);
}

pub async fn a_paused_lane_has_nothing_due_until_it_is_resumed(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let pause = |pause: Option<Pause>| LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    let why = Pause::now("ops", "the bank is down");
    f.lane(pause(Some(why))).await;
    assert_eq!(due(f, HOUR).await, DueLanes::default());
    let admission = f.admit_one(new_item("q")).await;
    assert!(is_new(&admission), "slots keep being given");
    f.lane(pause(None)).await;
    assert_eq!(due(f, HOUR).await.lanes, [bank()]);
}

pub async fn a_lane_closed_by_its_downstream_has_nothing_due_until_it_opens(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    f.place(vec![new_item("waiting")]).await;
    f.settle(Settlement {
        close_lane: Some((bank(), MINUTE)),
        ..settlement(&item, attempt, Outcome::retry("429"))
    })
    .await;
    assert_eq!(due(f, HOUR).await.lanes, []);
    f.advance(MINUTE).await;
    assert_eq!(due(f, HOUR).await.lanes, [bank()]);
}

pub async fn an_item_without_its_body_is_dead_and_harms_nobody(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("a"), new_item("lost"), new_item("b")])
        .await;
    let lost = payment("lost");
    f.lose_body(&lost).await;
    assert_eq!(f.claim_ids(claim_all()).await, ["a", "b"]);
    let view = f.view(&lost).await;
    assert_eq!(view.queue_status, QueueStatus::Dead);
    assert!(
        view.last_error
            .as_deref()
            .is_some_and(|why| why.contains("body"))
    );
    assert_eq!(f.trail(&lost).await.len(), 1, "and it leaves a trace");
}

pub async fn claimers_at_once_never_share_an_item_nor_exceed_their_limit(f: &dyn Fixture) {
    let items = std::env::var("TGTEST_CASE_ITEMS").ok();
    let items = items.map_or(ITEMS, |n| n.parse().expect("a number of items"));
    f.lane(LaneChange {
        max_per_second: Some(100_000.into()),
        ..plan(100_000, 4)
    })
    .await;
    let now = f.now().await;
    for batch in many("p", items, now).chunks(1000) {
        f.place(batch.to_vec()).await;
    }
    let claimers = (0..64).map(|_| {
        let store = f.store();
        tokio::spawn(async move {
            let mut mine: Vec<ItemId> = vec![];
            loop {
                let claim = Claim {
                    limit: 37,
                    ..claim_all()
                };
                let got = store.claim(claim).await.unwrap();
                assert!(got.len() <= 37, "{} claimed", got.len());
                if got.is_empty() {
                    return mine;
                }
                mine.extend(got.into_iter().map(|c| c.id));
            }
        })
    });
    let claimers: Vec<_> = claimers.collect();
    let (mut seen, mut claims) = (HashSet::new(), 0);
    for claimer in claimers {
        let mine = claimer.await.unwrap();
        claims += mine.len();
        seen.extend(mine);
    }
    assert_eq!(claims, seen.len(), "an item was claimed twice");
    // A backend that skips rows locked by others may leave some for the next cycle.
    let left = f.claim(claim_all()).await.len();
    assert_eq!(seen.len() + left, items, "none was lost");
}

pub async fn claimers_at_once_stay_within_the_credit_together(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    f.place(many("p", 200, now)).await;
    f.lane(hard_limit(50)).await;
    let claimers: Vec<_> = (0..16)
        .map(|_| {
            let claim = Claim {
                credit_horizon: SECOND,
                ..claim_all()
            };
            let store = f.store();
            tokio::spawn(async move { store.claim(claim).await.unwrap().len() })
        })
        .collect();
    let mut claimed = 0;
    for claimer in claimers {
        claimed += claimer.await.unwrap();
    }
    assert_eq!(claimed, 48);
}
