//! The one home of node time: maps a turn on the shared clock to this node's monotonic clock. Says
//! whether a look at the shared clock is good enough for that, and goes with the look before.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::{Boot, Reading, SharedClock, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

/// A greater step of the shared clock, beyond what the two looks leave open, is a jump. A smaller
/// one must fit into the margin, beside the tolerance.
const SMALLEST_JUMP: Duration = Duration::from_millis(4);
/// While both clocks are being corrected, each by at most 500 in a million, they drift apart by
/// one part in so many.
const DRIFT: u32 = 1000;

/// A look at the machine's own clock that took longer says too little.
const LONGEST_BOOT_LOOK: Duration = Duration::from_millis(20);
const MOST_BOOT_LOOKS: u32 = 10;

/// One look at both clocks. Half the round trip is the uncertainty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    shared: Timestamp,
    timeline: u32,
    local: Instant,
    uncertainty: Duration,
}

/// What a look is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Steady,
    /// It took too long to map a turn by it.
    Uncertain,
    /// Turns that were mapped by the look before are void.
    Jumped,
}

pub(crate) fn judge(before: Option<Sample>, look: Sample, most_uncertain: Duration) -> Verdict {
    if before.is_some_and(|before| has_jumped(before, look)) {
        Verdict::Jumped
    } else if look.uncertainty > most_uncertain {
        Verdict::Uncertain
    } else {
        Verdict::Steady
    }
}

/// How much further the shared clock went on between two looks than this node's.
pub(crate) fn stepped(before: Sample, look: Sample) -> SignedDuration {
    look.shared.duration_since(before.shared) - signed_since(look.local, before.local)
}

/// A look of whatever quality can prove a jump, if the jump is greater than what is uncertain.
fn has_jumped(before: Sample, look: Sample) -> bool {
    let passed = signed_since(look.local, before.local);
    let step = stepped(before, look);
    let unclear = before.uncertainty + look.uncertainty + passed.unsigned_abs() / DRIFT;
    look.timeline != before.timeline || step.unsigned_abs() > SMALLEST_JUMP + unclear
}

