//! Calendars: when a lane may send. Weekly hours, holidays and blackouts, in one time zone. Across
//! a change of the clocks every opening happens once (`local_time.rs`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::details::{Details, one};
use crate::id::CalendarName;
use crate::open_time::Stretch;
use crate::{SignedDuration, Timestamp, local_time};

pub const MOST_HOLIDAYS: usize = 10_000;
pub const MOST_BLACKOUTS: usize = 1_000;
pub const LONGEST_BLACKOUT: SignedDuration = SignedDuration::from_hours(24 * 366);

/// A calendar that has not opened after this many days never will: longer than all its holidays
/// and blackouts could ever last.
const SEARCH_DAYS: usize = 400_000;

/// A calendar as people write it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CalendarText {
    /// An IANA zone such as `Europe/Berlin`.
    pub zone: String,
    /// `{"monday": ["09:00-12:00", "13:00-17:30"]}`; a day that is not named is closed, and
    /// without any of it every day is open all day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<BTreeMap<String, Vec<String>>>,
    /// Closed days, by date, with their names: those are only shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holidays: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
}

/// Closed from one moment to another, whatever the hours say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blackout {
    pub from: Timestamp,
    pub to: Timestamp,
    #[serde(default)]
    pub reason: String,
}

pub fn no_such_calendar(name: &CalendarName) -> String {
    format!("calendar: there is no calendar \"{name}\"; create it first")
}

/// A calendar that opens again, however far one looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    zone: TimeZone,
    /// By days from Monday, in order and apart from each other.
    weekly: [Vec<Hours>; 7],
    holidays: BTreeSet<Date>,
    /// In order and apart from each other.
    blackouts: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hours {
    from: Time,
    /// `None` is the end of the day.
    to: Option<Time>,
}

impl Calendar {
    pub fn read(text: &CalendarText) -> Result<Self, Details> {
        let mut wrong = Details::new();
        let zone = TimeZone::get(&text.zone).unwrap_or_else(|_| {
            let example = "must be an IANA time zone such as \"Europe/Berlin\"";
            wrong.insert("zone".into(), format!("\"{}\": {example}", text.zone));
            TimeZone::UTC
        });
        let weekly = read_weekly(text.weekly.as_ref(), &mut wrong);
        let mut holidays = BTreeSet::new();
        if text.holidays.len() > MOST_HOLIDAYS {
            wrong.insert("holidays".into(), format!("more than {MOST_HOLIDAYS}"));
        }
        for date in text.holidays.keys() {
            match date.parse::<Date>() {
                Ok(date) => {
                    holidays.insert(date);
                }
                Err(_) => drop(wrong.insert(
                    format!("holidays.{date}"),
                    "must be a date such as \"2026-12-25\"".into(),
                )),
            }
        }
        let blackouts = read_blackouts(&text.blackouts, &mut wrong);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Self {
            zone,
            weekly,
            holidays,
            blackouts,
        })
    }

    /// Refused if it does not open within a year: then someone meant something else.
    pub fn opening_soon(self, now: Timestamp) -> Result<Self, Details> {
        let opens = self.stretch_from(now).map(|open| open.from);
        if opens.is_some_and(|opens| opens.duration_since(now) < LONGEST_BLACKOUT) {
            return Ok(self);
        }
        let never = "does not open within a year; pause the lane instead";
        Err(one("calendar", never))
    }

    /// The first stretch of open time that ends after `from`; where it began does not matter and
    /// may lie before. `None` if the calendar does not open again.
    pub fn stretch_from(&self, from: Timestamp) -> Option<Stretch> {
        // A day earlier, since zones have skipped and repeated whole days.
        let first = from.to_zoned(self.zone.clone()).date();
        let first = first.yesterday().unwrap_or(first);
        let mut found: Option<Stretch> = None;
        for date in first.series(jiff::Span::new().days(1)).take(SEARCH_DAYS) {
            for piece in self.openings(date).filter(|piece| piece.to > from) {
                match &mut found {
                    None => found = Some(piece),
                    Some(open) if open.to == piece.from => open.to = piece.to,
                    Some(open) => return Some(*open),
                }
            }
            // Open without a break: that far is far enough.
            if let Some(open) = found
                && open.to.duration_since(from) > SignedDuration::from_hours(48)
            {
                return found;
            }
        }
        found
    }

    /// The open pieces of one local day, in order.
    fn openings(&self, date: Date) -> impl Iterator<Item = Stretch> + '_ {
        let hours: &[Hours] = if self.holidays.contains(&date) {
            &[]
        } else {
            &self.weekly[days_from_monday(date.weekday())]
        };
        hours.iter().flat_map(move |hours| {
            let from = self.instant(date.to_datetime(hours.from));
            let to = match hours.to {
                Some(to) => self.instant(date.to_datetime(to)),
                None => date.tomorrow().map_or(Timestamp::MAX, |next| {
                    self.instant(next.to_datetime(Time::midnight()))
                }),
            };
            self.without_blackouts(Stretch { from, to })
        })
    }

    fn without_blackouts(&self, open: Stretch) -> impl Iterator<Item = Stretch> + use<> {
        let mut pieces = vec![];
        let mut from = open.from;
        for black in &self.blackouts {
            if black.to <= from || black.from >= open.to {
                continue;
            }
            pieces.push(Stretch {
                from,
                to: black.from,
            });
            from = black.to;
        }
        pieces.push(Stretch { from, to: open.to });
        pieces.into_iter().filter(|piece| piece.from < piece.to)
    }

    fn instant(&self, local: DateTime) -> Timestamp {
        local_time::instant(local, &self.zone).unwrap_or(Timestamp::MAX)
    }
}

