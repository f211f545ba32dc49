//! When a cron expression fires: five or six fields, in a zone. Pure. Each local time fires once,
//! whatever the clocks do (`core/src/local_time.rs`).

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use tollgate_core::local_time::instant;
use tollgate_core::{SignedDuration, Timestamp};

/// Long enough for a list in every field.
const MAX_CHARS: usize = 200;
/// At most this many times are passed over: those of an hour that comes twice, second by second,
/// and of a day that does, for there were some.
const MOST_STEPS: usize = 90_000;
/// What fires more often than this is taken for a slip, and said so.
const RAPID: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone)]
pub struct Cron {
    pattern: croner::Cron,
}

impl Cron {
    /// The error fits behind the field's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_CHARS {
            return Err(format!("must have at most {MAX_CHARS} characters"));
        }
        let fields = text.split_whitespace().count();
        if !(5..=6).contains(&fields) {
            return Err(format!(
                "must have 5 fields (minute hour day month weekday), or 6 with the second first, and has {fields}; the first of every month is \"0 0 1 * *\""
            ));
        }
        let pattern = read(text).map_err(|error| match wrong_field(text) {
            Some(why) => why,
            None => format!("cannot be read: {error}"),
        })?;
        let cron = Self { pattern };
        if cron.after(Timestamp::UNIX_EPOCH, &TimeZone::UTC).is_none() {
            return Err("never fires: no month has that day, such as 31 February".to_owned());
        }
        Ok(cron)
    }

    /// The first time after this one; `None` if there is none.
    ///
    /// What the hands of the clock show is searched as if clocks never changed, and only then looked
    /// up in the zone: the library's own search fired twice on a day in Casablanca.
    pub fn after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut shown = time.to_zoned(zone.clone()).datetime();
        for _ in 0..MOST_STEPS {
            let from = shown.to_zoned(TimeZone::UTC).ok()?;
            let next = self.pattern.find_next_occurrence(&from, false).ok()?;
            shown = next.datetime();
            let at = instant(shown, zone)?;
            // In an hour that exists twice, what the first one has fired is over.
            if at > time {
                return Some(at);
            }
        }
        None
    }

    /// Whether it fires more often than anybody means to charge.
    pub fn is_rapid(&self, from: Timestamp, zone: &TimeZone) -> bool {
        let first = self.after(from, zone);
        let second = first.and_then(|first| self.after(first, zone));
        let gap = first.zip(second).map(|(a, b)| b.duration_since(a));
        gap.is_some_and(|gap| gap < RAPID)
    }
}

/// Each field, and what may be in it.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31, or L for the last"),
    ("month", "1 to 12, or JAN to DEC"),
    ("weekday", "0 to 7 (0 and 7 are Sunday), or SUN to SAT"),
];

fn read(text: &str) -> Result<croner::Cron, CronError> {
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build();
    parser.parse(text)
}