/// `23286.38 13458.09`: seconds since the machine started, asleep or awake, and seconds idle.
fn parse_uptime(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn signed_since(later: Instant, earlier: Instant) -> SignedDuration {
    let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    signed(later.saturating_duration_since(earlier))
        - signed(earlier.saturating_duration_since(later))
}

impl Sample {
    pub(crate) async fn take(clock: &(impl SharedClock + ?Sized)) -> StoreResult<Self> {
        let asked = Instant::now();
        let reading = clock.read_clock().await?;
        Ok(Self::between(asked, Instant::now(), reading))
    }

    /// The shared clock was read at some time between these two.
    fn between(asked: Instant, answered: Instant, reading: Reading) -> Self {
        let half = answered.saturating_duration_since(asked) / 2;
        Self {
            shared: reading.now,
            timeline: reading.timeline,
            local: asked + half,
            uncertainty: half,
        }
    }

    /// Another look, on the same timeline: what the store said on the side, just now.
    pub(crate) fn and_then(&self, asked: Instant, now: Timestamp) -> Self {
        let timeline = self.timeline;
        Self::between(asked, Instant::now(), Reading { now, timeline })
    }

    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.local < other.local
    }

    pub(crate) fn shared(&self) -> Timestamp {
        self.shared
    }

    pub(crate) fn uncertainty(&self) -> Duration {
        self.uncertainty
    }

    /// The machine's boot, by the shared clock. None where it cannot be known: Linux tells it.
    pub(crate) fn boot(&self) -> Option<Boot> {
        (0..MOST_BOOT_LOOKS).find_map(|_| self.look_at_boot())
    }

    fn look_at_boot(&self) -> Option<Boot> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let before = Instant::now();
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let now = Instant::now();
        if now.saturating_duration_since(before) > LONGEST_BOOT_LOOK {
            return None;
        }
        let up = parse_uptime(&uptime)?;
        let shared = self
            .shared
            .checked_add(signed_since(now, self.local))
            .ok()?;
        Some(Boot {
            id: id.trim().to_owned(),
            began: shared.checked_sub(up).ok()?,
        })
    }

    /// When a shared time comes, on this node's clock.
    pub(crate) fn local(&self, shared: Timestamp) -> Instant {
        let ahead = shared.duration_since(self.shared);
        if ahead.is_negative() {
            return self
                .local
                .checked_sub(ahead.unsigned_abs())
                .unwrap_or(self.local);
        }
        self.local + ahead.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Jumped, Steady, Uncertain};
    use super::*;

    const MOST_UNCERTAIN: Duration = Duration::from_millis(4);

    /// A look `after` so many ms, at a shared clock that was stepped by so many ms meanwhile.
    struct Case {
        after: i64,
        stepped: i64,
        uncertainty: u64,
        timeline: u32,
        verdict: Verdict,
    }

    fn sample(start: Instant, local: i64, shared: i64, uncertainty: u64, timeline: u32) -> Sample {
        let ms = Duration::from_millis(local.unsigned_abs());
        Sample {
            shared: Timestamp::from_millisecond(1_800_000_000_000 + shared).unwrap(),
            timeline,
            local: if local < 0 { start - ms } else { start + ms },
            uncertainty: Duration::from_millis(uncertainty),
        }
    }

    #[test]
    fn a_look_is_steady_or_uncertain_or_proves_a_jump() {
        let case = |after, stepped, uncertainty, timeline, verdict| Case {
            after,
            stepped,
            uncertainty,
            timeline,
            verdict,
        };
        let start = Instant::now() + Duration::from_hours(2);
        // The look before has an uncertainty of 1 ms.
        let cases = [
            case(100, 0, 1, 1, Steady),
            case(100, 0, 4, 1, Steady),
            case(100, 0, 5, 1, Uncertain),
            case(100, 6, 1, 1, Steady),
            case(100, -6, 1, 1, Steady),
            case(100, 7, 1, 1, Jumped),
            case(100, -7, 1, 1, Jumped),
            case(100, 3_600_000, 1, 1, Jumped),
            case(100, -3_600_000, 1, 1, Jumped),
            // What is unclear may hide a step, but not one that is greater.
            case(100, 40, 40, 1, Uncertain),
            case(100, 50, 40, 1, Jumped),
            // After an hour the clocks may have drifted apart.
            case(3_600_000, 3_600, 1, 1, Steady),
            case(3_600_000, 3_700, 1, 1, Jumped),
            case(3_600_000, -3_700, 1, 1, Jumped),
            // Two looks may come in the other order.
            case(-100, 0, 1, 1, Steady),
            case(-100, 50, 1, 1, Jumped),
            // A failover.
            case(100, 0, 1, 2, Jumped),
            case(100, 0, 5, 2, Jumped),
        ];
        let before = sample(start, 0, 0, 1, 1);
        for (n, c) in cases.iter().enumerate() {
            let look = sample(
                start,
                c.after,
                c.after + c.stepped,
                c.uncertainty,
                c.timeline,
            );
            assert_eq!(
                judge(Some(before), look, MOST_UNCERTAIN),
                c.verdict,
                "case {n}"
            );
        }
    }

    #[test]
    fn a_boot_began_at_the_same_time_unless_the_shared_clock_was_set() {
        let uptime = |text| parse_uptime(text);
        assert_eq!(uptime("23.5 1.0\n"), Some(Duration::from_millis(23_500)));
        for text in ["", "never", "-1 0", "NaN"] {
            assert_eq!(uptime(text), None, "{text:?}");
        }
        let start = Instant::now();
        let (first, second) = (sample(start, 0, 0, 1, 1), sample(start, -500, -500, 1, 1));
        let (one, other) = (first.boot().unwrap(), second.boot().unwrap());
        assert_eq!(one.id, other.id);
        assert!(one.began_at(other.began), "{one:?} {other:?}");
        let set = sample(start, 0, 3_600_000, 1, 1).boot().unwrap();
        assert!(!set.began_at(one.began), "{set:?} {one:?}");
    }

    #[test]
    fn the_first_look_has_nothing_to_jump_from() {
        let start = Instant::now();
        let verdict =
            |uncertainty| judge(None, sample(start, 0, 0, uncertainty, 1), MOST_UNCERTAIN);
        assert_eq!((verdict(4), verdict(5)), (Steady, Uncertain));
    }
}