fn days_from_monday(day: Weekday) -> usize {
    usize::from(day.to_monday_zero_offset().unsigned_abs())
}

const DAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

fn read_weekly(
    weekly: Option<&BTreeMap<String, Vec<String>>>,
    wrong: &mut Details,
) -> [Vec<Hours>; 7] {
    let all_day = Hours {
        from: Time::midnight(),
        to: None,
    };
    let Some(weekly) = weekly else {
        return std::array::from_fn(|_| vec![all_day]);
    };
    let mut days: [Vec<Hours>; 7] = Default::default();
    for (name, texts) in weekly {
        match DAYS.iter().position(|day| *day == name.to_lowercase()) {
            Some(day) => days[day] = read_day(name, texts, wrong),
            None => drop(wrong.insert(
                format!("weekly.{name}"),
                format!("must be one of {}", DAYS.join(", ")),
            )),
        }
    }
    if wrong.is_empty() && days.iter().all(Vec::is_empty) {
        wrong.insert(
            "weekly".into(),
            "never opens; pause the lane instead".into(),
        );
    }
    days
}

fn read_day(name: &str, texts: &[String], wrong: &mut Details) -> Vec<Hours> {
    let mut hours: Vec<Hours> = vec![];
    for (n, text) in texts.iter().enumerate() {
        match read_hours(text) {
            Ok(read) => hours.push(read),
            Err(why) => drop(wrong.insert(format!("weekly.{name}[{n}]"), why)),
        }
    }
    hours.sort_by_key(|hours| hours.from);
    let overlap = hours
        .windows(2)
        .any(|pair| pair[0].to.is_none_or(|to| to > pair[1].from));
    if overlap {
        let hours = texts.join(", ");
        wrong.insert(
            format!("weekly.{name}"),
            format!("hours overlap: {hours}; join them"),
        );
    }
    hours
}

fn read_hours(text: &str) -> Result<Hours, String> {
    let wrong = || format!("\"{text}\" must be hours such as \"09:00-17:30\", at most \"24:00\"");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let time = |part: &str| part.trim().parse::<Time>().map_err(|_| wrong());
    let from = time(from)?;
    let to = match to.trim() {
        "24:00" => None,
        to => Some(time(to)?),
    };
    if to.is_some_and(|to| to <= from) {
        return Err(format!(
            "\"{text}\" ends before it begins; split hours across midnight between the two days"
        ));
    }
    Ok(Hours { from, to })
}

fn read_blackouts(texts: &[Blackout], wrong: &mut Details) -> Vec<Stretch> {
    if texts.len() > MOST_BLACKOUTS {
        wrong.insert("blackouts".into(), format!("more than {MOST_BLACKOUTS}"));
    }
    for (n, black) in texts.iter().enumerate() {
        let why = if black.to <= black.from {
            "ends before it begins"
        } else if black.to.duration_since(black.from) > LONGEST_BLACKOUT {
            "lasts longer than a year; pause the lane instead"
        } else {
            continue;
        };
        wrong.insert(format!("blackouts[{n}]"), why.into());
    }
    let mut sorted: Vec<Stretch> = texts
        .iter()
        .map(|b| Stretch {
            from: b.from,
            to: b.to,
        })
        .collect();
    sorted.sort_by_key(|black| black.from);
    let mut apart: Vec<Stretch> = vec![];
    for black in sorted {
        match apart.last_mut() {
            Some(last) if black.from <= last.to => last.to = last.to.max(black.to),
            _ => apart.push(black),
        }
    }
    apart
}

/// Holidays as a file: a date and its name per line, `#` begins a comment. Every bad line is told
/// with its number.
pub fn read_holidays(text: &str) -> Result<BTreeMap<String, String>, Details> {
    let (mut holidays, mut wrong) = (BTreeMap::new(), Details::new());
    for (n, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let (date, name) = line.split_once([' ', '\t', ',', ';']).unwrap_or((line, ""));
        match date.parse::<Date>() {
            Ok(date) => {
                let before = holidays.insert(date.to_string(), name.trim().to_owned());
                if before.is_some() {
                    wrong.insert(format!("line {n}"), format!("{date} appears twice"));
                }
            }
            Err(_) => drop(wrong.insert(
                format!("line {n}"),
                format!("\"{date}\" must be a date such as \"2026-12-25\""),
            )),
        }
    }
    if wrong.is_empty() {
        Ok(holidays)
    } else {
        Err(wrong)
    }
}

#[cfg(test)]
mod tests;
