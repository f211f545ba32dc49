//! What an item's past says about its next move. Pure: the sender carries it out.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::WatchId;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{Era, History, Past, Profile};

/// How often a downstream is asked by a key that it may have forgotten.
const FORGOTTEN_PAUSE: Duration = Duration::from_mins(1);
/// How long a question rests at least that was asked while the clock was set.
const JUMPED_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was done before, with this answer; only the telling was lost.
    AlreadyDone(String),
    /// It was refused before, with this reason.
    AlreadyRefused(String),
    /// The key that it was to go out under was declined: whoever has chosen it did not know that yet.
    KeyIsDeclined,
    Send(Doubt),
    Probe(Doubt),
}

/// Whether an earlier send may have been done. If so, no answer but "done" proves anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    /// The sends whose answers are lost, by the clock of this era.
    Since {
        era: i64,
        /// When the first went out; unknown if that was in an older era: its age cannot be told.
        first: Option<Timestamp>,
        /// None went out after this.
        last: Timestamp,
    },
}

impl Doubt {
    /// Whether a send may still go out at the time of its turn: a bank that was promised to
    /// recognise the key may have forgotten it while the send waited, and when the clock has
    /// jumped meanwhile nobody knows.
    pub(crate) fn permits(self, profile: &Profile, turn_at: Timestamp, turn_era: i64) -> bool {
        match self {
            Self::None => true,
            Self::Since { era, first, .. } => {
                era == turn_era && first.is_some_and(|first| profile.may_resend(first, turn_at))
            }
        }
    }

    /// How long after this turn "unknown to me" will be evidence; nothing if it is, and nothing
    /// only then. When the clock was set meanwhile it knows nothing: the whole time is left.
    pub(crate) fn evidence_in(
        self,
        profile: &Profile,
        turn_at: Timestamp,
        turn_era: i64,
    ) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            // Never by itself: a person decides, and the downstream is asked now and then.
            Self::Since { first, .. }
                if profile.asks_by_key
                    && !first.is_some_and(|first| profile.remembers(first, turn_at)) =>
            {
                profile.settle.max(FORGOTTEN_PAUSE)
            }
            Self::Since { era, last, .. } => {
                if era != turn_era {
                    return profile.settle.max(JUMPED_PAUSE);
                }
                if profile.has_settled(last, turn_at) {
                    return Duration::ZERO;
                }
                // The last of them may still lie a moment ahead.
                let settled = last + profile.settle;
                Duration::try_from(settled.duration_since(turn_at)).unwrap_or_default()
            }
        }
    }
}

/// `key`: under which a new send would go out.
pub(crate) fn next(history: &History, profile: &Profile, key: &str) -> Next {
    let past = undecided(&history.past);
    let ended = |state| {
        let ended = past.iter().find(|p| p.state == state);
        ended.map(|p| p.detail.clone())
    };
    if let Some(answer) = ended(AttemptState::Done) {
        return Next::AlreadyDone(answer);
    }
    if let Some(reason) = ended(AttemptState::Refused) {
        return Next::AlreadyRefused(reason);
    }
    let era = history.era;
    let unanswered: Vec<&Past> = lost_sends(past).collect();
    let last = unanswered.iter().map(|sent| not_after(sent, era)).max();
    let (Some(first), Some(last)) = (unanswered.first(), last) else {
        let is_declined = |p: &Past| p.makes_way() && p.key == key;
        return if history.past.iter().any(is_declined) {
            Next::KeyIsDeclined
        } else {
            Next::Send(Doubt::None)
        };
    };
    let doubt = Doubt::Since {
        era: era.number,
        first: (first.era == era.number).then_some(first.turn_at),
        last,
    };
    if doubt.permits(profile, history.now, era.number) {
        return Next::Send(doubt);
    }
    Next::Probe(doubt)
}

/// A decline is the downstream's last word about all that was sent under its key; what comes next
/// has another. Only a "done" that somebody has written nevertheless is stronger.
fn undecided(past: &[Past]) -> &[Past] {
    if past.iter().any(|p| p.state == AttemptState::Done) {
        return past;
    }
    let declined = past.iter().rposition(Past::makes_way);
    declined.map_or(past, |place| &past[place + 1..])
}

