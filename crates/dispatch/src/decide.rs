//! What an item's past says about its next move. Pure: the sender carries it out.

use tollgate_core::Timestamp;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{Past, Profile};

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
    /// The first and the last send whose answer is lost.
    Since {
        first: Timestamp,
        last: Timestamp,
    },
}

impl Doubt {
    /// Whether a send may still go out at the time of its turn: a bank that was promised to
    /// recognise the key may have forgotten it while the send waited.
    pub(crate) fn permits(self, profile: &Profile, turn_at: Timestamp) -> bool {
        match self {
            Self::None => true,
            Self::Since { first, .. } => profile.may_resend(first, turn_at),
        }
    }
}

pub(crate) fn next(past: &[Past], profile: &Profile, now: Timestamp) -> Next {
    let ended = |state| {
        past.iter()
            .find(|p| p.state == state)
            .map(|p| p.detail.clone())
    };
    if let Some(answer) = ended(AttemptState::Done) {
        return Next::AlreadyDone(answer);
    }
    if let Some(reason) = ended(AttemptState::Refused) {
        return Next::AlreadyRefused(reason);
    }
    let lost = lost_sends(past, profile);
    let (Some(first), Some(latest)) = (lost.first(), lost.last()) else {
        return Next::Send(Doubt::None);
    };
    let doubt = Doubt::Since {
        first: *first,
        last: *latest,
    };
    if profile.may_resend(*first, now) {
        return Next::Send(doubt);
    }
    Next::Probe(doubt)
}

/// The times of sends that may have been done: those without an answer, since the last probe that
/// proved that nothing had been done.
fn lost_sends(past: &[Past], profile: &Profile) -> Vec<Timestamp> {
    let mut lost: Vec<Timestamp> = vec![];
    for attempt in past {
        match (attempt.kind, attempt.state) {
            (AttemptKind::Send, AttemptState::Unknown | AttemptState::Open) => {
                lost.push(attempt.turn_at);
            }
            (AttemptKind::Probe, AttemptState::Retry) => {
                let proves = |sent: &Timestamp| profile.has_settled(*sent, attempt.turn_at);
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
    use std::time::Duration;

    use AttemptKind::{Probe, Send};
    use AttemptState::{Done, Refused, Retry, Unknown};
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
        }
    }
    fn past(attempts: &[(AttemptKind, AttemptState, i64)]) -> Vec<Past> {
        let past = |(n, (kind, state, secs)): (usize, &(AttemptKind, AttemptState, i64))| Past {
            attempt: AttemptId(i64::try_from(n).unwrap()),
            kind: *kind,
            state: *state,
            turn_at: at(*secs),
            detail: "said so".into(),
        };
        attempts.iter().enumerate().map(past).collect()
    }

    #[test]
    fn the_past_decides() {
        let doubt = |secs| Doubt::Since {
            first: at(0),
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
            let said = next(&past(&attempts), &profile(honours), at(now));
            assert_eq!(said, expected, "{attempts:?} honours={honours} now={now}");
        }
    }

    #[test]
    fn the_promise_of_a_key_is_checked_at_the_turn() {
        let doubt = Doubt::Since {
            first: at(0),
            last: at(5),
        };
        assert!(doubt.permits(&profile(true), at(989)));
        assert!(
            !doubt.permits(&profile(true), at(990)),
            "forgotten while it waited"
        );
        assert!(Doubt::None.permits(&profile(false), at(990)));
    }
}
