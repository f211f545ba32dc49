//! No slot and no turn in closed time, and what happens where time never opens again.

use tollgate_core::calendar::{Calendar, CalendarText};
use tollgate_core::gate::HORIZON;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{ActionResult, Admission, NewItem, Turn};
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, STALE, bank, claim_all, is_new, many, new_item, new_item_at,
    payment, payments, placed, plan, send, signed,
};
use super::planning::{always, by_calendar, closed, hours, paused, secs};

/// The bank's lane by this calendar.
async fn lane_by(f: &dyn Fixture, text: CalendarText) {
    f.put_calendar(text).await;
    let lane = LaneChange {
        calendar: Some(Some(hours())),
        ..plan(10, 4)
    };
    f.lane(lane).await;
}

pub async fn no_slot_lies_in_closed_time(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let (closes, opens) = (hour + secs(4), hour + secs(3600));
    lane_by(f, closed(&[(closes, opens)])).await;
    let slots = f.place(many("p", 25, hour)).await;
    let early = slots.iter().filter(|p| p.scheduled < closes).count();
    assert_eq!(early, 10, "the window before the closing");
    let late = slots.iter().filter(|p| p.scheduled >= opens).count();
    assert_eq!(late, 15, "and none between");
    let asked_for_closed_time = f.place(vec![new_item_at("q", hour + secs(60))]).await;
    assert!(asked_for_closed_time[0].scheduled >= opens);
}

/// Weekly hours in a zone, judged by the calendar itself.
pub async fn slots_keep_to_weekly_hours(f: &dyn Fixture) {
    let days = ["monday", "wednesday", "friday"];
    let text = CalendarText {
        zone: "America/New_York".into(),
        weekly: Some(
            days.map(|d| (d.into(), vec!["02:30-02:31".into(), "09:00-09:01".into()]))
                .into(),
        ),
        ..CalendarText::default()
    };
    let calendar = Calendar::read(&text).unwrap();
    lane_by(f, text).await;
    let now = f.now().await;
    let requests = (0..40).map(|n| new_item_at(&format!("p{n}"), now + n * 9 * 24 * HOUR));
    let requests: Vec<NewItem> = requests.chain(many("q", 400, now)).collect();
    for (item, slot) in requests.iter().zip(f.place(requests.clone()).await) {
        let open = calendar.stretch_from(slot.scheduled).unwrap();
        assert!(open.from <= slot.scheduled, "{} is closed", slot.scheduled);
        assert!(slot.scheduled >= item.requested.unwrap());
    }
}

pub async fn a_window_that_is_partly_closed_takes_what_its_open_part_can_send(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let opens = hour + secs(3);
    lane_by(f, closed(&[(hour, opens)])).await;
    f.place(many("p", 30, hour)).await;
    let used: Vec<_> = f.windows().await.iter().map(|w| w.used).collect();
    let can = f.lane_windows().await.capacity(hour, hour);
    assert!(can < 10, "one second at five a second, not {can}");
    assert_eq!(used[..3], [can, 10, 10]);
    let first = f.view(&payment("p00000")).await.slot;
    assert!(first >= opens, "{first}");
}

pub async fn a_closed_lane_gives_no_turn_until_it_opens(f: &dyn Fixture) {
    lane_by(f, always()).await;
    let item = f.dispatched_one().await;
    let opens = f.now().await + secs(3600);
    f.put_calendar(closed(&[(f.now().await - secs(60), opens)]))
        .await;
    let Turn::Closed { why, for_at_least } = f.turn(send(&item)).await else {
        panic!("a turn in closed time")
    };
    assert!(why.contains("hours") && why.contains("bank"), "{why}");
    assert!(
        for_at_least <= HOUR && for_at_least > 59 * MINUTE,
        "{for_at_least:?}"
    );
    assert_eq!(f.logged().await, 0);
    f.advance(for_at_least).await;
    assert!(matches!(f.turn(send(&item)).await, Turn::At { at, .. } if at >= opens));
}

/// A slow lane reserves its next turn ten seconds ahead, but not beyond its closing.
pub async fn no_turn_lies_after_the_closing(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let item = f.dispatched_one().await;
    f.put_calendar(always()).await;
    f.lane(by_calendar(&hours())).await;
    let soon = f.now().await + signed(HORIZON / 2);
    f.put_calendar(closed(&[(soon, soon + secs(3600))])).await;
    let given = f.far_turn(&item).await;
    assert!(!matches!(given, Turn::At { .. }), "{given:?}");
    f.put_calendar(closed(&[(soon + secs(60), soon + secs(3600))]))
        .await;
    let given = f.far_turn(&item).await;
    assert!(matches!(given, Turn::At { .. }), "{given:?}");
    assert_eq!(f.logged().await, 1);
}

