//! A replan in steps: with others at work in between, cut off, begun again, and ended.

use std::collections::BTreeSet;

use tollgate_core::Timestamp;
use tollgate_core::calendar::CalendarText;
use tollgate_core::id::LaneName;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{ActionResult, Claim, Recounted, StoreError};

use super::fixture::{Fixture, bank, claim_all, many, new_item_at, ops, payment, payments, plan};
use super::planning::{always, by_calendar, count_windows, hours, paused, secs};

async fn sixty(f: &dyn Fixture) -> Timestamp {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 60, hour)).await;
    hour
}

async fn open_replan(f: &dyn Fixture) -> Option<i64> {
    f.store().open_replan(&bank()).await.unwrap()
}

pub async fn a_replan_is_open_from_its_beginning_to_its_end(f: &dyn Fixture) {
    sixty(f).await;
    assert_eq!(open_replan(f).await, None);
    let first = f.begin_replan().await;
    assert_eq!(open_replan(f).await, Some(first));
    f.finish_replan(first).await;
    assert_eq!(open_replan(f).await, None);
    let entries = f.store().audit(None, 2).await.unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|e| (e.action.as_str(), e.actor.as_str()))
        .collect();
    assert_eq!(told, [("REPLANNED", "ops"), ("REPLAN_BEGUN", "ops")]);
    for entry in &entries {
        assert!(
            entry.detail.contains("bank") && entry.detail.contains("because"),
            "{}",
            entry.detail
        );
    }
    assert!(entries[0].detail.contains("done"), "the summary");
    assert!(f.begin_replan().await > first);
}

pub async fn a_replan_begun_again_is_the_end_of_the_older_one(f: &dyn Fixture) {
    let hour = sixty(f).await;
    let older = f.begin_replan().await;
    f.replan_some(older, None, 20).await;
    let newer = f.begin_replan().await;
    let store = f.store();
    let step = store
        .replan_some(&bank(), &payments(), older, None, 20)
        .await;
    assert!(
        matches!(&step, Err(StoreError::Invalid(why)) if why.contains("bank")),
        "{step:?}"
    );
    let end = store.end_replan(&bank(), older, "done".into(), ops()).await;
    assert!(matches!(end, Err(StoreError::Invalid(_))), "{end:?}");
    assert_eq!(open_replan(f).await, Some(newer));
    assert_eq!(f.finish_replan(newer).await.len(), 60, "all of them anew");
    let used: Vec<_> = f.windows_from(hour).await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10; 6]);
}

pub async fn a_replan_that_was_cut_off_is_continued(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.lane(paused(None, Some(hour + secs(60)))).await;
    let generation = f.begin_replan().await;
    assert_eq!(f.replan_some(generation, None, 25).await.len(), 25);
    f.restart().await;
    assert_eq!(open_replan(f).await, Some(generation));
    let rest = f.finish_replan(generation).await;
    assert_eq!(rest.len(), 35, "and none of the others again");
    let waiting = f.waiting().await;
    assert_eq!(waiting.len(), 60);
    assert_eq!(
        count_windows(waiting.iter().map(|w| w.window)),
        f.windows().await
    );
    assert!(waiting.iter().all(|w| w.due >= hour + secs(60)));
    // Now with those at the head of the queue that are placed already.
    let generation = f.begin_replan().await;
    assert_eq!(f.replan_some(generation, None, 25).await.len(), 25);
    assert_eq!(f.finish_replan(generation).await.len(), 35);
}

pub async fn a_lane_is_adjusted_and_its_replan_begun_at_once_or_not_at_all(f: &dyn Fixture) {
    let hour = sixty(f).await;
    let lane = f.lane_in_force().await;
    let adjust = async |version: i64, change: LaneChange| {
        let store = f.store();
        store.adjust_lane(&bank(), version, change, ops()).await
    };
    let adjusted = adjust(lane.version, plan(15, 4)).await;
    let (now, generation) = adjusted.unwrap().unwrap();
    assert_eq!(now.lane.max_per_window, 15);
    assert_eq!(open_replan(f).await, Some(generation), "a crash leaves it");
    f.restart().await;
    assert_eq!(f.finish_replan(generation).await.len(), 60);
    let used: Vec<_> = f.windows_from(hour).await.iter().map(|w| w.used).collect();
    assert_eq!(used, [15; 4]);
    assert_eq!(adjust(lane.version, plan(5, 4)).await.unwrap(), None);
    assert_eq!(f.lane_in_force().await.version, now.version);
    assert_eq!(open_replan(f).await, None, "nothing was begun");
    let wrong = adjust(now.version, by_calendar(&hours())).await;
    assert!(matches!(wrong, Err(StoreError::Invalid(_))), "{wrong:?}");
    assert_eq!(open_replan(f).await, None, "all of it or nothing");
    let (store, nowhere) = (f.store(), LaneName::new("nowhere"));
    let none = store.adjust_lane(&nowhere, 1, plan(5, 4), ops()).await;
    assert!(matches!(none, Err(StoreError::Invalid(_))), "{none:?}");
}

pub async fn a_lane_nobody_made_is_not_replanned(f: &dyn Fixture) {
    let nowhere = LaneName::new("nowhere");
    let begun = f.store().begin_replan(&nowhere, ops()).await;
    assert!(
        matches!(&begun, Err(StoreError::Invalid(why)) if why.contains("nowhere")),
        "{begun:?}"
    );
    let step = f
        .store()
        .replan_some(&nowhere, &payments(), 0, None, 9)
        .await;
    assert!(matches!(step, Err(StoreError::Invalid(_))), "{step:?}");
    assert_eq!(f.store().open_replan(&nowhere).await.unwrap(), None);
    assert_eq!(
        f.store().recount(&nowhere).await.unwrap(),
        Recounted::default()
    );
}

