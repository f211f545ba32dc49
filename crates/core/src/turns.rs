//! Which of a block of waiting attempts get a turn: those whose run owns the item, whose sender has
//! seen every earlier attempt, and which would not go out too late. The gate's arithmetic says when.

use std::collections::HashSet;
use std::time::Duration;

use crate::Timestamp;
use crate::gate::{Moment, Pace, Turns, ask_again_in};
use crate::id::AttemptId;
use crate::item::QueueStatus;
use crate::ports::{NewTurn, Turn};

/// Who owns an item when turns are taken: the token that every attempt's run is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub queue_status: QueueStatus,
    pub run: u32,
    pub has_ended: bool,
    /// The latest attempt, by whichever run and process. A sender decides from the attempts that it
    /// has read, and may wait long after that: one that it has not read voids its decision.
    pub latest: Option<AttemptId>,
    /// The attempt that is open.
    pub open: Option<AttemptId>,
    /// An attempt has done it: the flow that heard so may not have ended it yet.
    pub was_done: bool,
    /// It must not be sent after this time, unless it may have been done before.
    pub hold_after: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// In the order of the attempts: a turn, or what is said instead.
    pub turns: Vec<Result<Timestamp, Turn>>,
    /// When to ask again for those who were told `Later`.
    pub ask_again_in: Duration,
}

impl Block {
    /// Where the lane's cursor belongs; nothing if no turn was given.
    pub fn last_turn(&self) -> Option<Timestamp> {
        let mut given = self.turns.iter().filter_map(|turn| turn.as_ref().ok());
        given.next_back().copied()
    }
}

/// Gives a block of attempts their turns; each has its item's owner, or none if there is no item. Attempts
/// behind the last owner get `Later`: nobody has looked at their items.
pub fn give_block(
    pace: Pace,
    moment: Moment,
    attempts: &[NewTurn],
    owners: &[Option<Owner>],
) -> Block {
    let mut lane_turns = Turns::from(pace, moment);
    let mut first_later = None;
    let mut allowed = allowed(attempts, owners).into_iter();
    let turns = attempts.iter().map(|attempt| {
        let Some(allowed) = allowed.next() else {
            first_later.get_or_insert(attempt.planned);
            return Err(Turn::Later);
        };
        let Allowed { until } = allowed?;
        match lane_turns.offer(attempt.planned) {
            // The turn stays free: the next attempt gets it, and may be in time.
            Some(at) if until.is_some_and(|until| at > until) => Err(Turn::TooLate),
            Some(at) => {
                lane_turns.take(at);
                Ok(at)
            }
            None => {
                first_later.get_or_insert(attempt.planned);
                Err(Turn::Later)
            }
        }
    });
    let mut block = Block {
        turns: turns.collect(),
        ask_again_in: Duration::ZERO,
    };
    let last_turn = block.last_turn().or(moment.last_turn);
    block.ask_again_in = ask_again_in(pace, moment.now, last_turn, first_later);
    block
}

/// An attempt that may go out.
struct Allowed {
    /// But not after this time.
    until: Option<Timestamp>,
}

/// Each, or why not. Of several that may go out for one item the first does.
fn allowed(attempts: &[NewTurn], owners: &[Option<Owner>]) -> Vec<Result<Allowed, Turn>> {
    let mut seen = HashSet::new();
    let asking = attempts.iter().zip(owners);
    asking
        .map(|(attempt, owner)| {
            let allowed = is_allowed(attempt, owner.as_ref())?;
            if !seen.insert(&attempt.item) {
                let why = "another attempt of this block was first";
                return Err(Turn::LookAgain(why.to_owned()));
            }
            Ok(allowed)
        })
        .collect()
}

fn is_allowed(attempt: &NewTurn, owner: Option<&Owner>) -> Result<Allowed, Turn> {
    let lost = |state: String| {
        let run = attempt.run;
        let why = format!("run {run} no longer owns the item, which is {state}");
        Err(Turn::NotYours(why))
    };
    let Some(owner) = owner else {
        return lost("gone".to_owned());
    };
    let (status, run) = (owner.queue_status, owner.run);
    let is_under_way = matches!(status, QueueStatus::Claimed | QueueStatus::Dispatched);
    if !is_under_way || owner.has_ended || run != attempt.run {
        return lost(format!("{status}, run {run}"));
    }
    has_seen_all(attempt, owner).map_err(Turn::LookAgain)?;
    let until = owner.hold_after.filter(|_| !attempt.may_be_late);
    Ok(Allowed { until })
}

