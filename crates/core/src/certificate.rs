//! The rate certificate: what a lane sent in a stretch of time, its worst second and window, and
//! the limits that were in force. Made from the send log in one pass, in little memory.

use std::collections::VecDeque;
use std::fmt;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::lane::Lane;
use crate::ports::Author;
use crate::{SignedDuration, Timestamp};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The proof for one lane and one stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    pub lane: String,
    pub from: Timestamp,
    pub to: Timestamp,
    /// When it was drawn up, if its stretch of time was not over then.
    pub as_of: Option<Timestamp>,
    /// No sliding second held more sends than its limit.
    pub holds: bool,
    pub sends: u64,
    pub first_send: Option<Timestamp>,
    pub last_send: Option<Timestamp>,
    pub worst_second: Option<Peak>,
    pub worst_window: Option<Peak>,
    /// Sends whose own second, the one that they end, was above its limit.
    pub sends_above_limit: u64,
    /// What was sent, of what the limits allowed between the first and the last send.
    pub utilisation: Option<f64>,
    /// The versions that applied, oldest first.
    pub limits: Vec<LimitInForce>,
    /// For the picture: minutes in which something was sent, seconds where the stretch is short.
    pub parts: Vec<Part>,
}

/// A stretch no longer than this is pictured second by second.
const SHORT: SignedDuration = SignedDuration::from_mins(10);

impl Certificate {
    /// Drawn up from a send log that was read no earlier than `now`.
    #[must_use]
    pub fn drawn_up_at(mut self, now: Timestamp) -> Self {
        self.as_of = (now < self.to).then_some(now);
        self
    }