pub async fn a_new_generation_knows_what_is_under_way_and_nothing_else(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.advance_to(hour - secs(1800)).await;
    let some = Claim {
        limit: 13,
        ..claim_all()
    };
    f.claim(some).await;
    f.begin_replan().await;
    let used: Vec<_> = f.windows().await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10, 3]);
    let slot = f.place(vec![new_item_at("q", hour)]).await.remove(0);
    assert!(slot.scheduled >= hour + secs(4), "among those");
}

pub async fn a_step_of_a_replan_knows_what_was_claimed_before_it(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.advance_to(hour - secs(1800)).await;
    for n in 0..10 {
        f.cancel(&format!("p{n:05}")).await;
    }
    let generation = f.begin_replan().await;
    assert_eq!(f.replan_some(generation, None, 10).await.len(), 10);
    // Those ten, and fifteen that have not been placed anew.
    let some = Claim {
        limit: 25,
        ..claim_all()
    };
    assert_eq!(f.claim(some).await.len(), 25);
    assert_eq!(f.finish_replan(generation).await.len(), 25);
    let used: Vec<_> = f.windows().await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10; 5], "none holds more than it can take");
}

/// Between the steps of a replan others admit, claim, cancel, reschedule and recount.
pub async fn others_go_on_between_the_steps_of_a_replan(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.advance_to(hour - secs(1800)).await;
    f.lane(paused(None, Some(hour + secs(60)))).await;
    let generation = f.begin_replan().await;
    let (mut after, mut step) = (None, 0);
    loop {
        let some = f.replan_some(generation, after.clone(), 11).await;
        let Some(last) = some.last() else { break };
        after = Some(last.item.spot());
        f.place(vec![new_item_at(&format!("new{step}"), hour)])
            .await;
        assert_eq!(
            f.claim(Claim {
                limit: 2,
                ..claim_all()
            })
            .await
            .len(),
            2
        );
        // One that was placed already, and one that was not.
        assert_eq!(f.cancel(last.item.id.as_str()).await, ActionResult::Yes);
        let late = format!("p{:05}", 59 - 2 * step);
        if f.view(&payment(&late)).await.queue_status.as_str() == "READY" {
            f.cancel(&late).await;
        }
        assert_eq!(
            f.store().recount(&bank()).await.unwrap(),
            Recounted::default()
        );
        step += 1;
    }
    assert!(step >= 4, "{step} steps");
    f.finish_replan(generation).await;
    let waiting = f.waiting().await;
    let claimed = (0..60)
        .map(|n| format!("p{n:05}"))
        .chain((0..step).map(|n| format!("new{n}")));
    let mut held: Vec<Timestamp> = waiting.iter().map(|w| w.window).collect();
    let mut known: BTreeSet<String> = waiting.iter().map(|w| w.id.to_string()).collect();
    let windows = f.lane_windows().await;
    for id in claimed {
        let view = f.view(&payment(&id)).await;
        match view.queue_status.as_str() {
            "CLAIMED" => held.push(windows.start_of(view.slot)),
            "CANCELLED" => {}
            status => assert!(known.remove(&id), "{id} is {status} and does not wait"),
        }
    }
    assert!(known.is_empty(), "{known:?}");
    assert_eq!(
        f.windows_from(f.now().await).await,
        count_windows(held.into_iter())
    );
    assert_eq!(
        f.store().recount(&bank()).await.unwrap(),
        Recounted::default()
    );
}

/// It was planned for the end of time, and then its lane was closed there.
pub async fn an_item_whose_lane_never_opens_again_keeps_its_time(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let end: Timestamp = "9999-12-29T00:00:00Z".parse().unwrap();
    f.place(vec![new_item_at("p", end)]).await;
    let sundays = CalendarText {
        weekly: Some([("sunday".into(), vec!["10:00-11:00".into()])].into()),
        ..always()
    };
    f.put_calendar(sundays).await;
    f.lane(by_calendar(&hours())).await;
    let replanned = f.replan().await;
    assert_eq!(
        (replanned.len(), replanned[0].to),
        (1, replanned[0].item.due)
    );
    assert_eq!(f.view(&payment("p")).await.slot, end);
}

pub async fn a_replan_leaves_other_lanes_and_types_alone(f: &dyn Fixture) {
    let hour = sixty(f).await;
    let stripe = LaneName::new("stripe");
    f.store()
        .change_lane(&stripe, plan(10, 4), ops())
        .await
        .unwrap();
    let mut other = new_item_at("other", hour);
    other.lane = stripe.clone();
    f.place(vec![other]).await;
    let pause = paused(None, Some(hour + secs(60)));
    for lane in [&stripe, &bank()] {
        f.store()
            .change_lane(lane, pause.clone(), ops())
            .await
            .unwrap();
    }
    f.replan().await;
    assert_eq!(f.view(&payment("other")).await.slot, hour);
    assert_eq!(f.view(&payment("p00000")).await.slot, hour + secs(60));
    let untouched = f.store().windows(&stripe, hour, 9).await.unwrap();
    assert_eq!(untouched.len(), 1);
}
