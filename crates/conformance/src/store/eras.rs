//! `SharedClock::vouch` and `open_era`: which times tell how long something took.

use std::time::Duration;

use tollgate_core::gate::LATEST_USE;
use tollgate_core::id::FlowId;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::LaneState;
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{
    ActionResult, Boot, Claim, Era, ItemView, NewFlow, NewTurn, StatusMove, Turn, WAS_SET_BACK,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{
    Fixture, HOUR, MINUTE, STALE, TOLERANCE, bank, claim_all, lost, new_item_at, ops, payment,
    payments, plan, send, signed,
};

fn boot(id: &str, began_ms: i64) -> Boot {
    Boot {
        id: id.into(),
        began: Timestamp::from_millisecond(1_800_000_000_000 + began_ms).unwrap(),
    }
}
async fn era(f: &dyn Fixture) -> Era {
    let nobody = payment("nobody");
    let history = f.store().take_over(&nobody, 1, TOLERANCE, &lost()).await;
    history.unwrap().era
}
async fn vouch(f: &dyn Fixture, boot: Option<Boot>) -> i64 {
    f.store().vouch(boot).await.unwrap();
    era(f).await.number
}

pub async fn the_era_goes_on_for_a_boot_that_has_seen_its_clock_run_evenly(f: &dyn Fixture) {
    let first = vouch(f, Some(boot("a", 0))).await;
    for began_ms in [0, 100, -100] {
        let again = vouch(f, Some(boot("a", began_ms))).await;
        assert_eq!(again, first, "{began_ms} ms");
    }
    f.restart().await;
    assert_eq!(vouch(f, Some(boot("a", 0))).await, first);
}

pub async fn whoever_cannot_vouch_for_the_clock_opens_a_new_era(f: &dyn Fixture) {
    let mut last = vouch(f, Some(boot("a", 0))).await;
    let doubtful = [
        ("nobody knows the boot", None),
        ("a boot that never vouched", Some(boot("b", 0))),
        ("and the first has seen none of it", Some(boot("a", 0))),
        ("set forward", Some(boot("a", 101))),
        ("set back", Some(boot("a", 0))),
        ("by an hour", Some(boot("a", 3_600_000))),
        ("and back", Some(boot("a", 0))),
    ];
    for (case, boot) in doubtful {
        let number = vouch(f, boot).await;
        assert_eq!(number, last + 1, "{case}");
        last = number;
    }
}

pub async fn a_jump_opens_an_era_that_begins_now_and_only_its_finder_vouches_for(f: &dyn Fixture) {
    let first = vouch(f, Some(boot("a", 0))).await;
    let before = f.now().await;
    f.store().open_era(Some(boot("b", 0))).await.unwrap();
    let opened = era(f).await;
    assert_eq!(opened.number, first + 1);
    assert!(opened.since >= before && opened.since <= f.now().await);
    assert_eq!(vouch(f, Some(boot("b", 0))).await, first + 1);
    assert_eq!(vouch(f, Some(boot("a", 0))).await, first + 2);
}

pub async fn a_lane_that_was_closed_by_another_eras_clock_is_open(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let closed = async || {
        let lane = f.store().lane(&bank()).await.unwrap().unwrap();
        matches!(lane.state(f.now().await), LaneState::Closed { .. })
    };
    f.store().close_lane(&bank(), HOUR, ops()).await.unwrap();
    assert!(closed().await);
    f.turn_back(HOUR).await;
    f.store().open_era(None).await.unwrap();
    assert!(!closed().await, "for two hours");
}

pub async fn an_attempt_belongs_to_the_era_of_its_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let first = vouch(f, Some(boot("a", 0))).await;
    let block = f.turns(vec![send(&item)]).await;
    assert_eq!(block.era, first);
    let Turn::At { attempt, .. } = block.turns[0] else {
        panic!("no turn: {block:?}")
    };
    f.store().open_era(None).await.unwrap();
    let told = f.store().take_over(&item, 1, HOUR, &lost()).await.unwrap();
    assert_eq!((told.past[0].era, told.era.number), (first, first + 1));
    // The turn that was dropped is given anew, by the clock as it runs now.
    let again = NewTurn {
        missed: Some(attempt),
        ..send(&item)
    };
    assert_eq!(f.turns(vec![again]).await.era, first + 1);
    let told = f.store().take_over(&item, 1, HOUR, &lost()).await.unwrap();
    assert_eq!(told.past[0].era, first + 1);
}

pub async fn a_turn_of_an_older_era_is_soon_past_however_far_the_clock_was_set_back(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    f.sent(&item).await;
    f.turn_back(HOUR).await;
    f.store().open_era(None).await.unwrap();
    let busy = f
        .store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    let left = busy.busy_for.expect("others may not have seen the jump");
    assert!(left <= LATEST_USE, "{left:?}");
    assert_eq!(busy.past[0].state, AttemptState::Open);
    f.advance(left).await;
    let past = f
        .store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    assert_eq!(past.past[0].state, AttemptState::Unknown);
    assert_eq!((past.busy_for, past.past.len()), (None, 1));
    let since = past.now.duration_since(past.era.since);
    assert!(since >= SignedDuration::ZERO && since < signed(Duration::from_mins(1)));
}