    /// How long a part of the picture is.
    pub fn part(&self) -> SignedDuration {
        if self.to.duration_since(self.from) <= SHORT {
            SECOND
        } else {
            SignedDuration::from_mins(1)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    pub sends: u32,
    /// The first send of that second, or the start of that window.
    pub from: Timestamp,
    /// The highest hard limit in force in that second, or the plan of that window.
    pub limit: Decimal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitInForce {
    pub version: i64,
    pub since: Timestamp,
    pub max_per_second: Decimal,
    pub max_per_window: u32,
    pub window_size_secs: u32,
    pub actor: String,
    pub reason: String,
}

impl LimitInForce {
    pub fn new(version: i64, since: Timestamp, lane: &Lane, author: Author) -> Self {
        Self {
            version,
            since,
            max_per_second: lane.max_per_second,
            max_per_window: lane.max_per_window,
            window_size_secs: lane.window_size_secs,
            actor: author.actor,
            reason: author.reason,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: Timestamp,
    pub sends: u32,
    /// The most sends in a second that ended in this part.
    pub worst_second: u32,
}

/// For people: the certificate as a page of text.
impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Rate certificate, lane \"{}\"", self.lane)?;
        writeln!(f, "  from, to        {}, {}", self.from, self.to)?;
        if let Some(as_of) = self.as_of {
            writeln!(f, "  as of           {as_of}; the period is not over")?;
        }
        writeln!(f, "  sends           {}", self.sends)?;
        if let (Some(first), Some(last)) = (self.first_send, self.last_send) {
            let seconds = last.duration_since(first).as_secs_f64();
            writeln!(f, "  first, last     {first}, {last} ({seconds:.1} s)")?;
        }
        if let Some(peak) = self.worst_second {
            let (sends, limit) = (peak.sends, peak.limit.normalize());
            writeln!(
                f,
                "  worst second    {sends} of {limit}, from {}",
                peak.from
            )?;
        }
        if let Some(peak) = self.worst_window {
            let (sends, plan) = (peak.sends, peak.limit.normalize());
            writeln!(
                f,
                "  worst window    {sends}, planned {plan}, from {}",
                peak.from
            )?;
        }
        if let Some(used) = self.utilisation {
            writeln!(f, "  utilisation     {:.1} %", used * 100.0)?;
        }
        for limit in &self.limits {
            let (rate, version) = (limit.max_per_second.normalize(), limit.version);
            let (since, actor, reason) = (limit.since, &limit.actor, &limit.reason);
            writeln!(
                f,
                "  limit           {rate} a second since {since} (version {version}, {actor}: {reason})"
            )?;
        }
        let above = self.sends_above_limit;
        let verdict = if self.holds {
            "no sliding second had more sends than its limit".to_owned()
        } else {
            format!("EXCEEDED: {above} sends were above the limit of their second")
        };
        let so_far = if self.as_of.is_some() { " so far" } else { "" };
        writeln!(f, "  verdict         {verdict}{so_far}")
    }
}

/// Makes a certificate from send times in ascending order.
#[derive(Debug)]
pub struct Certifier {
    made: Certificate,
    second: VecDeque<Timestamp>,
    window: (i64, u32),
}

impl Certifier {
    /// `versions`: all of the lane, newest first.
    pub fn new(
        lane: String,
        from: Timestamp,
        to: Timestamp,
        versions: impl Iterator<Item = LimitInForce>,
    ) -> Self {
        Self {
            made: Certificate {
                lane,
                from,
                to,
                as_of: None,
                holds: true,
                sends: 0,
                first_send: None,
                last_send: None,
                worst_second: None,
                worst_window: None,
                sends_above_limit: 0,
                utilisation: None,
                limits: applying(versions, from, to),
                parts: vec![],
            },
            second: VecDeque::new(),
            window: (i64::MIN, 0),
        }
    }

    /// Sends of the second before `from` may be added first: they count for the seconds that
    /// reach into the stretch, and for nothing else.
    pub fn add(&mut self, send: Timestamp) {
        if send < self.made.from {
            self.second.push_back(send);
            return;
        }
        let made = &mut self.made;
        made.sends += 1;
        made.first_send.get_or_insert(send);
        made.last_send = Some(send);
        let old = |first: &Timestamp| send.duration_since(*first) >= SECOND;
        while self.second.front().is_some_and(old) {
            self.second.pop_front();
        }
        self.second.push_back(send);
        let sends = u32::try_from(self.second.len()).unwrap_or(u32::MAX);
        let from = self.second.front().copied().unwrap_or(send);
        let limit = highest(&made.limits, send - SECOND, send);
        if Decimal::from(sends) > limit.max(Decimal::ONE) {
            made.sends_above_limit += 1;
            made.holds = false;
        }
        if made.worst_second.is_none_or(|worst| sends > worst.sends) {
            made.worst_second = Some(Peak { sends, from, limit });
        }
        self.count_part(send, sends);
        self.count_window(send);
    }

    pub fn finish(mut self) -> Certificate {
        let made = &mut self.made;
        made.utilisation = made.first_send.zip(made.last_send).and_then(|(from, to)| {
            let allowed = allowed(&made.limits, from, to).to_f64()?;
            let sends = made.sends.to_f64()?;
            (allowed >= 1.0).then_some((sends - 1.0).max(0.0) / allowed)
        });
        self.made
    }

    fn count_part(&mut self, send: Timestamp, in_second: u32) {
        let length = self.made.part().as_secs();
        let start = send.as_second().div_euclid(length) * length;
        let start = Timestamp::from_second(start).unwrap_or(send);
        match self.made.parts.last_mut() {
            Some(part) if part.start == start => {
                part.sends += 1;
                part.worst_second = part.worst_second.max(in_second);
            }
            _ => self.made.parts.push(Part {
                start,
                sends: 1,
                worst_second: in_second,
            }),
        }
    }

    fn count_window(&mut self, send: Timestamp) {
        let Some(limit) = in_force(&self.made.limits, send) else {
            return;
        };
        let size = i64::from(limit.window_size_secs.max(1)) * 1_000_000;
        let start = send.as_microsecond() - send.as_microsecond().rem_euclid(size);
        if self.window.0 != start {
            self.window = (start, 0);
        }
        self.window.1 += 1;
        let sends = self.window.1;
        if self
            .made
            .worst_window
            .is_none_or(|worst| sends > worst.sends)
        {
            self.made.worst_window = Some(Peak {
                sends,
                from: Timestamp::from_microsecond(start).unwrap_or(send),
                limit: limit.max_per_window.into(),
            });
        }
    }
}

/// Those set between two times, and the one set before, oldest first.
fn applying(
    versions: impl Iterator<Item = LimitInForce>,
    from: Timestamp,
    to: Timestamp,
) -> Vec<LimitInForce> {
    let mut limits = vec![];
    for version in versions.filter(|version| version.since < to) {
        let is_first = version.since <= from;
        limits.push(version);
        if is_first {
            break;
        }
    }
    limits.reverse();
    limits
}

fn in_force(limits: &[LimitInForce], at: Timestamp) -> Option<&LimitInForce> {
    let later = limits.partition_point(|limit| limit.since <= at);
    limits.get(later.saturating_sub(1))
}

/// The highest limit in force at some moment of `[from, to]`. A lowered limit binds from its
/// `effectiveAt` on, a raised one at once: turns are reserved a moment ahead.
fn highest(limits: &[LimitInForce], from: Timestamp, to: Timestamp) -> Decimal {
    let from = from - crate::gate::HORIZON;
    let first = limits.partition_point(|limit| limit.since <= from);
    let applying = limits.iter().skip(first.saturating_sub(1));
    applying
        .take_while(|limit| limit.since <= to)
        .map(|limit| limit.max_per_second)
        .max()
        .unwrap_or_default()
}

/// How many sends the limits allowed between two times.
fn allowed(limits: &[LimitInForce], from: Timestamp, to: Timestamp) -> Decimal {
    let mut sum = Decimal::ZERO;
    for (n, limit) in limits.iter().enumerate() {
        let begin = limit.since.max(from);
        let end = limits.get(n + 1).map_or(to, |next| next.since.min(to));
        let micros = end.duration_since(begin).as_micros().max(0);
        let micros = Decimal::from(i64::try_from(micros).unwrap_or(0));
        sum += limit.max_per_second * micros / Decimal::from(1_000_000);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit(version: i64, since_us: i64, max_per_second: u32) -> LimitInForce {
        LimitInForce {
            version,
            since: Timestamp::from_microsecond(since_us).unwrap(),
            max_per_second: max_per_second.into(),
            max_per_window: 100,
            window_size_secs: 4,
            actor: String::new(),
            reason: String::new(),
        }
    }

    fn certify(sends: &[i64], newest_first: &[LimitInForce]) -> Certificate {
        let at = |us| Timestamp::from_microsecond(us).unwrap();
        let versions = newest_first.iter().cloned();
        let mut certifier = Certifier::new("x".into(), at(0), at(1 << 40), versions);
        for us in sends {
            certifier.add(at(*us));
        }
        certifier.finish()
    }

    #[test]
    fn a_second_with_a_change_in_it_is_judged_by_the_higher_limit() {
        let lowered = [limit(2, 10_000_000, 2), limit(1, 0, 4)];
        let busy: Vec<i64> = (0..4).map(|n| 9_700_000 + n * 200_000).collect();
        assert!(certify(&busy, &lowered).holds);
        let late: Vec<i64> = (0..4).map(|n| 12_000_000 + n * 200_000).collect();
        let certificate = certify(&late, &lowered);
        assert_eq!(
            (certificate.holds, certificate.sends_above_limit),
            (false, 2)
        );
        assert_eq!(certificate.worst_second.unwrap().limit, 2.into());
        assert_eq!(certificate.limits.len(), 2);
    }

    #[test]
    fn a_second_that_began_before_the_stretch_is_judged_in_it() {
        let at = |us| Timestamp::from_microsecond(us).unwrap();
        let versions = [limit(1, 0, 2)].into_iter();
        let mut certifier = Certifier::new("x".into(), at(10_000_000), at(1 << 40), versions);
        for us in [9_600_000, 9_800_000, 10_100_000] {
            certifier.add(at(us));
        }
        let made = certifier.finish();
        assert_eq!((made.holds, made.sends), (false, 1));
    }

    #[test]
    fn utilisation_counts_what_the_limits_allowed() {
        let sends: Vec<i64> = (0..=100).map(|n| n * 100_000).collect();
        let used = certify(&sends, &[limit(1, 0, 20)]).utilisation.unwrap();
        assert!((used - 0.5).abs() < 1e-9, "{used}");
    }

    proptest! {
        #[test]
        fn it_equals_a_brute_force_count(
            mut sends in prop::collection::vec(0_i64..20_000_000, 0..200), max in 1_u32..30,
        ) {
            sends.sort_unstable();
            let made = certify(&sends, &[limit(1, 0, max)]);
            let seconds: Vec<usize> = sends.iter()
                .map(|s| sends.iter().filter(|t| (*s..s + 1_000_000).contains(*t)).count())
                .collect();
            prop_assert_eq!(made.worst_second.map(|p| p.sends as usize), seconds.iter().max().copied());
            prop_assert_eq!(made.holds, seconds.iter().all(|n| *n <= max as usize));
            let windows: Vec<usize> = (0..5)
                .map(|w| sends.iter().filter(|t| **t / 4_000_000 == w).count())
                .collect();
            prop_assert_eq!(made.worst_window.map_or(0, |p| p.sends as usize), *windows.iter().max().unwrap());
            prop_assert_eq!(made.parts.iter().map(|part| u64::from(part.sends)).sum::<u64>(), made.sends);
        }
    }
}
