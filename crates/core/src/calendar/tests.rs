//! Calendars as people write them, across changes of the clocks.

use jiff::civil::date;
use proptest::prelude::*;

use super::*;

fn text(zone: &str, hours: &[&str]) -> CalendarText {
    let hours: Vec<String> = hours.iter().map(|&h| h.to_owned()).collect();
    CalendarText {
        zone: zone.into(),
        weekly: Some(
            DAYS.iter()
                .map(|&d| (d.to_owned(), hours.clone()))
                .collect(),
        ),
        ..CalendarText::default()
    }
}
fn calendar(zone: &str, hours: &[&str]) -> Calendar {
    Calendar::read(&text(zone, hours)).unwrap()
}
fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
/// The openings between two times.
fn openings(calendar: &Calendar, from: Timestamp, to: Timestamp) -> Vec<Stretch> {
    let (mut found, mut at) = (vec![], from);
    while let Some(open) = calendar.stretch_from(at).filter(|open| open.from < to) {
        at = open.to;
        found.push(open);
    }
    found
}

#[test]
fn hours_holidays_and_blackouts_close_a_lane() {
    let mut week = text("Europe/Berlin", &["09:00-12:00", "13:00-17:00"]);
    week.weekly.as_mut().unwrap().remove("sunday");
    week.holidays
        .insert("2026-12-25".into(), "Christmas".into());
    week.blackouts = vec![Blackout {
        from: at("2026-12-24T09:00:00Z"),
        to: at("2026-12-24T10:00:00Z"),
        reason: "maintenance".into(),
    }];
    let calendar = Calendar::read(&week).unwrap();
    let found = openings(
        &calendar,
        at("2026-12-24T00:00:00Z"),
        at("2026-12-28T09:00:00Z"),
    );
    let found: Vec<_> = found
        .iter()
        .map(|s| format!("{}/{}", s.from, s.to))
        .collect();
    assert_eq!(
        found,
        [
            "2026-12-24T08:00:00Z/2026-12-24T09:00:00Z",
            "2026-12-24T10:00:00Z/2026-12-24T11:00:00Z",
            "2026-12-24T12:00:00Z/2026-12-24T16:00:00Z",
            "2026-12-26T08:00:00Z/2026-12-26T11:00:00Z",
            "2026-12-26T12:00:00Z/2026-12-26T16:00:00Z",
            "2026-12-28T08:00:00Z/2026-12-28T11:00:00Z",
        ]
    );
}

#[test]
fn nights_that_follow_each_other_are_one_stretch() {
    let calendar = calendar("America/Phoenix", &["00:00-06:00", "22:00-24:00"]);
    let found = openings(
        &calendar,
        at("2026-11-16T12:00:00Z"),
        at("2026-11-17T12:00:00Z"),
    );
    assert_eq!(found.len(), 2, "{found:?}");
    let night = found[1].to.duration_since(found[1].from);
    assert_eq!(night, SignedDuration::from_hours(8));
}

#[test]
fn what_people_get_wrong_is_told_by_field() {
    let wrong = |text: &CalendarText| Calendar::read(text).unwrap_err();
    let mut bad = text("Mars/Olympus", &["09:00-17:00"]);
    let week = bad.weekly.as_mut().unwrap();
    week.insert("monday".into(), vec!["17:00-09:00".into()]);
    week.insert(
        "tuesday".into(),
        vec!["09:00-12:00".into(), "11:00-13:00".into()],
    );
    week.insert("wednesday".into(), vec!["nine to five".into()]);
    week.insert("someday".into(), vec![]);
    bad.holidays.insert("2026-02-30".into(), String::new());
    bad.blackouts = vec![Blackout {
        from: at("2026-12-24T10:00:00Z"),
        to: at("2026-12-24T09:00:00Z"),
        reason: String::new(),
    }];
    insta_like(
        &wrong(&bad),
        &[
            ("blackouts[0]", "ends before it begins"),
            ("holidays.2026-02-30", "must be a date"),
            ("weekly.monday[0]", "split hours across midnight"),
            ("weekly.someday", "must be one of monday"),
            ("weekly.tuesday", "hours overlap: 09:00-12:00, 11:00-13:00"),
            ("weekly.wednesday[0]", "must be hours such as"),
            ("zone", "\"Mars/Olympus\": must be an IANA time zone"),
        ],
    );
    insta_like(&wrong(&text("UTC", &[])), &[("weekly", "never opens")]);
}

fn insta_like(wrong: &Details, expected: &[(&str, &str)]) {
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    for ((field, message), (wanted, part)) in wrong.iter().zip(expected) {
        assert_eq!(field, wanted);
        assert!(message.contains(part), "{field}: {message}");
    }
}

