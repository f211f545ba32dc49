//! Refusal storms: a bank that refuses everything is more likely misconfigured than right. A
//! canary lets a few payments try a connector first, a streak counts refusals afterwards; either
//! pauses the lane until a person resumes it. Pure: the store counts, in the transaction that
//! gives turns and in the one that settles.

use std::time::Duration;

use crate::gate::{Moment, Pace, give_turns};
use crate::id::AttemptId;
use crate::outcome::{AttemptKind, AttemptState};
use crate::ports::{NewTurn, Turn};
use crate::turns::{Block, Owner, give_block};
use crate::{SignedDuration, Timestamp};

/// A streak looks at this many of the last answers.
pub const RECENT: u32 = 25;
/// A payment without an answer keeps its place among the canaries for this long: after that another
/// one is tried, so that lost answers cannot stop a lane for good.
pub const UNANSWERED: SignedDuration = SignedDuration::from_mins(1);
/// A refusal is announced after this time even if no later payment was accepted.
pub const SUSPECT_FOR: Duration = Duration::from_secs(30);
/// At most this many sends are searched for one that was accepted after a refusal.
pub const MOST_SCANNED: u32 = 1000;
/// How soon those who wait for the canaries' answers ask again.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// This much of the last answer is part of a pause's reason.
const ANSWER_CHARS: usize = 200;

/// When refusals count as a storm; `0` switches that check off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// This many payments are sent until the first of them is not refused.
    pub canary: u32,
    /// This many refusals among the last [`RECENT`] answers.
    pub streak: u32,
}

impl Limits {
    pub const OFF: Self = Self {
        canary: 0,
        streak: 0,
    };

    pub fn are_off(self) -> bool {
        self == Self::OFF
    }

    /// How many payments may have been accepted since the oldest refusal of a streak.
    pub fn most_done_in_a_streak(self) -> u32 {
        RECENT.saturating_sub(self.streak)
    }
}

/// A payment that was sent as a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub attempt: AttemptId,
    pub state: AttemptState,
    pub turn_at: Timestamp,
}

impl Place {
    /// A refusal keeps its place, and so does what may still become one. What was not sent, or was
    /// not done for other reasons, makes room.
    fn is_taken(&self, now: Timestamp) -> bool {
        match self.state {
            AttemptState::Open | AttemptState::Refused => true,
            // A clock that was set back by more than that would keep it for too long.
            AttemptState::Unknown => now.duration_since(self.turn_at).abs() < UNANSWERED,
            AttemptState::Done | AttemptState::Declined | AttemptState::Retry => false,
        }
    }
}

/// A canary that nothing but refusals, if anything, has answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    limit: usize,
    places: Vec<Place>,
}

impl Canary {
    /// As it is now: what makes room is forgotten.
    pub fn new(limit: u32, mut places: Vec<Place>, now: Timestamp) -> Self {
        places.retain(|place| place.is_taken(now));
        Self {
            limit: limit as usize,
            places,
        }
    }

    /// Whether a turn for this attempt needs a place. A question can be refused by nobody, what is
    /// in doubt is never rejected for a refusal, and a missed turn has its place already.
    pub fn needs_place(&self, attempt: &NewTurn) -> bool {
        let has_place = |missed| self.places.iter().any(|place| place.attempt == missed);
        attempt.kind == AttemptKind::Send
            && !attempt.may_be_late
            && !attempt.missed.is_some_and(has_place)
    }

    /// Which of these attempts may ask for a turn.
    fn may_ask(&self, attempts: &[NewTurn]) -> Vec<bool> {
        let mut room = self.room();
        let may_ask = attempts.iter().map(|attempt| {
            let needs_place = self.needs_place(attempt);
            let may_ask = !needs_place || room > 0;
            room -= usize::from(needs_place && may_ask);
            may_ask
        });
        may_ask.collect()
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.places.len())
    }

    /// Its places after these attempts got turns.
    pub fn places_with(&self, opened: impl IntoIterator<Item = AttemptId>) -> Vec<AttemptId> {
        let places = self.places.iter().map(|place| place.attempt);
        places.chain(opened).collect()
    }

    /// The oldest refusal among the canaries, if all of them were refused.
    pub fn failed(&self) -> Option<AttemptId> {
        let is_refused = |place: &&Place| place.state == AttemptState::Refused;
        let refused = self.places.iter().filter(is_refused);
        let is_full = refused.clone().count() >= self.limit;
        refused.map(|place| place.attempt).min().filter(|_| is_full)
    }
}

