//! What is under way, as everything that looks for it finds it: an item that leaves its batch is under way no more,
//! by whatever way it left, and one that is claimed again is under way once.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::id::{BatchId, Item};
use tollgate_core::item::{Event, QueueStatus};
use tollgate_core::ports::{Claim, Claimed, ItemView, Started};

use super::fixture::{
    Fixture, SECOND, STALE, bank, claim_all, many, new_item, payment, payments, plan, signed, start,
};
use super::moves::{bring, cause};
use super::planning::withdrawn;

fn under(batch: &str) -> Claim {
    Claim {
        batch: BatchId::new(batch),
        ..claim_all()
    }
}

async fn depths(f: &dyn Fixture) -> BTreeMap<&'static str, u64> {
    let depths = f.store().depths(&payments()).await.unwrap();
    let some = depths.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(status, count)| (status.as_str(), count))
        .collect()
}

/// The same, item by item.
fn counted(views: &[ItemView]) -> BTreeMap<&'static str, u64> {
    let mut counted = BTreeMap::new();
    let not_ended = views.iter().filter(|view| view.finished_at.is_none());
    for view in not_ended.filter(|view| view.queue_status != QueueStatus::Cancelled) {
        *counted.entry(view.queue_status.as_str()).or_default() += 1;
    }
    counted
}

async fn orphans(f: &dyn Fixture) -> BTreeSet<String> {
    f.advance(SECOND).await;
    let found = f.store().orphaned(&payments(), SECOND / 2, 10_000).await;
    found.unwrap().iter().map(|o| o.id.to_string()).collect()
}

pub async fn what_is_under_way_is_what_items_say_after_every_event(f: &dyn Fixture) {
    let mut items: Vec<Item> = vec![];
    for before in QueueStatus::ALL {
        for event in Event::ALL {
            let id = format!("{before}-{event:?}");
            let fence = bring(f, &id, before, event).await;
            cause(f, &payment(&id), fence, event).await;
            items.push(payment(&id));
        }
    }
    let mut views = vec![];
    for item in &items {
        views.push(f.view(item).await);
    }
    assert_eq!(depths(f).await, counted(&views));
    let runs = |view: &&ItemView| {
        view.queue_status == QueueStatus::Dispatched && view.finished_at.is_none()
    };
    let running = items.iter().zip(&views).filter(|(_, view)| runs(view));
    let running: BTreeSet<String> = running.map(|(item, _)| item.id.to_string()).collect();
    assert!(!running.is_empty());
    assert_eq!(orphans(f).await, running);
}

/// Claimed under one batch, put back, and claimed under the same and under another.
pub async fn an_item_that_is_claimed_again_is_under_way_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p"), new_item("stays")]).await;
    f.claim(under("A")).await;
    for (run, batch) in (1..).zip(["A", "B", "B", "A"]) {
        let p = payment("p");
        assert!(f.store().put_back(&p, run, SECOND, "why").await.unwrap());
        assert_eq!(
            depths(f).await,
            BTreeMap::from([("CLAIMED", 1), ("READY", 1)])
        );
        f.advance(SECOND).await;
        assert_eq!(f.claim_ids(under(batch)).await, ["p"]);
        assert_eq!(depths(f).await, BTreeMap::from([("CLAIMED", 2)]));
        let unsent = f.store().unsent(&bank(), &[payments()], 100).await.unwrap();
        let ready: Vec<bool> = unsent.unwrap().near.iter().map(|it| it.is_ready).collect();
        assert_eq!(ready, [false, false]);
    }
}

pub async fn stale_claims_are_found_in_every_batch_and_starts_are_not(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let mut claimed: Vec<Claimed> = vec![];
    f.place(many("p", 9, now)).await;
    for batch in ["A", "B", "C"] {
        let three = Claim {
            limit: 3,
            ..under(batch)
        };
        claimed.extend(f.claim(three).await);
    }
    // The second of each batch is started, and the third of the last has left.
    let starts = claimed.iter().skip(1).step_by(3);
    f.record(starts.map(|c| start(c, Started::New)).collect())
        .await;
    let last = Item::new(&payments(), &claimed[8].id);
    assert!(f.store().finish(&last, 1, withdrawn()).await.unwrap());
    let stale: BTreeSet<String> = [0, 2, 3, 5, 6]
        .map(|n: usize| claimed[n].id.to_string())
        .into();
    for batch in ["D", "E"] {
        f.advance(STALE / 2).await;
        assert_eq!(f.claim_ids(under("none")).await, [""; 0], "not yet stale");
        f.advance(STALE / 2).await;
        let again: BTreeSet<String> = f.claim_ids(under(batch)).await.into_iter().collect();
        assert_eq!(again, stale, "{batch}");
        assert_eq!(
            depths(f).await,
            BTreeMap::from([("CLAIMED", 5), ("DISPATCHED", 3)])
        );
    }
}

pub async fn a_takeover_releases_exactly_the_claims(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    f.place(many("p", 6, now)).await;
    let four = Claim {
        limit: 4,
        ..under("A")
    };
    let claimed = f.claim(four).await;
    let starts = claimed.iter().take(2).map(|c| start(c, Started::New));
    f.record(starts.collect()).await;
    f.store().take_node().await.unwrap();
    assert_eq!(
        depths(f).await,
        BTreeMap::from([("DISPATCHED", 2), ("READY", 4)])
    );
    for (n, claim) in claimed.iter().enumerate() {
        let run = f.view(&Item::new(&payments(), &claim.id)).await.run;
        assert_eq!(run, if n < 2 { 1 } else { 2 }, "{}", claim.id);
    }
    assert_eq!(f.claim(under("B")).await.len(), 4);
    assert_eq!(
        depths(f).await,
        BTreeMap::from([("CLAIMED", 4), ("DISPATCHED", 2)])
    );
}

pub async fn a_backlog_beside_what_is_under_way_is_counted_exactly(f: &dyn Fixture) {
    f.lane(plan(500, 4)).await;
    let now = f.now().await;
    f.place(many("p", 400, now)).await;
    let ten = |batch: &str| Claim {
        limit: 10,
        ..under(batch)
    };
    for batch in ["A", "B", "C"] {
        let claimed = f.claim(ten(batch)).await;
        let starts = claimed.iter().take(5).map(|c| start(c, Started::New));
        f.record(starts.collect()).await;
    }
    let expected = [("CLAIMED", 15), ("DISPATCHED", 15), ("READY", 370)];
    assert_eq!(depths(f).await, BTreeMap::from(expected));
    let store = f.store();
    let unsent = store.unsent(&bank(), &[payments()], 20).await.unwrap();
    let unsent = unsent.unwrap();
    let under_way = unsent.near.iter().filter(|it| !it.is_ready).count();
    assert_eq!(under_way, 30);
    let ready = unsent.near.len() - under_way;
    let far = unsent.far.unwrap();
    let later: u64 = far
        .windows
        .iter()
        .map(|window| u64::from(window.used))
        .sum();
    assert_eq!(ready as u64 + far.count + later, 370);
    let soon = f.now().await + signed(STALE);
    let backlog = store.backlog(&bank(), soon, 1000).await;
    assert_eq!(backlog.unwrap(), 370);
}
