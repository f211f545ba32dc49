//! The first of the month at midnight, in thirty time zones.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::json;
use tollgate_core::id::LaneName;
use tollgate_core::{SignedDuration, Timestamp};

use crate::scene::{AwaitNow, BOTH, Plan, Town};

const ZONES: [&str; 30] = [
    "Pacific/Kiritimati",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Asia/Tokyo",
    "Asia/Shanghai",
    "Asia/Yangon",
    "Asia/Dhaka",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Karachi",
    "Asia/Kabul",
    "Asia/Dubai",
    "Asia/Tehran",
    "Africa/Nairobi",
    "Europe/Athens",
    "Europe/Copenhagen",
    "Europe/London",
    "Atlantic/Azores",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Halifax",
    "America/New_York",
    "America/Denver",
    "America/Los_Angeles",
    "Pacific/Honolulu",
    "Pacific/Niue",
];
/// Each move of the clock makes the gate wait a second: so many midnights are passed with one.
const AT_ONCE: usize = 4;
/// Of each customer.
const INVOICES: usize = 2;

#[test]
fn invoices_of_thirty_time_zones_are_charged_once_each_under_the_limit_and_none_early() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        let mut wanted: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
        for (n, zone) in ZONES.into_iter().enumerate() {
            let customer = format!("c_{n}");
            town.node
                .customer(&json!({"customerId": customer, "currency": "EUR", "timeZone": zone}));
            for copy in 0..INVOICES {
                let id = format!("inv_{n}_{copy}");
                let body = json!({"invoiceId": id, "customerId": customer, "amount": {"value": "9.99", "currency": "EUR"}});
                let taken = town.node.create(&body);
                let midnight = next_first(town.node.now(), zone);
                let slot = taken.placed.as_ref().unwrap().scheduled;
                let late = slot.duration_since(midnight);
                assert!(
                    slot >= midnight && late < SignedDuration::from_secs(5),
                    "{zone}: {slot}"
                );
                wanted.entry(midnight).or_default().push(id);
            }
        }
        assert!(wanted.len() > 20, "many midnights: {}", wanted.len());

        let midnights: Vec<_> = wanted.into_iter().collect();
        for some in midnights.chunks(AT_ONCE) {
            assert!(town.node.execute_all().is_empty(), "none early");
            // All slots of one midnight lie in its first window.
            let (last, _) = some.last().unwrap();
            town.advance_to(*last + SignedDuration::from_secs(5));
            let due: usize = some.iter().map(|(_, ids)| ids.len()).sum();
            assert_eq!(town.node.execute_all().len(), due, "by {last}, and no more");
            for (midnight, id) in some
                .iter()
                .flat_map(|(at, ids)| ids.iter().map(move |id| (at, id)))
            {
                let view = town.node.view(id);
                let seen = (view.status.as_str(), town.charged(id));
                assert_eq!(seen, ("PAID", 1), "{id}");
                let early = view
                    .attempts
                    .iter()
                    .any(|attempt| attempt.turn_at < *midnight);
                assert!(!early, "{id} before {midnight}");
            }
        }
        assert!(town.bank.ledger().doubles().is_empty(), "MONEY: paid twice");
        let (from, to) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let lane = LaneName::new("invoices");
        let proof = town
            .node
            .store
            .certificate(&lane, from, to)
            .await_now()
            .unwrap();
        assert!(proof.holds, "{proof:?}");
        assert_eq!(proof.sends, (ZONES.len() * INVOICES) as u64);
    }
}

/// By another way than the code's own: day by day.
fn next_first(now: Timestamp, zone: &str) -> Timestamp {
    let zone = TimeZone::get(zone).unwrap();
    let mut day = now.to_zoned(zone.clone()).date();
    loop {
        day = day.tomorrow().unwrap();
        if day.day() == 1 {
            return day.to_zoned(zone).unwrap().timestamp();
        }
    }
}
