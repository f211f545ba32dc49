//! `Lanes`: versions, windows that follow a change, and the proof of the rate.

use std::collections::BTreeMap;

use futures::future::join_all;
use tollgate_core::Timestamp;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause, Spread};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{SettingKind, Settlement, StoreError, WindowUse};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, bank, given, hard_limit, many, new_item_at, ops, plan, send,
    settlement, signed,
};

async fn lane(f: &dyn Fixture) -> LaneInForce {
    f.store().lane(&bank()).await.unwrap().unwrap()
}

pub async fn a_new_lane_has_the_defaults_and_the_first_version(f: &dyn Fixture) {
    assert_eq!(f.store().lane(&bank()).await.unwrap(), None);
    assert_eq!(f.store().lanes().await.unwrap(), []);
    let before = f.now().await;
    let made = f.lane(plan(100, 4)).await;
    assert_eq!((&made.name, made.version), (&bank(), 1));
    assert_eq!(made.lane.max_per_second, 50.into());
    assert_eq!(
        (made.lane.spread, made.lane.pause.clone()),
        (Spread::Even, None)
    );
    assert_eq!(made.closed_until, None);
    assert!(made.effective_at >= before + signed(HORIZON));
    assert_eq!(lane(f).await, made);
}

pub async fn a_change_is_a_new_version_and_what_it_omits_keeps_its_value(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let odd = LaneChange {
        max_per_second: Some("12.5".parse().unwrap()),
        spread: Some(Spread::Jitter),
        pause: Some(Some(Pause::now("ops", "holiday"))),
        ..LaneChange::default()
    };
    let second = f.lane(odd).await;
    assert_eq!(second.version, 2);
    assert_eq!(
        (second.lane.max_per_window, second.lane.window_size_secs),
        (100, 4)
    );
    let third = f
        .lane(LaneChange {
            max_per_window: Some(7),
            ..LaneChange::default()
        })
        .await;
    assert_eq!((third.version, third.lane.max_per_window), (3, 7));
    assert_eq!(third.lane.max_per_second, "12.5".parse().unwrap());
    assert_eq!(
        (third.lane.spread, third.lane.pause.clone()),
        (Spread::Jitter, second.lane.pause)
    );
    assert_eq!(lane(f).await, third);
}

pub async fn lanes_are_listed_by_name_with_the_version_in_force(f: &dyn Fixture) {
    for name in ["b", "a", "b"] {
        let name = LaneName::new(name);
        f.store()
            .change_lane(&name, plan(100, 4), ops())
            .await
            .unwrap();
    }
    let lanes = f.store().lanes().await.unwrap();
    let told: Vec<_> = lanes
        .iter()
        .map(|l| (l.name.to_string(), l.version))
        .collect();
    assert_eq!(told, [("a".into(), 1), ("b".into(), 2)]);
}

pub async fn a_change_that_would_never_send_names_its_field_and_changes_nothing(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let before = (
        lane(f).await,
        f.store().audit(None, 100).await.unwrap().len(),
    );
    let wrong = [
        (plan(0, 4), "maxPerWindow"),
        (plan(100, 0), "windowSizeSecs"),
        (hard_limit(0), "maxPerSecond"),
        (hard_limit(-5), "maxPerSecond"),
    ];
    for (change, field) in wrong {
        let refused = f.store().change_lane(&bank(), change, ops()).await;
        let Err(StoreError::Invalid(why)) = refused else {
            panic!("{field}: {refused:?}")
        };
        assert!(why.contains(field) && why.contains("bank"), "{why}");
    }
    let entries = f.store().audit(None, 100).await.unwrap().len();
    assert_eq!((lane(f).await, entries), before);
    let fresh = LaneName::new("fresh");
    let refused = f.store().change_lane(&fresh, hard_limit(5), ops()).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid(_))),
        "a new lane needs a plan"
    );
    assert_eq!(f.store().lane(&fresh).await.unwrap(), None);
}

pub async fn a_lane_is_a_setting_with_its_author_and_its_audit_entry(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.lane(hard_limit(60)).await;
    let store = f.store();
    let history = store.setting_history(SettingKind::Lane, "bank", 10);
    let history = history.await.unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[0].author, ops());
    let entry = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(entry.actor, "ops");
    assert!(
        entry.detail.contains("bank") && entry.detail.contains("because"),
        "{}",
        entry.detail
    );
}

