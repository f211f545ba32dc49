//! One schedule: a cron expression, a zone and a calendar, and the times that follow. Pure.

use std::sync::Arc;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::calendar::Calendar;
use tollgate_core::details::Details;

use super::cron::Cron;
use super::request::read_zone;

/// At most this many occurrences are shown before a schedule is saved.
const SHOWN: usize = 5;
/// At most this many are looked at for them: a calendar may move many of them to one opening.
const MOST_LOOKED_AT: usize = 400;

/// A schedule as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleText {
    pub cron: String,
    /// The customer's, if not given.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// What falls into its closed time is charged when it opens.
    #[serde(default)]
    pub calendar: Option<String>,
}

impl Default for ScheduleText {
    /// The first of every month, where the customer is.
    fn default() -> Self {
        Self {
            cron: "0 0 1 * *".to_owned(),
            time_zone: None,
            calendar: None,
        }
    }
}

/// A schedule as it is understood.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: Option<TimeZone>,
    calendar: Option<Arc<Calendar>>,
}

impl Schedule {
    /// `calendar` is the one that the text names, if there is one of that name.
    pub fn read(text: &ScheduleText, calendar: Option<Calendar>) -> Result<Self, Details> {
        let mut wrong = Details::new();
        let mut note = |field: &str, why: String| drop(wrong.insert(field.to_owned(), why));
        let cron = Cron::parse(&text.cron)
            .map_err(|why| note("cron", why))
            .ok();
        let zone = text.time_zone.as_deref().map(read_zone).transpose();
        let zone = zone.map_err(|why| note("timeZone", why)).ok();
        if let (Some(name), None) = (&text.calendar, &calendar) {
            note(
                "calendar",
                format!("there is no calendar {name:?}; PUT /admin/calendars/{name} first"),
            );
        }
        match (cron, zone) {
            (Some(cron), Some(zone)) if wrong.is_empty() => Ok(Self {
                cron,
                zone: zone.map(|(_, zone)| zone),
                calendar: calendar.map(Arc::new),
            }),
            _ => Err(wrong),
        }
    }

    /// The first time after this one at which an invoice is charged; `None` if there is none.
    pub fn after(&self, time: Timestamp, of_customer: &TimeZone) -> Option<Timestamp> {
        let next = self.cron.after(time, self.zone(of_customer))?;
        self.opened(next)
    }

    /// The next few times, in order.
    pub fn next_few(&self, now: Timestamp, of_customer: &TimeZone) -> Vec<Timestamp> {
        let (mut few, mut at) = (vec![], now);
        for _ in 0..MOST_LOOKED_AT {
            let Some(next) = self.cron.after(at, self.zone(of_customer)) else {
                break;
            };
            at = next;
            let Some(opened) = self.opened(next) else {
                break;
            };
            if few.last() != Some(&opened) {
                few.push(opened);
            }
            if few.len() == SHOWN {
                break;
            }
        }
        few
    }

    /// What somebody should think about before this is saved.
    pub fn warning(&self, now: Timestamp, of_customer: &TimeZone) -> Option<String> {
        let rapid = self.cron.is_rapid(now, self.zone(of_customer));
        rapid.then(|| {
            "it fires more than once an hour: its invoices are due almost immediately, and only the lane's limit spreads them".to_owned()
        })
    }

    fn zone<'a>(&'a self, of_customer: &'a TimeZone) -> &'a TimeZone {
        self.zone.as_ref().unwrap_or(of_customer)
    }

    fn opened(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.calendar {
            None => Some(time),
            Some(calendar) => calendar.stretch_from(time).map(|open| open.from.max(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::calendar::CalendarText;

    use super::*;

    fn text(cron: &str) -> ScheduleText {
        ScheduleText {
            cron: cron.into(),
            ..ScheduleText::default()
        }
    }
    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }
    fn shown(times: &[Timestamp]) -> Vec<String> {
        times.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_zone_is_the_one_given_or_else_the_customers() {
        let now = at("2026-11-16T12:00:00Z");
        let honolulu = TimeZone::get("Pacific/Honolulu").unwrap();
        let plain = Schedule::read(&ScheduleText::default(), None).unwrap();
        assert_eq!(
            plain.after(now, &honolulu),
            Some(at("2026-12-01T10:00:00Z"))
        );
        let given = ScheduleText {
            time_zone: Some("Asia/Tokyo".into()),
            ..ScheduleText::default()
        };
        let given = Schedule::read(&given, None).unwrap();
        assert_eq!(
            given.after(now, &honolulu),
            Some(at("2026-11-30T15:00:00Z"))
        );
    }

    #[test]
    fn what_falls_into_closed_time_is_charged_when_it_opens() {
        let weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday"];
        let hours = weekdays.map(|day| (day.to_owned(), vec!["09:00-17:00".to_owned()]));
        let calendar: CalendarText = serde_json::from_value(
            serde_json::json!({"zone": "UTC", "weekly": std::collections::BTreeMap::from(hours)}),
        )
        .unwrap();
        let calendar = Calendar::read(&calendar).unwrap();
        let daily = ScheduleText {
            calendar: Some("office".into()),
            ..text("0 0 * * *")
        };
        let daily = Schedule::read(&daily, Some(calendar)).unwrap();
        // Friday noon: Saturday, Sunday and Monday are one opening.
        let told = daily.next_few(at("2026-11-20T12:00:00Z"), &TimeZone::UTC);
        let expected = [
            "2026-11-23T09:00:00Z",
            "2026-11-24T09:00:00Z",
            "2026-11-25T09:00:00Z",
            "2026-11-26T09:00:00Z",
            "2026-11-27T09:00:00Z",
        ];
        assert_eq!(shown(&told), expected);
    }

    #[test]
    fn every_wrong_part_is_named() {
        let wrong = ScheduleText {
            cron: "0 0 31 2 *".into(),
            time_zone: Some("Mars/Base".into()),
            calendar: Some("nobody".into()),
        };
        let wrong = Schedule::read(&wrong, None).unwrap_err();
        assert!(wrong["cron"].contains("31 February"));
        assert!(wrong["timeZone"].contains("Mars/Base"));
        assert!(wrong["calendar"].contains("nobody"));
    }

    #[test]
    fn what_fires_every_second_is_warned_of_and_bounded() {
        let now = at("2026-11-16T12:00:00Z");
        let every_second = Schedule::read(&text("* * * * * *"), None).unwrap();
        assert!(every_second.warning(now, &TimeZone::UTC).is_some());
        assert_eq!(every_second.next_few(now, &TimeZone::UTC).len(), SHOWN);
        let monthly = Schedule::read(&ScheduleText::default(), None).unwrap();
        assert_eq!(monthly.warning(now, &TimeZone::UTC), None);
    }
}
