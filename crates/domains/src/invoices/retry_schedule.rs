//! The retry schedule: when a declined charge is asked for again, and when it is enough. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;

/// A schedule has at most this many pauses, each at most this long.
const MOST_RETRIES: usize = 20;
const LONGEST_PAUSE: Duration = Duration::from_hours(24 * 366);

/// How long after each decline the next charge follows: `["1d", "3d", "7d"]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RetrySchedule {
    texts: Vec<String>,
    pauses: Vec<Duration>,
}

impl TryFrom<Vec<String>> for RetrySchedule {
    type Error = String;

    /// The error fits behind the field's name.
    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        if texts.len() > MOST_RETRIES {
            return Err(format!("must have at most {MOST_RETRIES} entries"));
        }
        let pauses = texts
            .iter()
            .map(|text| parse_pause(text))
            .collect::<Result<_, _>>()?;
        Ok(Self { texts, pauses })
    }
}

impl From<RetrySchedule> for Vec<String> {
    fn from(schedule: RetrySchedule) -> Self {
        schedule.texts
    }
}

/// `90s`, `30m`, `12h` or `3d`.
pub(super) fn parse_pause(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a time from one second to a year, such as \"30m\", \"12h\" or \"3d\""
        )
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let secs = digits.parse::<u64>().ok().filter(|_| is_plain);
    let pause = secs
        .and_then(|count| count.checked_mul(unit))
        .map(Duration::from_secs);
    pause
        .filter(|pause| !pause.is_zero() && *pause <= LONGEST_PAUSE)
        .ok_or_else(wrong)
}

/// What is to be done with an invoice after its declines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Retry {
    /// Charge it, as this charge of its life: part of the idempotency key.
    Charge { number: u32, then: Option<Duration> },
    /// It comes too early.
    Wait(Duration),
    /// It was declined often enough.
    Exhausted,
}

impl RetrySchedule {
    /// From the first charge to the last.
    pub fn length(&self) -> Duration {
        self.pauses.iter().sum()
    }

    /// `declined`: when each of its charges was declined, oldest first. `wanted`: from when on a
    /// person, or its schedule, wanted it charged; a person who wants it after a decline is heard.
    pub(super) fn retry(&self, declined: &[Timestamp], wanted: Timestamp, now: Timestamp) -> Retry {
        let number = u32::try_from(declined.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let charge = Retry::Charge {
            number,
            then: self.pauses.get(declined.len()).copied(),
        };
        let Some(last) = declined.last().filter(|last| wanted <= **last) else {
            return charge;
        };
        let Some(pause) = self.pauses.get(declined.len() - 1) else {
            return Retry::Exhausted;
        };
        match Duration::try_from((*last + *pause).duration_since(now)) {
            Ok(left) if !left.is_zero() => Retry::Wait(left),
            _ => charge,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn schedule(texts: &[&str]) -> Result<RetrySchedule, String> {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        RetrySchedule::try_from(texts)
    }
    fn at(day: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(day * DAY)
    }

    #[test]
    fn each_retry_is_one_more_charge_and_after_the_last_it_is_enough() {
        let schedule = schedule(&["1d", "3d"]).unwrap();
        let days = |days: u64| Some(Duration::from_secs(days * DAY));
        let charge = |number, then| Retry::Charge { number, then };
        let wait = |days: u64| Retry::Wait(Duration::from_secs(days * DAY));
        // When it was declined, when it was wanted, now.
        let table: [(&[u64], u64, u64, Retry); 8] = [
            (&[], 0, 0, charge(1, days(1))),
            (&[10], 0, 10, wait(1)),
            (&[10], 0, 11, charge(2, days(3))),
            (&[10, 11], 0, 12, wait(2)),
            (&[10, 11], 0, 14, charge(3, None)),
            (&[10, 11, 14], 0, 99, Retry::Exhausted),
            // A person did not want to wait, and another did not want to give up.
            (&[10], 11, 10, charge(2, days(3))),
            (&[10, 11, 14], 15, 15, charge(4, None)),
        ];
        for (declined, wanted, now, expected) in table {
            let declined: Vec<_> = declined.iter().map(|day| at(*day)).collect();
            let told = schedule.retry(&declined, at(wanted), at(now));
            assert_eq!(told, expected, "{declined:?} {wanted} {now}");
        }
        let none = RetrySchedule::default();
        assert_eq!(none.retry(&[], at(0), at(0)), charge(1, None));
        assert_eq!(none.retry(&[at(1)], at(0), at(2)), Retry::Exhausted);
    }

    #[test]
    fn a_pause_that_is_none_is_refused() {
        let bad = [
            "",
            "d",
            "1",
            "0d",
            "-1d",
            "+1d",
            "1.5h",
            "1w",
            "367d",
            "1 d",
            "99999999999999999999d",
        ];
        for text in bad {
            assert!(schedule(&[text]).is_err(), "{text}");
        }
        assert_eq!(parse_pause("90s"), Ok(Duration::from_secs(90)));
        assert!(schedule(&["1d"; 21]).unwrap_err().contains("20 entries"));
        let round_trip = serde_json::to_string(&schedule(&["1d", "12h"]).unwrap()).unwrap();
        assert_eq!(round_trip, r#"["1d","12h"]"#);
    }
}
