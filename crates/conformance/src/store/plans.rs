//! `Plans`: what waits, in its order, and placing it anew.

use std::collections::BTreeSet;

use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane::{LaneChange, Spread};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{ActionResult, Claim, NewItem, Replanned, Settlement, Then, Waiting};

use super::fixture::{
    Fixture, SECOND, bank, claim_all, many, new_item, new_item_at, payment, payments, plan,
    settlement, signed,
};
use super::planning::{by_calendar, closed, count_windows, hours, paused, secs};

fn ids(waiting: &[Waiting]) -> Vec<String> {
    waiting.iter().map(|w| w.id.to_string()).collect()
}

pub async fn what_waits_is_told_page_by_page_in_the_order_of_its_slots(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let items: Vec<NewItem> = (0..30)
        .map(|n| new_item_at(&format!("p{n}"), hour + secs(n * 7 % 30)))
        .collect();
    let slots = f.place(items.clone()).await;
    let mut order: Vec<_> = items
        .iter()
        .zip(slots)
        .map(|(i, s)| (s.scheduled, i.id.to_string()))
        .collect();
    order.sort();
    for limit in [1, 7, 100] {
        let mut told: Vec<Waiting> = vec![];
        loop {
            let after = told.last().map(Waiting::spot);
            let page = f
                .store()
                .waiting(&bank(), &payments(), after, limit)
                .await
                .unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            told.extend(page);
        }
        let told: Vec<_> = told
            .into_iter()
            .map(|w| (w.due, w.id.to_string()))
            .collect();
        assert_eq!(told, order, "pages of {limit}");
    }
    let one = f
        .store()
        .waiting(&bank(), &payments(), None, 1)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (one.requested, one.window, one.deadline),
        (hour, hour, None)
    );
}

pub async fn only_what_is_ready_and_was_never_attempted_waits(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let sent = f.dispatched(&["sent", "running"]).await.remove(0);
    f.claimed_one("claimed").await;
    let (attempt, _) = f.sent(&sent).await;
    let then = Then::Requeue {
        after: SECOND,
        why: "busy".into(),
    };
    f.settle(Settlement {
        then,
        ..settlement(&sent, attempt, Outcome::retry("busy"))
    })
    .await;
    let now = f.now().await;
    f.place(vec![new_item("cancelled"), new_item("waits")])
        .await;
    assert_eq!(f.cancel("cancelled").await, ActionResult::Yes);
    assert_eq!(ids(&f.waiting().await), ["waits"]);
    let invoices = ItemType::new("INVOICE");
    f.store()
        .admit(&invoices, vec![new_item("invoice")])
        .await
        .unwrap();
    assert_eq!(ids(&f.waiting().await), ["waits"], "of one type");
    let nowhere = f
        .store()
        .waiting(&LaneName::new("nowhere"), &payments(), None, 9)
        .await;
    assert_eq!(nowhere.unwrap(), [], "of one lane");
    let backlog =
        async |before: Timestamp| f.store().backlog(&bank(), before, u32::MAX).await.unwrap();
    assert_eq!(
        backlog(now + secs(60)).await,
        3,
        "sent, waits and the invoice"
    );
    let few = f.store().backlog(&bank(), now + secs(60), 1).await.unwrap();
    assert_eq!(few, 1, "counted no further than asked");
    assert_eq!(backlog(now - secs(60)).await, 0);
}

/// All that a replan promises, whatever was the reason for it.
async fn check(f: &dyn Fixture, before: &[Waiting], replanned: &[Replanned], begun: Timestamp) {
    let told: Vec<_> = replanned.iter().map(|r| r.item.clone()).collect();
    assert_eq!(told, before, "all, in the order they had");
    let after = f.waiting().await;
    let set = |of: &[Waiting]| ids(of).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(&after), set(before), "none lost, none new");
    let (lane, windows) = (f.lane_in_force().await, f.lane_windows().await);
    for (item, moved) in after
        .iter()
        .map(|w| (w, replanned.iter().find(|r| r.item.id == w.id)))
    {
        let to = moved.expect("every one was told").to;
        let view = f.view(&payment(item.id.as_str())).await;
        assert_eq!((view.slot, view.due), (to, to), "{}", item.id);
        assert!(to >= item.requested && to >= begun, "{} is early", item.id);
        assert_eq!(windows.opens_at(to), Some(to), "{to} is closed");
        assert_eq!(item.window, windows.start_of(to));
    }
    for window in f.windows_from(begun).await {
        let most = lane
            .windows(DEFAULT_MARGIN)
            .capacity(window.start, window.start);
        assert!(window.used <= most, "{} in {}", window.used, window.start);
    }
}

/// 60 items from the hour on, ten to a window of four seconds.
async fn sixty(f: &dyn Fixture) -> Timestamp {
    let lane = LaneChange {
        max_per_second: Some(50.into()),
        ..plan(10, 4)
    };
    f.lane(lane).await;
    let hour = f.next_hour().await;
    f.place(many("p", 60, hour)).await;
    hour
}