pub async fn a_closed_lane_is_not_due_and_next_in_is_its_opening(f: &dyn Fixture) {
    lane_by(f, always()).await;
    f.place(vec![new_item("p")]).await;
    f.advance(MINUTE).await;
    let (store, kind) = (f.store(), payments());
    let due = async || store.lanes_due(&kind, SECOND, STALE).await.unwrap();
    assert_eq!(due().await.lanes, [bank()]);
    let now = f.now().await;
    f.put_calendar(closed(&[(now - secs(60), now + secs(3600))]))
        .await;
    let closed = due().await;
    assert_eq!(closed.lanes, []);
    let wait = closed.next_in.expect("it opens again");
    assert!(wait <= HOUR && wait > 59 * MINUTE, "{wait:?}");
    f.advance(wait).await;
    assert_eq!(due().await.lanes, [bank()]);
    assert_eq!(f.claim(claim_all()).await.len(), 1);
}

pub async fn a_lane_that_never_opens_again_refuses_and_leaves_nothing_behind(f: &dyn Fixture) {
    let sundays = CalendarText {
        weekly: Some([("sunday".into(), vec!["10:00-11:00".into()])].into()),
        ..always()
    };
    lane_by(f, sundays).await;
    // The last Sunday of all time is the 26th of December 9999.
    let end: Timestamp = "9999-12-27T00:00:00Z".parse().unwrap();
    let batch = vec![new_item("a"), new_item_at("never", end), new_item("b")];
    let answers = f.admit(batch).await;
    assert!(is_new(&answers[0]) && is_new(&answers[2]), "{answers:?}");
    let Admission::Refused(why) = &answers[1] else {
        panic!("{answers:?}")
    };
    assert!(why.contains("bank") && why.contains("never opens"), "{why}");
    assert!(f.store().item(&payment("never")).await.unwrap().is_none());
    assert_eq!(f.windows().await.iter().map(|w| w.used).sum::<u32>(), 2);
    assert_eq!(f.waiting().await.len(), 2);
    let totals = f
        .store()
        .totals(&payments(), Timestamp::MIN, Timestamp::MAX)
        .await;
    assert_eq!(totals.unwrap().iter().map(|t| t.count).sum::<u64>(), 2);
    let again = f.admit_one(new_item("never")).await;
    assert!(is_new(&again), "its id is free");
    f.lane(paused(None, Some(Timestamp::MAX))).await;
    let Admission::Refused(why) = f.admit_one(new_item("any time")).await else {
        panic!("there is no such time")
    };
    assert!(why.contains("bank") && why.contains("never opens"), "{why}");
}

/// Whether the lane is always open, has its hours, or was paused once: a search that finds nothing
/// comes to its end.
pub async fn nothing_is_placed_at_the_end_of_time(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let past = Some(f.now().await - secs(60));
    f.put_calendar(always()).await;
    let lanes = [plan(10, 4), paused(None, past), by_calendar(&hours())];
    for (n, lane) in lanes.into_iter().enumerate() {
        f.lane(lane).await;
        let end = many(&format!("end{n}-"), 50, Timestamp::MAX - secs(3));
        let refused = |a: &&Admission| matches!(a, Admission::Refused(_));
        let answers = f.admit(end).await;
        assert!(answers.iter().filter(refused).count() >= 20, "{answers:?}");
        let last = f
            .admit_one(new_item_at(&format!("last{n}"), Timestamp::MAX))
            .await;
        assert!(refused(&&last), "{last:?}");
        let before = Timestamp::MAX - secs(3600);
        let before = f
            .admit_one(new_item_at(&format!("before{n}"), before))
            .await;
        assert!(is_new(&before), "{before:?}");
    }
    f.lane(paused(None, Some(Timestamp::MAX))).await;
    let paused = f.admit_one(new_item("p")).await;
    assert!(matches!(paused, Admission::Refused(_)), "{paused:?}");
}

pub async fn nobody_is_rescheduled_to_where_the_lane_never_opens(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let end: Timestamp = "9999-12-30T00:00:00Z".parse().unwrap();
    lane_by(f, closed(&[(end - secs(60), Timestamp::MAX)])).await;
    f.place(many("p", 1, hour)).await;
    let before = (f.view(&payment("p00000")).await.slot, f.windows().await);
    let ActionResult::Refused(why) = f.reschedule("p00000", end).await else {
        panic!("there is no such time")
    };
    assert!(why.contains("never opens"), "{why}");
    let after = (f.view(&payment("p00000")).await.slot, f.windows().await);
    assert_eq!(after, before);
    assert!(is_new(&f.admit_one(new_item("q")).await));
}

/// Times are kept to the microsecond: one with more digits is placed after it, and told so.
pub async fn a_slot_is_told_as_it_is_kept(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let odd = f.next_hour().await + SignedDuration::from_nanos(1_500_000_001);
    for (id, until) in [("asked", None), ("paused", Some(odd))] {
        f.lane(paused(Some(odd - secs(60)), until)).await;
        let new = placed(&f.admit_one(new_item_at(id, odd)).await);
        assert!(new.scheduled >= odd, "{} is early", new.scheduled);
        let again = placed(&f.admit_one(new_item_at(id, odd)).await);
        assert_eq!(again, new, "the same answer");
        assert_eq!(f.view(&payment(id)).await.slot, new.scheduled);
    }
}
