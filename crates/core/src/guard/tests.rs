//! Guards, one table after another: days, duplicates, totals.

use super::*;
use crate::id::{FlowId, ItemId, LaneName};
use crate::money::{Currency, Money};
use crate::ports::NewRecord;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn guard(rule: &str, limit: Limit) -> Guard {
    Guard {
        rule: rule.into(),
        message: "no".into(),
        limit,
        uncounted: vec!["CANCELLED".into()],
    }
}

fn daily(most_minor: i64) -> Limit {
    Limit::DailyTotal {
        zone: "UTC".into(),
        most_minor,
    }
}

fn item(owner: &str, minor: i64, guards: Vec<Guard>) -> NewItem {
    let currency = Currency::from_code("EUR").unwrap();
    let record = NewRecord::new(owner, "SCHEDULED", Money { minor, currency }, "h".into());
    let (id, lane, flow) = (ItemId::new("p"), LaneName::new("bank"), FlowId::new("init"));
    NewItem {
        guards,
        ..NewItem::new(id, lane, record, "{}", flow)
    }
}

/// Takes in what may be, and says what may not.
fn judge(items: &[NewItem]) -> Vec<Option<&str>> {
    let mut tally = Tally::new(items, at("2026-11-16T12:00:00Z"));
    let judged = items.iter().map(|item| {
        let refusal = tally.refusal(item).map(|guard| guard.rule.as_str());
        if refusal.is_none() {
            tally.count(item);
        }
        refusal
    });
    judged.collect()
}

#[test]
fn a_total_is_reached_exactly_and_each_owner_has_his_own() {
    let of = |owner, minor| item(owner, minor, vec![guard("daily", daily(100))]);
    let items = [
        of("a", 60),
        of("b", 90),
        of("a", 41),
        of("a", 40),
        of("a", 1),
    ];
    let expected = [None, None, Some("daily"), None, Some("daily")];
    assert_eq!(judge(&items), expected);
}

#[test]
fn two_rules_about_one_day_count_the_money_once() {
    let both = || vec![guard("low", daily(100)), guard("high", daily(150))];
    let items = [
        item("a", 60, both()),
        item("a", 40, both()),
        item("a", 1, both()),
    ];
    assert_eq!(judge(&items), [None, None, Some("low")]);
}

#[test]
fn more_than_all_the_money_there_is_is_too_much() {
    let of = |minor| item("a", minor, vec![guard("daily", daily(i64::MAX))]);
    assert_eq!(judge(&[of(i64::MAX), of(1)]), [None, Some("daily")]);
}

#[test]
fn a_duplicate_is_one_only_within_its_time() {
    let now = at("2026-11-16T12:00:00Z");
    let key = "k".to_owned();
    let within = |within_secs| {
        let key = key.clone();
        item(
            "a",
            1,
            vec![guard("twin", Limit::NoDuplicate { key, within_secs })],
        )
    };
    let table = [
        ("2026-11-16T11:59:00Z", 60, false),
        ("2026-11-16T11:59:00.000001Z", 60, true),
        ("2026-11-16T11:00:00Z", 60, false),
        ("2026-11-16T13:00:00Z", 60, true), // The clock was set back.
    ];
    for (last, within_secs, is_duplicate) in table {
        let item = within(within_secs);
        let mut tally = Tally::new([&item], now);
        assert!(tally.refusal(&item).is_none(), "nothing is counted yet");
        for (_, answer) in tally.duplicates_mut() {
            *answer = Some(at(last));
        }
        assert_eq!(tally.refusal(&item).is_some(), is_duplicate, "{last}");
    }
}

#[test]
fn every_day_begins_with_a_quarter() {
    let zones = [
        "UTC",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "Pacific/Chatham",
        "Asia/Kolkata",
    ];
    for zone in zones {
        for day in 0..400 {
            let now = at("2026-01-01T12:34:56.789Z") + SignedDuration::from_hours(24 * day);
            let (from, to) = day_of(zone, now);
            assert_eq!(
                (quarter_of(from), quarter_of(to)),
                (from, to),
                "{zone} {now}"
            );
            assert!(quarter_of(now) <= now && now < quarter_of(now) + QUARTER);
        }
    }
}

#[test]
fn a_day_has_the_hours_that_its_zone_gives_it() {
    let table = [
        ("UTC", "2026-11-16T00:00:00Z", "2026-11-16T00:00:00Z", 24),
        (
            "Asia/Kolkata",
            "2026-11-16T18:29:59Z",
            "2026-11-15T18:30:00Z",
            24,
        ),
        (
            "Asia/Kolkata",
            "2026-11-16T18:30:00Z",
            "2026-11-16T18:30:00Z",
            24,
        ),
        (
            "Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-03-28T23:00:00Z",
            23,
        ),
        (
            "Europe/Berlin",
            "2026-10-25T12:00:00Z",
            "2026-10-24T22:00:00Z",
            25,
        ),
    ];
    for (zone, now, from, hours) in table {
        let (begins, ends) = day_of(zone, at(now));
        assert_eq!(begins, at(from), "{zone} {now}");
        assert_eq!(
            ends.duration_since(begins).as_hours(),
            hours,
            "{zone} {now}"
        );
    }
}