/// Two senders of one run may overlap: a process that was stopped and wakes up, a step whose lease
/// was lost. Each decided to send from what it had read, and only the latest decision holds.
fn has_seen_all(attempt: &NewTurn, owner: &Owner) -> Result<(), String> {
    if owner.was_done {
        return Err("an earlier attempt has executed it".to_owned());
    }
    match (owner.open, attempt.missed) {
        (None, None) => {}
        (Some(open), Some(missed)) if open == missed => {}
        (Some(open), _) => return Err(format!("attempt {} is open", open.0)),
        (None, Some(missed)) => return Err(format!("attempt {} was taken over", missed.0)),
    }
    let seen = attempt.missed.or(attempt.seen);
    match owner.latest {
        Some(latest) if seen != Some(latest) => {
            Err(format!("attempt {} was made in the meantime", latest.0))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;

    use super::*;
    use crate::gate::DEFAULT_MARGIN;
    use crate::id::{Item, ItemId, ItemType};
    use crate::outcome::AttemptKind;

    const OWNER: Owner = Owner {
        queue_status: QueueStatus::Dispatched,
        run: 2,
        has_ended: false,
        latest: None,
        open: None,
        was_done: false,
        hold_after: None,
    };

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    /// Of the run that owns it.
    fn attempt(id: &str) -> NewTurn {
        NewTurn {
            item: Item::new(&ItemType::new("PAYMENT"), &ItemId::new(id)),
            run: OWNER.run,
            kind: AttemptKind::Send,
            key: id.to_owned(),
            planned: at(0),
            seen: None,
            missed: None,
            may_be_late: false,
        }
    }

    /// At ten a second, the first turn at once.
    fn block(attempts: &[NewTurn], owners: &[Option<Owner>]) -> Block {
        let moment = Moment {
            last_turn: None,
            now: at(0),
            lead: Duration::ZERO,
            closes_at: Timestamp::MAX,
        };
        let pace = Pace::of(Decimal::TEN, DEFAULT_MARGIN);
        give_block(pace, moment, attempts, owners)
    }

    fn refusal(attempt: &NewTurn, owner: Option<Owner>) -> Option<Turn> {
        let turns = block(std::slice::from_ref(attempt), &[owner]).turns;
        turns.into_iter().next()?.err()
    }

    #[test]
    fn only_the_run_that_owns_an_item_gets_a_turn() {
        let of = |queue_status| Owner {
            queue_status,
            ..OWNER
        };
        let ended = Owner {
            has_ended: true,
            ..OWNER
        };
        let new = attempt("p");
        let other = NewTurn {
            run: 1,
            ..new.clone()
        };
        for (attempt, owner, why) in [
            (&new, Some(OWNER), None),
            (&new, Some(of(QueueStatus::Claimed)), None),
            (&new, Some(of(QueueStatus::Ready)), Some("READY, run 2")),
            (&new, Some(of(QueueStatus::Held)), Some("HELD, run 2")),
            (&new, Some(of(QueueStatus::Dead)), Some("DEAD, run 2")),
            (&new, Some(ended), Some("DISPATCHED, run 2")),
            (&new, None, Some("gone")),
            (&other, Some(OWNER), Some("DISPATCHED, run 2")),
        ] {
            let run = attempt.run;
            let expected = why.map(|state| {
                let why = format!("run {run} no longer owns the item, which is {state}");
                Turn::NotYours(why)
            });
            assert_eq!(refusal(attempt, owner), expected, "{attempt:?} {owner:?}");
        }
    }

    /// `latest` and `open` of the item; `seen` and `missed` of whoever asks.
    #[test]
    fn whoever_has_not_seen_the_latest_attempt_must_look_again() {
        for (latest, open, seen, missed, why) in [
            (None, None, None, None, None),
            (Some(7), None, Some(7), None, None),
            (Some(7), Some(7), None, Some(7), None),
            (Some(7), Some(7), Some(6), Some(7), None),
            (
                Some(7),
                None,
                None,
                None,
                Some("attempt 7 was made in the meantime"),
            ),
            (
                Some(8),
                None,
                Some(7),
                None,
                Some("attempt 8 was made in the meantime"),
            ),
            (Some(7), Some(7), Some(7), None, Some("attempt 7 is open")),
            (
                Some(8),
                Some(8),
                Some(7),
                Some(7),
                Some("attempt 8 is open"),
            ),
            (
                Some(7),
                None,
                Some(6),
                Some(7),
                Some("attempt 7 was taken over"),
            ),
        ] {
            let attempt = NewTurn {
                seen: seen.map(AttemptId),
                missed: missed.map(AttemptId),
                ..attempt("p")
            };
            let owner = Owner {
                latest: latest.map(AttemptId),
                open: open.map(AttemptId),
                ..OWNER
            };
            let expected = why.map(|why| Turn::LookAgain(why.to_owned()));
            assert_eq!(refusal(&attempt, Some(owner)), expected, "{attempt:?}");
        }
        let done = Owner {
            was_done: true,
            ..OWNER
        };
        let expected = Turn::LookAgain("an earlier attempt has executed it".to_owned());
        assert_eq!(refusal(&attempt("p"), Some(done)), Some(expected));
    }

    #[test]
    fn of_two_attempts_of_one_item_the_first_that_may_go_out_does() {
        let stale = NewTurn {
            run: 1,
            ..attempt("p")
        };
        let attempts = [stale, attempt("p"), attempt("p"), attempt("q")];
        let turns = block(&attempts, &[Some(OWNER); 4]).turns;
        assert!(matches!(&turns[0], Err(Turn::NotYours(why)) if why.contains("run 1")));
        assert_eq!(turns[1], Ok(at(0)));
        assert!(matches!(&turns[2], Err(Turn::LookAgain(why)) if why.contains("first")));
        let apart = Pace::of(Decimal::TEN, DEFAULT_MARGIN).spacing();
        assert_eq!(turns[3], Ok(at(0) + apart), "nobody's turn in between");
    }

    #[test]
    fn nobody_goes_out_after_its_deadline_unless_it_may_have_been_done() {
        let late = Owner {
            hold_after: Some(at(-1)),
            ..OWNER
        };
        let in_time = Owner {
            hold_after: Some(at(0)),
            ..OWNER
        };
        let again = NewTurn {
            may_be_late: true,
            ..attempt("p")
        };
        let first = |attempt: NewTurn, owner| block(&[attempt], &[Some(owner)]).turns.remove(0);
        assert_eq!(first(attempt("p"), late), Err(Turn::TooLate));
        assert_eq!(first(attempt("p"), in_time), Ok(at(0)));
        assert_eq!(first(again, late), Ok(at(0)));

        let attempts = ["p", "q", "r"].map(attempt);
        let owners = [Some(late), Some(late), Some(in_time)];
        let turns = block(&attempts, &owners).turns;
        let expected = [Err(Turn::TooLate), Err(Turn::TooLate), Ok(at(0))];
        assert_eq!(turns, expected, "what is too late takes nobody's turn");
    }

    #[test]
    fn an_attempt_whose_item_was_not_looked_at_gets_no_turn() {
        let attempts = ["a", "b", "c"].map(attempt);
        let all = block(&attempts, &[Some(OWNER); 3]);
        let two = block(&attempts, &[Some(OWNER); 2]);
        assert!(all.turns[2].is_ok(), "{all:?}");
        assert_eq!(two.turns[..2], all.turns[..2]);
        assert_eq!(two.turns[2], Err(Turn::Later));
        let none = block(&attempts, &[]);
        assert!(none.turns.iter().all(|turn| *turn == Err(Turn::Later)));
        assert_eq!(none.last_turn(), None);
    }

    #[test]
    fn a_block_tells_where_the_cursor_belongs_and_when_to_ask_again() {
        let ids = ["a", "b", "c", "d", "e"];
        let given = block(&ids.map(attempt), &[Some(OWNER); 5]);
        assert_eq!(given.turns[3], Err(Turn::Later), "beyond the horizon");
        assert_eq!(given.last_turn(), given.turns[2].clone().ok());
        assert!(given.ask_again_in > Duration::from_millis(100), "{given:?}");
        let nobody = block(&[attempt("a")], &[None]);
        assert_eq!(nobody.last_turn(), None);
    }
}