/// The first field that cannot be read even when nothing else is asked for.
fn wrong_field(text: &str) -> Option<String> {
    let given: Vec<&str> = text.split_whitespace().collect();
    let names = &FIELDS[FIELDS.len() - given.len()..];
    let alone = |n: usize| {
        let mut fields = vec!["*"; given.len()];
        fields[n] = given[n];
        fields.join(" ")
    };
    let n = (0..given.len()).find(|n| read(&alone(*n)).is_err())?;
    let ((name, may_be), given) = (names[n], given[n]);
    Some(format!(
        "{name}: {given:?} cannot be read; it may be {may_be}, a list (1,15), a range (1-5), a step (*/2) or *"
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(cron: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let (cron, zone) = (Cron::parse(cron).unwrap(), TimeZone::get(zone).unwrap());
        let mut at: Timestamp = from.parse().unwrap();
        let mut next = || {
            at = cron.after(at, &zone).unwrap();
            at.to_zoned(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S%:z")
                .to_string()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn the_first_of_the_month_is_written_with_five_fields_or_as_in_the_source_with_six() {
        let expected = [
            "2026-12-01 00:00:00+01:00",
            "2027-01-01 00:00:00+01:00",
            "2027-02-01 00:00:00+01:00",
            "2027-03-01 00:00:00+01:00",
            "2027-04-01 00:00:00+02:00",
        ];
        for cron in ["0 0 1 * *", "0 0 0 1 * ?", "0 0 1 * ?", "0 0 0 1 * *"] {
            let told = times(cron, "Europe/Copenhagen", "2026-11-16T12:00:00Z", 5);
            assert_eq!(told, expected, "{cron}");
        }
    }

    #[test]
    fn a_local_time_that_does_not_exist_fires_once_right_after_the_gap() {
        let told = times("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 3);
        let expected = [
            "2026-03-08 03:00:00-04:00",
            "2026-03-09 02:30:00-04:00",
            "2026-03-10 02:30:00-04:00",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_local_time_that_exists_twice_fires_once_at_the_first() {
        let told = times("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 3);
        let expected = [
            "2026-11-01 01:30:00-04:00",
            "2026-11-02 01:30:00-05:00",
            "2026-11-03 01:30:00-05:00",
        ];
        assert_eq!(told, expected);
        // In between the two, the first is past and the second does not count.
        let between = times("30 1 * * *", "America/New_York", "2026-11-01T06:00:00Z", 1);
        assert_eq!(between, ["2026-11-02 01:30:00-05:00"]);
    }

    #[test]
    fn the_last_of_the_month_is_each_months_own_and_the_31st_only_where_there_is_one() {
        let last = times("0 0 L * *", "UTC", "2027-12-31T12:00:00Z", 4);
        let expected = [
            "2028-01-31 00:00:00+00:00",
            "2028-02-29 00:00:00+00:00",
            "2028-03-31 00:00:00+00:00",
            "2028-04-30 00:00:00+00:00",
        ];
        assert_eq!(last, expected);
        let the_31st = times("0 0 31 * *", "UTC", "2027-01-31T12:00:00Z", 2);
        assert_eq!(
            the_31st,
            ["2027-03-31 00:00:00+00:00", "2027-05-31 00:00:00+00:00"]
        );
        let leap = times("0 0 29 2 *", "UTC", "2096-12-01T00:00:00Z", 1);
        assert_eq!(leap, ["2104-02-29 00:00:00+00:00"], "2100 is no leap year");
    }

    #[test]
    fn what_is_no_cron_is_refused_with_the_remedy() {
        let long = "0 ".repeat(200);
        let table = [
            ("", "has 0"),
            ("0 0 1 *", "has 4"),
            ("0 0 0 1 * ? 2027", "has 7"),
            ("@monthly", "has 1"),
            ("0 0 31 2 *", "31 February"),
            ("0 0 31 4,6,9,11 *", "no month has that day"),
            (
                "0 0 32 * *",
                "day: \"32\" cannot be read; it may be 1 to 31",
            ),
            ("0 24 1 * *", "hour: \"24\" cannot be read"),
            ("60 0 1 * *", "minute: \"60\""),
            ("60 0 0 1 * *", "second: \"60\""),
            ("0 0 1 13 *", "month: \"13\""),
            ("0 0 1 * MOON", "weekday: \"MOON\""),
            ("a b c d e", "minute: \"a\""),
            (&long, "at most 200"),
        ];
        for (cron, said) in table {
            let why = Cron::parse(cron).unwrap_err();
            assert!(why.contains(said), "{cron}: {why}");
        }
    }

    #[test]
    fn what_fires_every_second_is_noticed() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let table = [
            ("* * * * * *", true),
            ("* * * * *", true),
            ("*/30 * * * *", true),
            ("0 * * * *", false),
            ("0 0 1 * *", false),
        ];
        for (cron, rapid) in table {
            let told = Cron::parse(cron).unwrap().is_rapid(now, &TimeZone::UTC);
            assert_eq!(told, rapid, "{cron}");
        }
    }

    const ZONES: [&str; 8] = [
        "America/New_York",
        "Europe/Copenhagen",
        "America/Sao_Paulo",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Casablanca",
        "America/St_Johns",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Of a year of days each fires once, whatever the clocks do: at the wanted time of day, or
        /// right after a gap.
        #[test]
        fn a_daily_cron_fires_once_a_day_in_every_zone(
            zone in prop::sample::select(&ZONES[..]),
            hour in 0_i8..24, minute in 0_i8..60, start in 1_700_000_000_i64..1_900_000_000,
        ) {
            let cron = Cron::parse(&format!("{minute} {hour} * * *")).unwrap();
            let zone = TimeZone::get(zone).unwrap();
            let mut at = Timestamp::from_second(start).unwrap();
            let mut day = None;
            for _ in 0..400 {
                let next = cron.after(at, &zone).unwrap();
                prop_assert!(next > at);
                let local = next.to_zoned(zone.clone());
                if let Some(day) = day {
                    prop_assert_eq!(local.date(), jiff::civil::Date::tomorrow(day).unwrap());
                }
                let wanted = local.date().at(hour, minute, 0, 0);
                let expected = zone.to_ambiguous_timestamp(wanted);
                match expected.offset() {
                    jiff::tz::AmbiguousOffset::Gap { .. } => {
                        prop_assert!(local.datetime() > wanted);
                        let before = (next - SignedDuration::from_secs(1)).to_zoned(zone.clone());
                        prop_assert!(before.datetime() < wanted, "right after the gap: {local}");
                    }
                    _ => prop_assert_eq!(next, expected.earlier().unwrap()),
                }
                (at, day) = (next, Some(local.date()));
            }
        }
    }
}