async fn replan_and_check(f: &dyn Fixture) -> Vec<Timestamp> {
    let (before, begun) = (f.waiting().await, f.now().await);
    let replanned = f.replan().await;
    check(f, &before, &replanned, begun).await;
    let after = f.waiting().await;
    assert_eq!(ids(&after), ids(&before), "in the order they had");
    let counted = count_windows(after.iter().map(|w| w.window));
    assert_eq!(f.windows_from(begun).await, counted, "counters are slots");
    assert_eq!(replan_again(f).await, [], "a second one moves nothing");
    after.iter().map(|w| w.due).collect()
}

/// What a replan right after one moves.
async fn replan_again(f: &dyn Fixture) -> Vec<Replanned> {
    let again = f.replan().await;
    again.into_iter().filter(|r| r.to != r.item.due).collect()
}

pub async fn a_replan_after_a_blackout_leaves_closed_time(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.put_calendar(closed(&[(hour + secs(6), hour + secs(600))]))
        .await;
    f.lane(by_calendar(&hours())).await;
    let dues = replan_and_check(f).await;
    assert_eq!(dues.iter().filter(|t| **t < hour + secs(6)).count(), 20);
    assert_eq!(dues.iter().filter(|t| **t >= hour + secs(600)).count(), 40);
}

pub async fn a_replan_after_a_pause_begins_at_its_end(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.lane(paused(None, Some(hour + secs(60)))).await;
    assert_eq!(replan_and_check(f).await[0], hour + secs(60));
}

pub async fn a_replan_after_a_raised_limit_finishes_earlier(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.lane(plan(30, 4)).await;
    let dues = replan_and_check(f).await;
    assert!(dues[59] < hour + secs(8), "{}", dues[59]);
}

pub async fn a_replan_after_a_lowered_limit_overfills_nothing(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.lane(plan(5, 4)).await;
    let dues = replan_and_check(f).await;
    assert!(dues[59] >= hour + secs(44), "{}", dues[59]);
}

pub async fn a_replan_closes_the_gaps_that_cancelled_items_left(f: &dyn Fixture) {
    let hour = sixty(f).await;
    for n in (0..60).step_by(2) {
        assert_eq!(f.cancel(&format!("p{n:05}")).await, ActionResult::Yes);
    }
    let dues = replan_and_check(f).await;
    assert_eq!(dues.len(), 30);
    assert!(dues[29] < hour + secs(12), "{}", dues[29]);
}

pub async fn a_backlog_is_placed_from_now_on(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.advance_to(hour + secs(3600)).await;
    let (before, begun) = (f.waiting().await, f.now().await);
    let replanned = f.replan().await;
    check(f, &before, &replanned, begun).await;
}

pub async fn a_replanned_jitter_is_spread_and_a_second_replan_moves_nothing(f: &dyn Fixture) {
    let jitter = LaneChange {
        spread: Some(Spread::Jitter),
        ..plan(50, 4)
    };
    f.lane(jitter).await;
    let hour = f.next_hour().await;
    f.place(many("p", 100, hour)).await;
    f.lane(paused(None, Some(hour + secs(60)))).await;
    let (before, begun) = (f.waiting().await, f.now().await);
    let replanned = f.replan().await;
    check(f, &before, &replanned, begun).await;
    let from = hour + secs(60);
    let offsets: Vec<_> = replanned
        .iter()
        .map(|r| r.to.duration_since(from).as_millis())
        .collect();
    for window in [0, 4000] {
        for quarter in [0, 1000, 2000, 3000].map(|q| window + q..window + q + 1000) {
            let there = offsets.iter().filter(|o| quarter.contains(*o)).count();
            assert!((3..=30).contains(&there), "{there} of 50 in {quarter:?}");
        }
    }
    assert_eq!(replan_again(f).await, []);
}

pub async fn what_is_under_way_or_was_attempted_stays_where_it_is(f: &dyn Fixture) {
    let hour = sixty(f).await;
    f.advance_to(hour - secs(1800)).await;
    let claimed = f
        .claim(Claim {
            limit: 13,
            ..claim_all()
        })
        .await;
    let names: Vec<_> = claimed.iter().map(|c| c.id.as_str()).collect();
    let slots = f.slots(&names).await;
    for n in 20..30 {
        f.cancel(&format!("p{n:05}")).await;
    }
    let (before, begun) = (f.waiting().await, f.now().await);
    let replanned = f.replan().await;
    check(f, &before, &replanned, begun).await;
    assert_eq!(f.slots(&names).await, slots);
    let used: Vec<_> = f.windows_from(begun).await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10, 10, 10, 10, 10], "13 under way and 37 that wait");
    assert_eq!(f.release(&claim_all()).await, 13);
    assert_eq!(f.cancel(names[0]).await, ActionResult::Yes);
    let room = f.place(vec![new_item_at("q", hour)]).await.remove(0);
    assert!(room.scheduled < hour + secs(4), "its room came back");
    assert!(begun + signed(SECOND) < hour);
}
