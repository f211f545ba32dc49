//! What an item's past says about its next move. Pure: the sender carries it out.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{Era, History, Past, Profile};

/// How often a downstream is asked by a key that it may have forgotten.
const FORGOTTEN_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was done before, with this answer; only the telling was lost.
    AlreadyDone(String),
    /// It was refused before, with this reason.
    AlreadyRefused(String),
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

    /// How long after this turn "unknown to me" will be evidence. When the clock was set meanwhile
    /// it knows nothing: the whole time is left.
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
                    return profile.settle;
                }
                // The last of them may still lie a moment ahead.
                let settled = last + profile.settle;
                Duration::try_from(settled.duration_since(turn_at)).unwrap_or_default()
            }
        }
    }
}

pub(crate) fn next(history: &History, profile: &Profile) -> Next {
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
    let lost = lost_sends(past, era, profile);
    let (Some(first), Some(latest)) = (lost.first(), lost.last()) else {
        return Next::Send(Doubt::None);
    };
    let doubt = Doubt::Since {
        era: era.number,
        first: first.at,
        last: latest.not_after(era),
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
    let declined = past.iter().rposition(|p| p.state == AttemptState::Declined);
    declined.map_or(past, |place| &past[place + 1..])
}

/// A send that may have been done.
struct Lost {
    /// By the clock of this era; None if it went out in an older one.
    at: Option<Timestamp>,
}

impl Lost {
    fn not_after(&self, era: Era) -> Timestamp {
        self.at.unwrap_or(era.older_turns_end())
    }

    /// Whether "unknown to me", said at that time, proves that it was not done.
    fn is_disproved(&self, profile: &Profile, era: Era, asked: Timestamp) -> bool {
        let is_known = |at| profile.remembers(at, asked);
        let may_be_forgotten = profile.asks_by_key && !self.at.is_some_and(is_known);
        !may_be_forgotten && profile.has_settled(self.not_after(era), asked)
    }
}

/// The sends without an answer, since the last probe of this era that proved that nothing had
/// been done. What a probe of an older era proved is asked again: it costs a question.
fn lost_sends(past: &[Past], era: Era, profile: &Profile) -> Vec<Lost> {
    let mut lost: Vec<Lost> = vec![];
    for attempt in past {
        let is_of_this_era = attempt.era == era.number;
        match (attempt.kind, attempt.state) {
            (AttemptKind::Send, AttemptState::Unknown | AttemptState::Open) => {
                lost.push(Lost {
                    at: is_of_this_era.then_some(attempt.turn_at),
                });
            }
            (AttemptKind::Probe, AttemptState::Retry) if is_of_this_era => {
                let asked = attempt.turn_at;
                let proves = |sent: &Lost| sent.is_disproved(profile, era, asked);
                if lost.iter().all(proves) {
                    lost.clear();
                }
            }
            _ => {}
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use AttemptKind::{Probe, Send};
    use AttemptState::{Declined, Done, Refused, Retry, Unknown};
    use tollgate_core::gate::LATEST_USE;
    use tollgate_core::id::AttemptId;

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
            asks_by_key: false,
        }
    }
    /// Era 1 has been there since long ago, unless a jump has opened era 2 at this second.
    fn history(attempts: &[(AttemptKind, AttemptState, i64)], now: i64) -> History {
        let past = |(n, (kind, state, secs)): (usize, &(AttemptKind, AttemptState, i64))| Past {
            attempt: AttemptId(i64::try_from(n).unwrap()),
            kind: *kind,
            state: *state,
            turn_at: at(*secs),
            era: 1,
            detail: "said so".into(),
        };
        History {
            past: attempts.iter().enumerate().map(past).collect(),
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
            // "Unknown to me" is evidence only after the settle time.
            (
                vec![(Send, Unknown, 0), (Probe, Retry, 30)],
                false,
                31,
                Next::Probe(doubt(0)),
            ),
            (
                vec![(Send, Unknown, 0), (Probe, Retry, 60)],
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
            let said = next(&history(&attempts, now), &profile(honours));
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
            let said = next(&history(&attempts, 30), &profile(true));
            assert_eq!(said, expected, "{attempts:?}");
        }
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
        let probe = |secs, era| (Probe, Retry, secs, era);
        let lost = |secs, era| (Send, Unknown, secs, era);
        let table = [
            // Seconds old by the clock, and never sent again: only asked about.
            (vec![lost(495, 1)], 501, Next::Probe(doubt(by_then))),
            (vec![lost(9_000, 1)], 501, Next::Probe(doubt(by_then))),
            // Long ago by the clock, and still no evidence before the settle time of this era.
            (
                vec![lost(0, 1), probe(opened + 61, 2)],
                opened + 61,
                Next::Probe(doubt(by_then)),
            ),
            (
                vec![lost(0, 1), probe(opened + 62, 2)],
                opened + 62,
                Next::Send(Doubt::None),
            ),
            // What was evidence by another era's clock is asked again.
            (
                vec![lost(0, 1), probe(400, 1)],
                501,
                Next::Probe(doubt(by_then)),
            ),
            // The first is of the older era, the last of this one.
            (
                vec![lost(0, 1), lost(510, 2), probe(565, 2)],
                566,
                Next::Probe(doubt(at(510))),
            ),
            (
                vec![lost(0, 1), probe(562, 2), lost(570, 2)],
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
            let said = next(&history, &profile(true));
            assert_eq!(said, expected, "{attempts:?} now={now}");
        }
    }

    /// The answer to a question by key says nothing once the key may be forgotten.
    #[test]
    fn a_forgotten_key_is_no_evidence() {
        let by_key = Profile {
            asks_by_key: true,
            ..profile(true)
        };
        // Keys are kept for a thousand seconds, less the timeout of ten.
        let asked = |secs| history(&[(Send, Unknown, 0), (Probe, Retry, secs)], secs + 1);
        assert_eq!(next(&asked(989), &by_key), Next::Send(Doubt::None));
        let doubt = Doubt::Since {
            era: 1,
            first: Some(at(0)),
            last: at(0),
        };
        assert_eq!(next(&asked(990), &by_key), Next::Probe(doubt));
        assert_eq!(next(&asked(990), &profile(true)), Next::Send(Doubt::None));
        let rest = doubt.evidence_in(&by_key, at(990), 1);
        assert_eq!(rest, FORGOTTEN_PAUSE, "and it is not asked all the time");
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
    }
}