/// The key of what is in doubt. It is asked about, and sent again, under no other: another would be
/// a second payment, and a question about it would be answered with "unknown to me".
pub(crate) fn key_in_doubt(history: &History) -> Option<&str> {
    let lost = lost_sends(undecided(&history.past)).last();
    lost.map(|lost| lost.key.as_str())
}

/// What is kept of a send that was answered with "I have it already", though nothing had been sent before. It is no
/// evidence for the next such answer: the payment may be somebody else's, or of a store that was restored.
pub(crate) const UNPROVED: &str =
    "the bank has this payment already, and no earlier send of it is in doubt";

/// Whether "I have it already" proves that the payment was done: an earlier send under this key may have arrived.
pub(crate) fn duplicate_proves(history: &History, key: &str) -> bool {
    let mut lost = lost_sends(undecided(&history.past));
    lost.any(|sent| sent.key == key && !sent.detail.starts_with(UNPROVED))
}

/// Which configuration has sent first what is in doubt: what is sent again has its bytes.
pub(crate) fn first_sent_by(history: &History) -> Option<WatchId> {
    let mut lost = lost_sends(undecided(&history.past));
    lost.next().and_then(|first| first.watch)
}

/// The sends without an answer. One that was proved not to have been done is Retry, not Unknown: the
/// proof was judged, and written down, with the answer that it was.
fn lost_sends(past: &[Past]) -> impl Iterator<Item = &Past> {
    past.iter().filter(|p| {
        p.kind == AttemptKind::Send && matches!(p.state, AttemptState::Unknown | AttemptState::Open)
    })
}

/// By the clock of this era.
fn not_after(sent: &Past, era: Era) -> Timestamp {
    if sent.era == era.number {
        sent.turn_at
    } else {
        era.older_turns_end()
    }
}