pub async fn changes_at_once_become_versions_one_after_the_other(f: &dyn Fixture) {
    let changes = (1..=10).map(|n| f.lane(plan(n, 4)));
    let mut versions: Vec<i64> = join_all(changes).await.iter().map(|l| l.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=10).collect::<Vec<i64>>());
    assert_eq!(lane(f).await.version, 10);
}

pub async fn a_change_opens_no_lane_that_its_downstream_closed(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    f.settle(Settlement {
        close_lane: Some((bank(), HOUR)),
        ..settlement(&item, attempt, Outcome::retry("429"))
    })
    .await;
    let changed = f.lane(hard_limit(60)).await;
    assert!(changed.closed_until.is_some(), "and the answer says so");
    assert!(lane(f).await.closed_until.is_some());
}

pub async fn windows_are_told_in_order_from_a_time_on(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 35, hour)).await;
    let told = async |secs: u32, limit| -> Vec<(i64, u32)> {
        let from = hour + signed(secs * SECOND);
        let windows = f.store().windows(&bank(), from, limit).await.unwrap();
        let one = |w: &WindowUse| (w.start.as_second() - hour.as_second(), w.used);
        windows.iter().map(one).collect()
    };
    assert_eq!(told(0, 100).await, [(0, 10), (4, 10), (8, 10), (12, 5)]);
    assert_eq!(told(8, 100).await, [(8, 10), (12, 5)]);
    assert_eq!(told(0, 2).await, [(0, 10), (4, 10)]);
    let elsewhere = f.store().windows(&LaneName::new("nowhere"), hour, 9).await;
    assert_eq!(elsewhere.unwrap(), []);
}

pub async fn a_raised_limit_opens_the_room_that_is_left(f: &dyn Fixture) {
    let with_room = |per_window| LaneChange {
        max_per_second: Some(50.into()),
        ..plan(per_window, 4)
    };
    f.lane(with_room(10)).await;
    let hour = f.next_hour().await;
    f.place(many("a", 25, hour)).await;
    f.lane(with_room(20)).await;
    f.place(many("b", 30, hour)).await;
    let used: Vec<u32> = f.windows().await.iter().map(|w| w.used).collect();
    assert_eq!(
        used,
        [20, 20, 15],
        "10 + 10, 10 + 10, 5 + 10: occupancy counts"
    );
}

pub async fn a_lowered_limit_treats_fuller_windows_as_full(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("a", 18, hour)).await;
    f.lane(plan(5, 4)).await;
    let slot = f.place(vec![new_item_at("b", hour)]).await.remove(0);
    assert_eq!(
        slot.scheduled,
        hour + signed(8 * SECOND),
        "10 and 8 are both full"
    );
    let used: Vec<u32> = f.windows().await.iter().map(|w| w.used).collect();
    assert_eq!(used, [10, 8, 1], "and what was given stays");
}

pub async fn a_changed_window_size_rebuilds_counters_that_agree_with_the_slots(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let hour = f.next_hour().await;
    let items = many("p", 250, hour);
    let slots: Vec<_> = f.place(items.clone()).await;
    for size in [60, 1, 7] {
        f.lane(LaneChange {
            window_size_secs: Some(size),
            ..LaneChange::default()
        })
        .await;
        let mut expected: BTreeMap<i64, u32> = BTreeMap::new();
        for slot in &slots {
            let second = slot.scheduled.as_second();
            *expected
                .entry(second - second % i64::from(size))
                .or_default() += 1;
        }
        let windows = f.windows().await;
        let told: BTreeMap<i64, u32> = windows
            .iter()
            .map(|w| (w.start.as_second(), w.used))
            .collect();
        assert_eq!(told, expected, "windows of {size} s");
    }
    let after = f.admit(items).await;
    let after: Vec<_> = after.iter().map(super::fixture::placed).collect();
    assert_eq!(after, slots, "slots already given do not move");
}