/// How many of the attempts, from the first on, can have a turn now at most. Items of the others need not be looked
/// at: `give_block_watched` answers `Later` whoever owns them. What may not ask because of the canary does not count, so
/// that a question behind many new sends is within reach.
pub fn within_reach(
    pace: Pace,
    moment: Moment,
    attempts: &[NewTurn],
    canary: Option<&Canary>,
) -> usize {
    let may_ask = canary.map(|canary| canary.may_ask(attempts));
    let asks = |n: &usize| may_ask.as_ref().is_none_or(|may_ask| may_ask[*n]);
    let asking: Vec<usize> = (0..attempts.len()).filter(asks).collect();
    let planned = asking.iter().map(|n| attempts[*n].planned);
    let times = give_turns(pace, moment, &planned.collect::<Vec<_>>());
    let last = times.iter().rposition(Option::is_some);
    last.map_or(0, |last| asking[last] + 1)
}

/// Gives turns as [`give_block`] does, and to no more new sends than the canary has places for.
pub fn give_block_watched(
    pace: Pace,
    moment: Moment,
    attempts: &[NewTurn],
    owners: &[Option<Owner>],
    canary: Option<&Canary>,
) -> Block {
    let Some(canary) = canary else {
        return give_block(pace, moment, attempts, owners);
    };
    let may_ask = canary.may_ask(attempts);
    if may_ask.iter().all(|may_ask| *may_ask) {
        return give_block(pace, moment, attempts, owners);
    }
    let asking = || may_ask.iter().copied();
    let asked: Vec<NewTurn> = kept(attempts, asking());
    let block = give_block(pace, moment, &asked, &kept(owners, asking()));
    let mut given = block.turns.into_iter();
    let turns = asking().map(|may_ask| {
        let turn = may_ask.then(|| given.next()).flatten();
        turn.unwrap_or(Err(Turn::Later))
    });
    Block {
        turns: turns.collect(),
        ask_again_in: ASK_AGAIN,
    }
}

fn kept<T: Clone>(all: &[T], keep: impl Iterator<Item = bool>) -> Vec<T> {
    let pairs = all.iter().zip(keep);
    pairs
        .filter(|(_, keep)| *keep)
        .map(|(one, _)| one.clone())
        .collect()
}

/// Why a lane is paused after all canaries were refused.
pub fn canary_reason(connector: &str, limits: Limits, last_answer: &str) -> String {
    let count = limits.canary;
    reason(
        &format!("the first {count} payments of connector \"{connector}\" were all refused"),
        last_answer,
    )
}

/// Why a lane is paused after a streak.
pub fn streak_reason(connector: &str, limits: Limits, last_answer: &str) -> String {
    let count = limits.streak;
    reason(
        &format!("{count} of the last {RECENT} answers of connector \"{connector}\" were refusals"),
        last_answer,
    )
}