/// The clock was two hours ahead while `work` was done, and is set right.
async fn ahead<T>(f: &dyn Fixture, work: impl Future<Output = T>) -> T {
    f.advance(2 * HOUR).await;
    let done = work.await;
    f.turn_back(2 * HOUR).await;
    f.store().open_era(None).await.unwrap();
    done
}
fn is_put_back(view: &ItemView) -> bool {
    view.queue_status == QueueStatus::Ready
        && view.run == 2
        && view.last_error.as_deref() == Some(WAS_SET_BACK)
}

pub async fn what_a_clock_that_was_ahead_has_dispatched_is_due_when_it_is_set_back(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let items = ahead(f, f.dispatched(&["p", "q"])).await;
    for item in &items {
        let view = f.view(item).await;
        assert!(is_put_back(&view), "{view:?}");
        assert!(view.due <= f.now().await, "{}", view.due);
    }
    let audit = f.store().audit(Some(&items[0]), 1).await.unwrap();
    assert_eq!(
        (&*audit[0].action, &*audit[0].detail),
        ("PUT_BACK", WAS_SET_BACK)
    );
    let cancelled = StatusMove::new(&["SCHEDULED"], "CANCELLED");
    let done = f.store().cancel(&items[0], cancelled, ops()).await.unwrap();
    assert_eq!(done, ActionResult::Yes, "people may act");
    assert_eq!(f.claim_ids(claim_all()).await, ["q"]);
    // Whoever still runs for the first time has lost it.
    let told = f.turn(send(&items[1])).await;
    assert!(matches!(told, Turn::NotYours(_)), "{told:?}");
}

pub async fn what_a_clock_that_was_ahead_has_claimed_is_ready_when_it_is_set_back(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ahead(f, f.claimed_one("p")).await;
    let view = f.view(&payment("p")).await;
    assert!(is_put_back(&view), "{view:?}");
    assert!(view.due <= f.now().await, "{}", view.due);
}

pub async fn nothing_is_due_before_the_time_it_asked_for_however_the_clock_is_set(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let in_an_hour = f.now().await + signed(HOUR);
    ahead(f, async {
        f.place(vec![new_item_at("p", in_an_hour)]).await;
        f.dispatch_all().await;
    })
    .await;
    let view = f.view(&payment("p")).await;
    assert!(is_put_back(&view), "{view:?}");
    assert_eq!(view.due, in_an_hour);
    let now = Claim {
        ahead: MINUTE,
        ..claim_all()
    };
    assert!(f.claim(now).await.is_empty(), "early");
}

pub async fn what_has_had_its_turn_or_was_dispatched_by_this_clock_stays(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.dispatched(&["before"]).await;
    let sent = ahead(f, async {
        let sent = f.dispatched(&["sent"]).await.remove(0);
        f.sent(&sent).await;
        sent
    })
    .await;
    for item in [&payment("before"), &sent] {
        let view = f.view(item).await;
        assert_eq!(
            (view.queue_status, view.run),
            (QueueStatus::Dispatched, 1),
            "{item}"
        );
        assert!(view.dispatched_at.unwrap() <= f.now().await, "{item}");
    }
    // Its flow may be lost as any other's.
    f.advance(2 * STALE).await;
    let orphaned = f.store().orphaned(&payments(), STALE, 10).await.unwrap();
    assert_eq!(orphaned.len(), 2, "{orphaned:?}");
}

pub async fn flows_that_a_clock_ahead_has_started_keep_their_delay_when_it_is_set_back(
    f: &dyn Fixture,
) {
    let flow = |id: &str, delay| NewFlow {
        id: FlowId::new(id),
        name: "sample".into(),
        input_json: "{}".into(),
        delay,
        is_child: id == "child",
    };
    let epoch = f.store().take_node().await.unwrap();
    let before = vec![flow("before", MINUTE)];
    f.store().start_flows(before).await.unwrap();
    let started = ["now", "child"].map(|id| flow(id, Duration::ZERO));
    ahead(f, async {
        f.store().start_flows(started.to_vec()).await.unwrap();
        let later = vec![flow("later", 2 * MINUTE)];
        f.store().start_flows(later).await.unwrap();
    })
    .await;
    let due = async || {
        let due = f.store().due_flows(epoch, 10).await.unwrap();
        let ids = due.flows.iter().map(|flow| flow.id.to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(due().await, ["child", "now"]);
    f.advance(MINUTE).await;
    assert_eq!(due().await, ["before"]);
    f.advance(MINUTE).await;
    assert_eq!(due().await, ["later"]);
}
