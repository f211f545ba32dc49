//! `Lanes::put_calendar`: versions, what is refused, and which lanes it binds. What a calendar means
//! for slots and turns is in `hours.rs`.

use tollgate_core::calendar::CalendarText;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{NewItem, SettingKind, StoreError};

use super::fixture::{Fixture, HOUR, bank, is_new, many, new_item, new_item_at, ops, plan, signed};
use super::planning::{always, by_calendar, closed, hours, secs};

/// The bank's lane by this calendar.
async fn lane_by(f: &dyn Fixture, text: CalendarText) {
    f.put_calendar(text).await;
    let lane = LaneChange {
        calendar: Some(Some(hours())),
        ..plan(10, 4)
    };
    f.lane(lane).await;
}

pub async fn calendars_are_listed_by_name_with_the_version_in_force(f: &dyn Fixture) {
    assert_eq!(f.store().calendars().await.unwrap(), []);
    let (hour, before) = (f.next_hour().await, f.now().await);
    let mut last = None;
    for (name, text) in [
        ("b", always()),
        ("a", always()),
        ("b", closed(&[(hour, hour + secs(60))])),
    ] {
        let name = CalendarName::new(name);
        let put = f.store().put_calendar(&name, text.clone(), ops()).await;
        let put = put.unwrap();
        assert_eq!((&put.name, &put.text), (&name, &text));
        assert!(put.effective_at >= before + signed(HORIZON));
        last = Some(put);
    }
    let listed = f.store().calendars().await.unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|c| (c.name.as_str(), c.version))
        .collect();
    assert_eq!(told, [("a", 1), ("b", 2)]);
    assert_eq!(listed.last(), last.as_ref());
}

pub async fn a_calendar_is_a_setting_with_its_author_and_its_audit_entry(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    f.put_calendar(always()).await;
    f.put_calendar(closed(&[(hour, hour + secs(60))])).await;
    let store = f.store();
    let history = store.setting_history(SettingKind::Calendar, "hours", 10);
    let history = history.await.unwrap();
    let versions: Vec<_> = history.iter().map(|s| (s.version, &s.author)).collect();
    assert_eq!(versions, [(2, &ops()), (1, &ops())], "old ones stay");
    let entry = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(entry.actor, "ops");
    assert!(entry.detail.contains("hours"), "{}", entry.detail);
}

pub async fn a_wrong_calendar_says_what_is_wrong_and_leaves_everything_as_it_was(f: &dyn Fixture) {
    lane_by(f, always()).await;
    let state = async || {
        let entries = f.store().audit(None, 100).await.unwrap().len();
        (f.store().calendars().await.unwrap(), entries)
    };
    let before = state().await;
    let now = f.now().await;
    let years: Vec<_> = (0..3).map(|n| now + n * 350 * 24 * HOUR).collect();
    let wrong = [
        (
            CalendarText {
                zone: "Mars/Olympus".into(),
                ..always()
            },
            "zone",
        ),
        (
            CalendarText {
                weekly: Some([].into()),
                ..always()
            },
            "weekly",
        ),
        (closed(&[(now, now)]), "blackouts[0]"),
        (
            closed(&[(years[0], years[1]), (years[1], years[2])]),
            "within a year",
        ),
    ];
    for (text, what) in wrong {
        let refused = f.store().put_calendar(&hours(), text, ops()).await;
        let Err(StoreError::Invalid(why)) = refused else {
            panic!("{what}: {refused:?}")
        };
        assert!(why.contains(what) && why.contains("hours"), "{why}");
    }
    assert_eq!(state().await, before);
    assert!(
        is_new(&f.admit_one(new_item("p")).await),
        "the lane is open"
    );
}

pub async fn a_lane_may_name_only_a_calendar_that_exists(f: &dyn Fixture) {
    let before = f.lane(plan(10, 4)).await;
    let (store, lane) = (f.store(), bank());
    let named = store.change_lane(&lane, by_calendar(&hours()), ops());
    let Err(StoreError::Invalid(why)) = named.await else {
        panic!("there is no such calendar")
    };
    assert!(why.contains("calendar") && why.contains("hours"), "{why}");
    assert_eq!(f.lane_in_force().await, before);
    f.put_calendar(always()).await;
    assert_eq!(
        f.lane(by_calendar(&hours())).await.lane.calendar,
        Some(hours())
    );
    let other = f.lane(plan(20, 4)).await;
    assert_eq!(other.lane.calendar, Some(hours()), "kept by other changes");
    let without = LaneChange {
        calendar: Some(None),
        ..LaneChange::default()
    };
    assert_eq!(f.lane(without).await.lane.calendar, None);
}

/// Full windows point past closed time; the pointers are forgotten with the version they went by.
pub async fn a_new_version_binds_all_lanes_that_name_it_at_once(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    let lanes = [LaneName::new("bank"), LaneName::new("stripe")];
    f.put_calendar(closed(&[(hour + secs(4), hour + secs(3600))]))
        .await;
    let on = |items: Vec<NewItem>, lane: &LaneName| -> Vec<NewItem> {
        let lane = |item| NewItem {
            lane: lane.clone(),
            ..item
        };
        items.into_iter().map(lane).collect()
    };
    for lane in &lanes {
        let made = LaneChange {
            calendar: Some(Some(hours())),
            ..plan(10, 4)
        };
        f.store().change_lane(lane, made, ops()).await.unwrap();
        f.place(on(many(lane.as_str(), 25, hour), lane)).await;
    }
    let before = f.slots(&["bank00024", "stripe00024"]).await;
    f.put_calendar(always()).await;
    for lane in &lanes {
        let id = format!("{lane}-new");
        let slot = f.place(on(vec![new_item_at(&id, hour)], lane)).await;
        assert_eq!(
            slot[0].scheduled,
            hour + secs(4),
            "the room that opened earlier"
        );
    }
    let after = f.slots(&["bank00024", "stripe00024"]).await;
    assert_eq!(after, before, "slots already given stay where they are");
}