#[cfg(test)]
mod tests {
    use AttemptKind::{Probe, Send};
    use AttemptState::{Declined, Done, Refused, Retry, Unknown};
    use tollgate_core::gate::LATEST_USE;
    use tollgate_core::id::AttemptId;
    use tollgate_core::marker::Marker;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }
    fn profile(honours_idempotency_key: bool) -> Profile {
        Profile {
            honours_idempotency_key,
            key_retention: Duration::from_secs(1000),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        }
    }
    /// Era 1 has been there since long ago, unless a jump has opened era 2 at this second.
    fn history(attempts: &[(AttemptKind, AttemptState, i64)], now: i64) -> History {
        let past = |(n, (kind, state, secs)): (usize, &(AttemptKind, AttemptState, i64))| Past {
            attempt: AttemptId(i64::try_from(n).unwrap()),
            kind: *kind,
            state: *state,
            key: "first".into(),
            turn_at: at(*secs),
            era: 1,
            reopened: false,
            watch: None,
            detail: "said so".into(),
        };
        History {
            past: attempts.iter().enumerate().map(past).collect(),
            failures: 0,
            due: at(now),
            status: "SCHEDULED".into(),
            last_error: None,
            busy_for: None,
            now: at(now),
            era: Era {
                number: 1,
                since: at(-100_000),
            },
        }
    }

    #[test]
    fn the_past_decides() {
        let doubt = |secs| Doubt::Since {
            era: 1,
            first: Some(at(0)),
            last: at(secs),
        };
        let table = [
            (vec![], true, 0, Next::Send(Doubt::None)),
            (vec![(Send, Retry, 0)], false, 5, Next::Send(Doubt::None)),
            (
                vec![(Send, Done, 0)],
                true,
                5,
                Next::AlreadyDone("said so".into()),
            ),
            (
                vec![(Send, Refused, 0)],
                true,
                5,
                Next::AlreadyRefused("said so".into()),
            ),
            // A lost answer: the same key again while the promise holds, else only questions.
            (vec![(Send, Unknown, 0)], true, 5, Next::Send(doubt(0))),
            (vec![(Send, Unknown, 0)], true, 990, Next::Probe(doubt(0))),
            (vec![(Send, Unknown, 0)], false, 5, Next::Probe(doubt(0))),
            // "Definitely not done" about a second send says nothing about the first.
            (
                vec![(Send, Unknown, 0), (Send, Retry, 5)],
                false,
                9,
                Next::Probe(doubt(0)),
            ),
            // The promise counts from the first send, not from the last.
            (
                vec![(Send, Unknown, 0), (Send, Unknown, 900)],
                true,
                995,
                Next::Probe(doubt(900)),
            ),
            // "Unknown to me" was no evidence, or it would have been written down as such.
            (
                vec![(Send, Unknown, 0), (Probe, Retry, 60)],
                false,
                61,
                Next::Probe(doubt(0)),
            ),
            (
                vec![(Send, Retry, 0), (Probe, Retry, 60)],
                false,
                61,
                Next::Send(Doubt::None),
            ),
            (
                vec![(Send, Unknown, 0), (Probe, Unknown, 90)],
                false,
                95,
                Next::Probe(doubt(0)),
            ),
            (
                vec![(Send, Unknown, 0), (Probe, Done, 90)],
                false,
                95,
                Next::AlreadyDone("said so".into()),
            ),
        ];
        for (attempts, honours, now, expected) in table {
            let said = next(&history(&attempts, now), &profile(honours), "first");
            assert_eq!(said, expected, "{attempts:?} honours={honours} now={now}");
        }
    }

    #[test]
    fn a_decline_is_the_last_word_about_all_that_was_sent_before_it() {
        let lost = (Send, Unknown, 0);
        let doubt = Doubt::Since {
            era: 1,
            first: Some(at(20)),
            last: at(20),
        };
        let table = [
            (vec![(Send, Declined, 0)], Next::Send(Doubt::None)),
            (vec![lost, (Probe, Declined, 10)], Next::Send(Doubt::None)),
            (vec![lost, (Send, Declined, 10)], Next::Send(Doubt::None)),
            (
                vec![lost, (Probe, Declined, 10), (Send, Unknown, 20)],
                Next::Send(doubt),
            ),
            (
                vec![(Send, Declined, 0), (Send, Refused, 10)],
                Next::AlreadyRefused("said so".into()),
            ),
            (
                vec![(Send, Done, 0), (Probe, Declined, 10)],
                Next::AlreadyDone("said so".into()),
            ),
        ];
        for (attempts, expected) in table {
            let said = next(&history(&attempts, 30), &profile(true), "second");
            assert_eq!(said, expected, "{attempts:?}");
        }
    }

    /// Whoever chose the key had looked before the decline was known.
    #[test]
    fn a_key_that_was_declined_is_never_sent_under_again() {
        let table = [
            vec![(Send, Declined, 0)],
            vec![(Send, Unknown, 0), (Probe, Declined, 10)],
            vec![(Send, Declined, 0), (Send, Retry, 10)],
        ];
        for attempts in table {
            let past = history(&attempts, 30);
            let said = next(&past, &profile(true), "first");
            assert_eq!(said, Next::KeyIsDeclined, "{attempts:?}");
            let said = next(&past, &profile(true), "second");
            assert_eq!(said, Next::Send(Doubt::None), "{attempts:?}");
        }
    }

    #[test]
    fn a_duplicate_proves_only_what_may_have_arrived_under_its_key() {
        let past = |state, detail: &str| {
            let mut past = history(&[(Send, state, 0)], 30);
            past.past[0].detail = detail.into();
            past
        };
        assert!(duplicate_proves(&past(Unknown, "reset"), "first"));
        assert!(!duplicate_proves(&past(Unknown, "reset"), "other"));
        assert!(!duplicate_proves(&past(Retry, "status 429"), "first"));
        assert!(
            !duplicate_proves(&past(Unknown, UNPROVED), "first"),
            "its own echo"
        );
    }

    #[test]
    fn what_is_in_doubt_keeps_its_key_whatever_key_would_be_next() {
        let mut past = history(&[(Send, Declined, 0), (Send, Unknown, 10)], 30);
        past.past[1].key = "second".into();
        assert_eq!(key_in_doubt(&past), Some("second"));
        past.past[1].state = Retry;
        assert_eq!(key_in_doubt(&past), None);
        let settled = history(&[(Send, Unknown, 0), (Probe, Declined, 10)], 30);
        assert_eq!(key_in_doubt(&settled), None, "that key is done with");
    }

    /// A send of era 1, and what the clock of era 2 shows: it was set by an unknown amount.
    #[test]
    fn how_long_ago_a_send_of_an_older_era_was_nobody_can_tell() {
        let opened = 500;
        let doubt = |last| Doubt::Since {
            era: 2,
            first: None,
            last,
        };
        // Its turn may have been used a little after the era had ended.
        let by_then = at(opened) + LATEST_USE;
        let lost = |secs, era| (Send, Unknown, secs, era);
        let table = [
            // Seconds old by the clock, and never sent again: only asked about.
            (vec![lost(495, 1)], 501, Next::Probe(doubt(by_then))),
            (vec![lost(9_000, 1)], 501, Next::Probe(doubt(by_then))),
            // The first is of the older era, the last of this one.
            (
                vec![lost(0, 1), lost(510, 2)],
                566,
                Next::Probe(doubt(at(510))),
            ),
            // The turn of an older era may have been used after one of this era.
            (
                vec![lost(0, 1), lost(opened, 2)],
                566,
                Next::Probe(doubt(by_then)),
            ),
            // The first was disproved.
            (
                vec![(Send, Retry, 0, 1), lost(570, 2)],
                571,
                Next::Send(Doubt::Since {
                    era: 2,
                    first: Some(at(570)),
                    last: at(570),
                }),
            ),
        ];
        for (attempts, now, expected) in table {
            let told: Vec<_> = attempts.iter().map(|(k, s, t, _)| (*k, *s, *t)).collect();
            let mut history = history(&told, now);
            for (past, (.., era)) in history.past.iter_mut().zip(&attempts) {
                past.era = *era;
            }
            history.era = Era {
                number: 2,
                since: at(opened),
            };
            let said = next(&history, &profile(true), "first");
            assert_eq!(said, expected, "{attempts:?} now={now}");
        }
        // Long ago by the clock, and still no evidence before the settle time of this era.
        let left = |secs| doubt(by_then).evidence_in(&profile(true), at(opened + secs), 2);
        assert!(!left(61).is_zero());
        assert_eq!(left(62), Duration::ZERO);
    }

    /// The answer to a question by key says nothing once the key may be forgotten.
    #[test]
    fn a_forgotten_key_is_no_evidence() {
        let by_key = Profile {
            asks_by_key: true,
            ..profile(true)
        };
        let doubt = Doubt::Since {
            era: 1,
            first: Some(at(0)),
            last: at(0),
        };
        let rest = |profile: &Profile, secs| doubt.evidence_in(profile, at(secs), 1);
        // Keys are kept for a thousand seconds, less the timeout of ten.
        assert_eq!(rest(&by_key, 989), Duration::ZERO);
        let forgotten = rest(&by_key, 990);
        assert_eq!(forgotten, FORGOTTEN_PAUSE, "not asked all the time");
        assert_eq!(rest(&profile(true), 990), Duration::ZERO);
    }

    #[test]
    fn the_promise_of_a_key_is_checked_at_the_turn() {
        let since = |first: Option<i64>| Doubt::Since {
            era: 1,
            first: first.map(at),
            last: at(5),
        };
        let permits = |doubt: Doubt, secs, era| doubt.permits(&profile(true), at(secs), era);
        assert!(permits(since(Some(0)), 989, 1));
        assert!(
            !permits(since(Some(0)), 990, 1),
            "forgotten while it waited"
        );
        assert!(!permits(since(Some(0)), 6, 2), "the clock jumped meanwhile");
        assert!(!permits(since(None), 6, 1), "nobody knows its age");
        assert!(Doubt::None.permits(&profile(false), at(990), 7));
    }

    #[test]
    fn a_question_is_asked_again_when_its_answer_will_be_evidence() {
        let doubt = Doubt::Since {
            era: 1,
            first: None,
            last: at(0),
        };
        for (secs, era, left) in [
            (0, 1, 60),
            (45, 1, 15),
            (60, 1, 0),
            (-5, 1, 65),
            (45, 2, 60),
        ] {
            let wait = doubt.evidence_in(&profile(true), at(secs), era);
            assert_eq!(wait, Duration::from_secs(left), "{secs} s, era {era}");
        }
        let settles_at_once = Profile {
            settle: Duration::ZERO,
            ..profile(true)
        };
        let wait = doubt.evidence_in(&settles_at_once, at(45), 2);
        assert_eq!(wait, JUMPED_PAUSE, "no evidence, however soon it settles");
    }
}