pub async fn new_items_go_by_the_rebuilt_counters(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("a", 250, hour)).await;
    f.lane(plan(100, 60)).await;
    let slot = f.place(vec![new_item_at("b", hour)]).await.remove(0);
    assert_eq!(
        slot.scheduled,
        hour + signed(MINUTE),
        "the first minute holds 250"
    );
}

pub async fn a_changed_window_size_leaves_past_windows_as_they_were(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let now = f.now().await;
    f.place(many("past", 25, now)).await;
    let past = f.windows().await;
    f.advance(HOUR).await;
    let hour = f.next_hour().await;
    f.place(many("next", 25, hour)).await;
    f.lane(plan(10, 1)).await;
    let after = f.windows().await;
    assert_eq!(after[..past.len()], past[..]);
    let used: u32 = after.iter().map(|w| w.used).sum();
    assert_eq!(used, 50, "every slot is counted once");
}

pub async fn a_lane_that_never_sent_has_an_empty_certificate(f: &dyn Fixture) {
    let version = f.lane(plan(100, 4)).await;
    let (from, to) = (Timestamp::UNIX_EPOCH, f.now().await + signed(HOUR));
    let proof = f.store().certificate(&bank(), from, to).await.unwrap();
    assert_eq!((proof.sends, proof.worst_second), (0, None));
    assert_eq!((proof.first_send, proof.last_send), (None, None));
    assert_eq!(proof.limits[0].version, version.version);
    assert_eq!(
        (proof.lane.as_str(), proof.from, proof.to),
        ("bank", from, to)
    );
}

pub async fn the_certificate_equals_a_count_of_what_was_granted(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched_many(60).await;
    let mut sent: Vec<Timestamp> = vec![];
    for (block, pause_ms) in items
        .chunks(6)
        .zip([100, 250, 700, 30, 2000].iter().cycle())
    {
        let block = block.iter().map(send).collect();
        sent.extend(given(&f.turns(block).await).iter().map(|(_, at)| *at));
        f.advance(std::time::Duration::from_millis(*pause_ms)).await;
    }
    assert!(sent.len() > 30, "{} turns", sent.len());
    let (all, middle) = (f.now().await + signed(HOUR), sent[sent.len() / 2]);
    let spans = [
        (Timestamp::UNIX_EPOCH, all),
        (middle, all),
        (Timestamp::UNIX_EPOCH, middle),
        (sent[3], sent[20]),
    ];
    for (from, to) in spans {
        let proof = f.store().certificate(&bank(), from, to).await.unwrap();
        let within: Vec<_> = sent
            .iter()
            .filter(|t| (from..to).contains(*t))
            .copied()
            .collect();
        assert_eq!(proof.sends, within.len() as u64);
        assert_eq!(proof.first_send, within.first().copied());
        assert_eq!(proof.last_send, within.last().copied());
        // A second belongs to the stretch in which it ends.
        let second_to = |t: &Timestamp| {
            let begin = *t - signed(SECOND);
            sent.iter().filter(|u| *u <= t && **u > begin).count()
        };
        let worst = within.iter().map(second_to).max();
        assert_eq!(proof.worst_second.map(|p| p.sends as usize), worst);
        assert!(worst.is_none_or(|worst| worst <= 50));
    }
}

pub async fn the_certificate_names_the_limits_that_were_in_force(f: &dyn Fixture) {
    let mut since = vec![];
    f.lane(plan(100, 4)).await;
    for limit in [20, 30, 40] {
        f.advance(MINUTE).await;
        since.push(f.now().await);
        f.lane(hard_limit(limit)).await;
    }
    f.advance(MINUTE).await;
    let limits = async |from, to| -> Vec<i64> {
        let proof = f.store().certificate(&bank(), from, to).await.unwrap();
        proof.limits.iter().map(|l| l.version).collect()
    };
    let now = f.now().await;
    assert_eq!(limits(Timestamp::UNIX_EPOCH, now).await, [1, 2, 3, 4]);
    assert_eq!(
        limits(since[1], now).await,
        [2, 3, 4],
        "the one set before, too"
    );
    assert_eq!(limits(now, now + signed(HOUR)).await, [4]);
    assert_eq!(limits(since[0], since[2]).await, [1, 2, 3]);
}