#[test]
fn a_holiday_file_tells_its_bad_lines_by_number() {
    let good = "# New York\n2026-12-25 Christmas Day\n\n2027-01-01;New Year # again\n";
    let holidays = read_holidays(good).unwrap();
    assert_eq!(holidays["2027-01-01"], "New Year");
    let bad = "2026-12-25 a\n25.12.2026 b\n2026-12-25 c\nsoon";
    let wrong = read_holidays(bad).unwrap_err();
    assert_eq!(
        wrong.keys().collect::<Vec<_>>(),
        ["line 2", "line 3", "line 4"]
    );
}

/// One change of a zone's clocks.
struct Change {
    at: Timestamp,
    before: jiff::tz::Offset,
    after: jiff::tz::Offset,
}

fn changes(zone: &TimeZone) -> Vec<Change> {
    let (from, to) = (at("1970-01-01T00:00:00Z"), at("2040-01-01T00:00:00Z"));
    let changes = zone
        .following(from)
        .take_while(|change| change.timestamp() < to);
    changes
        .map(|change| Change {
            at: change.timestamp(),
            before: zone.to_offset(change.timestamp() - SignedDuration::from_secs(1)),
            after: change.offset(),
        })
        .filter(|change| change.before != change.after)
        .collect()
}

/// Every change of the clocks of every zone, 1970 to 2040: hours that begin where the clocks
/// jump open once, right after the gap or at the first of two.
#[test]
fn each_opening_happens_once_through_every_change_of_the_clocks() {
    let mut checked = 0;
    for name in jiff::tz::db().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        for change in changes(&zone) {
            let edges = [change.before, change.after].map(|o| o.to_datetime(change.at));
            let (low, high) = (edges[0].min(edges[1]), edges[0].max(edges[1]));
            let middle = low + low.duration_until(high) / 2;
            for local in [low, middle] {
                check_opening(&zone, &change, local);
                checked += 1;
            }
        }
    }
    assert!(checked > 20_000, "only {checked} openings were looked at");
}

fn check_opening(zone: &TimeZone, change: &Change, local: DateTime) {
    let day = local.date();
    let three = SignedDuration::from_hours(3);
    let end = local.time().checked_add(three).ok();
    let hours = Hours {
        from: local.time(),
        to: end,
    };
    let calendar = Calendar {
        zone: zone.clone(),
        weekly: std::array::from_fn(|_| vec![hours]),
        holidays: BTreeSet::new(),
        blackouts: vec![],
    };
    let is_gap = change.after > change.before;
    let expected = if is_gap {
        change.at
    } else {
        change.before.to_timestamp(local).unwrap()
    };
    let around = SignedDuration::from_hours(30);
    let found = openings(&calendar, change.at - around, change.at + around);
    assert!(
        found.is_sorted_by(|a, b| a.to <= b.from),
        "{zone:?} {local}: openings overlap: {found:?}"
    );
    let opened: Vec<_> = found
        .iter()
        .filter(|s| calendar.openings(day).any(|own| own.from == s.from))
        .collect();
    // Hours that lie in the gap as a whole do not open on that day.
    let end = end.map_or(day.tomorrow().unwrap().into(), |end| day.to_datetime(end));
    let swallowed = is_gap && end <= change.after.to_datetime(change.at);
    assert_eq!(
        opened.len(),
        usize::from(!swallowed),
        "{zone:?} {local}: {found:?}"
    );
    if let [open] = opened[..] {
        assert_eq!(open.from, expected, "{zone:?} {local}");
    }
}

proptest! {
    /// What is open by the calendar is open by the clock on the wall, minute by minute.
    #[test]
    fn open_time_agrees_with_the_wall_clock(
        start in 0_i64..2_000_000, from in 0_i8..23, length in 1_i8..10, zone in 0_usize..4,
    ) {
        let zone = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"][zone];
        let to = (from + length).min(24);
        let calendar = calendar(zone, &[&format!("{from:02}:00-{to:02}:00")]);
        let time = Timestamp::from_second(start * 600).unwrap();
        let local = time.to_zoned(TimeZone::get(zone).unwrap());
        let is_open = calendar.stretch_from(time).is_some_and(|open| open.from <= time);
        let clocks_changed = [-86_400, 86_400].iter().any(|d| {
            let other = Timestamp::from_second(start * 600 + d).unwrap();
            TimeZone::get(zone).unwrap().to_offset(other) != local.offset()
        });
        prop_assume!(!clocks_changed);
        prop_assert_eq!(is_open, (from..to).contains(&local.hour()));
    }
}

#[test]
fn dates_that_were_skipped_do_not_open() {
    let calendar = calendar("Pacific/Apia", &["09:00-17:00"]);
    assert_eq!(calendar.openings(date(2011, 12, 30)).count(), 0);
    assert_eq!(calendar.openings(date(2011, 12, 31)).count(), 1);
}