fn reason(what: &str, last_answer: &str) -> String {
    let answer: String = last_answer.chars().take(ANSWER_CHARS).collect();
    format!("{what}; the last answer: {answer}")
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;

    use super::*;
    use crate::gate::DEFAULT_MARGIN;
    use crate::id::{Item, ItemId, ItemType};
    use crate::item::QueueStatus;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }
    fn place(number: i64, state: AttemptState) -> Place {
        Place {
            attempt: AttemptId(number),
            state,
            turn_at: at(0),
        }
    }
    fn attempt(id: &str) -> NewTurn {
        NewTurn {
            item: Item::new(&ItemType::new("PAYMENT"), &ItemId::new(id)),
            run: 1,
            kind: AttemptKind::Send,
            key: id.to_owned(),
            planned: at(0),
            seen: None,
            missed: None,
            may_be_late: false,
        }
    }
    /// Which of these get a turn, at a thousand a second.
    fn given(canary: &Canary, attempts: &[NewTurn]) -> Vec<bool> {
        let owner = Owner {
            queue_status: QueueStatus::Dispatched,
            run: 1,
            has_ended: false,
            latest: None,
            open: None,
            was_done: false,
            hold_after: None,
        };
        let moment = Moment {
            last_turn: None,
            now: at(1),
            lead: Duration::ZERO,
            closes_at: Timestamp::MAX,
        };
        let pace = Pace::of(Decimal::ONE_THOUSAND, DEFAULT_MARGIN);
        let owners: Vec<_> = attempts
            .iter()
            .map(|attempt| {
                Some(Owner {
                    latest: attempt.missed,
                    open: attempt.missed,
                    ..owner
                })
            })
            .collect();
        let block = give_block_watched(pace, moment, attempts, &owners, Some(canary));
        block.turns.iter().map(Result::is_ok).collect()
    }

    #[test]
    fn five_get_a_turn_and_no_sixth() {
        use AttemptState::{Declined, Done, Open, Refused, Retry, Unknown};
        let new: Vec<_> = (0..9).map(|n| attempt(&format!("p{n}"))).collect();
        let table = [
            (vec![], 5),
            (vec![Open, Open], 3),
            (vec![Open, Refused, Unknown], 2),
            (vec![Refused; 5], 0),
            (vec![Open; 5], 0),
            // What was not sent makes room, and so does every answer but a refusal.
            (vec![Retry, Retry, Refused], 4),
            (vec![Declined, Done, Refused], 4),
        ];
        for (states, turns) in table {
            let places = (1..).zip(&states).map(|(n, state)| place(n, *state));
            let canary = Canary::new(5, places.collect(), at(1));
            let given = given(&canary, &new);
            assert_eq!(
                given.iter().filter(|turn| **turn).count(),
                turns,
                "{states:?}"
            );
        }
    }

    #[test]
    fn what_cannot_have_a_turn_now_is_out_of_reach() {
        let moment = Moment {
            last_turn: None,
            now: at(1),
            lead: Duration::ZERO,
            closes_at: Timestamp::MAX,
        };
        let pace = Pace::of(Decimal::TEN, DEFAULT_MARGIN);
        let mut attempts: Vec<_> = (0..9).map(|n| attempt(&format!("p{n}"))).collect();
        let reach = |attempts: &[NewTurn], canary: Option<&Canary>| {
            within_reach(pace, moment, attempts, canary)
        };
        assert_eq!(reach(&attempts, None), 3, "ten a second, within 250 ms");
        let canary = |limit, taken| {
            let places = (0..taken).map(|n| place(n, AttemptState::Open));
            Canary::new(limit, places.collect(), at(1))
        };
        assert_eq!(reach(&attempts, Some(&canary(5, 3))), 2);
        assert_eq!(reach(&attempts, Some(&canary(5, 5))), 0);
        attempts[8].kind = AttemptKind::Probe;
        assert_eq!(reach(&attempts, None), 3);
        assert_eq!(reach(&attempts, Some(&canary(5, 5))), 9, "the question");
        attempts[0].planned = at(2);
        assert_eq!(reach(&attempts, None), 4, "the first is not due yet");
        let closed = Moment {
            closes_at: at(1),
            ..moment
        };
        assert_eq!(within_reach(pace, closed, &attempts, None), 0);
    }

    #[test]
    fn an_answer_that_was_lost_keeps_its_place_for_a_minute() {
        let left = |secs| {
            let unknown = place(1, AttemptState::Unknown);
            Canary::new(5, vec![unknown], at(secs)).room()
        };
        assert_eq!((left(59), left(60)), (4, 5));
        assert_eq!(left(-7200), 5, "the clock was set back");
        let open = Canary::new(5, vec![place(1, AttemptState::Open)], at(7200));
        assert_eq!(open.room(), 4, "its answer may still be a refusal");
    }

    #[test]
    fn what_cannot_be_rejected_needs_no_place() {
        let full: Vec<_> = (1..=5).map(|n| place(n, AttemptState::Open)).collect();
        let canary = Canary::new(5, full, at(1));
        let probe = NewTurn {
            kind: AttemptKind::Probe,
            ..attempt("probe")
        };
        let in_doubt = NewTurn {
            may_be_late: true,
            ..attempt("doubt")
        };
        let missed = NewTurn {
            missed: Some(AttemptId(3)),
            ..attempt("missed")
        };
        let attempts = [attempt("new"), probe, in_doubt, missed];
        assert_eq!(given(&canary, &attempts), [false, true, true, true]);
    }

    #[test]
    fn only_refusals_in_all_places_fail_a_canary() {
        use AttemptState::{Open, Refused, Unknown};
        let failed = |states: &[AttemptState]| {
            let places = (7..).zip(states).map(|(n, state)| place(n, *state));
            Canary::new(5, places.collect(), at(1)).failed()
        };
        assert_eq!(failed(&[Refused; 5]), Some(AttemptId(7)));
        assert_eq!(failed(&[Refused; 4]), None);
        assert_eq!(failed(&[Refused, Refused, Refused, Refused, Open]), None);
        assert_eq!(failed(&[Refused, Refused, Refused, Unknown, Refused]), None);
    }
}
