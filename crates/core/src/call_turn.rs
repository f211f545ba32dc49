//! Turns for calls that belong to no item, such as those of a status check: they go through the same
//! cursor as every send, and take no more than a share of the lane from payments.

use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::gate::{HORIZON, Moment, Pace, SETTLE_AFTER_JUMP, give_turns};
use crate::ports::CallGiven;
use crate::{SignedDuration, Timestamp};

/// Whoever waits asks again within this time, so that a change of the lane is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The turn of one call, at least `spacing / share` after the last one.
pub fn give_call_turn(
    pace: Pace,
    share: Decimal,
    moment: Moment,
    last_call: Option<Timestamp>,
) -> CallGiven {
    let Moment { now, last_turn, .. } = moment;
    let apart = apart(pace, share);
    // One that lies further ahead than any could belongs to another timeline of the clock.
    let known = last_call.filter(|last| *last <= now + apart + 2 * SETTLE_AFTER_JUMP);
    let planned = known.map_or(now, |last| last + apart).max(now);
    let given = give_turns(pace, moment, &[planned]);
    if let Some(Some(at)) = given.first() {
        return CallGiven::At(*at);
    }
    let next_turn = last_turn.map_or(now, |last| last + pace.spacing());
    // As early as it can be had: payments that wait ask at least every half horizon, and on a slow
    // lane a call that came later would never be first. Its share still protects them.
    let reach = planned.max(next_turn) - HORIZON;
    let wait = Duration::try_from(reach.duration_since(now)).unwrap_or_default();
    CallGiven::AskAgainIn(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
}

/// A share of zero would never send; it is taken for a thousandth.
fn apart(pace: Pace, share: Decimal) -> SignedDuration {
    let share = share.clamp(Decimal::new(1, 3), Decimal::ONE);
    let spacing = i64::try_from(pace.spacing().as_micros()).unwrap_or(i64::MAX / 4);
    let apart = (Decimal::from(spacing) / share).ceil().to_i64();
    SignedDuration::from_micros(apart.unwrap_or(i64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::DEFAULT_MARGIN;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }
    fn given(share: &str, last_turn: Option<i64>, last_call: Option<i64>) -> CallGiven {
        let moment = Moment {
            last_turn: last_turn.map(at),
            now: at(0),
            lead: Duration::from_millis(5),
            closes_at: at(100_000),
        };
        let pace = Pace::of(Decimal::from(50), DEFAULT_MARGIN);
        give_call_turn(pace, share.parse().unwrap(), moment, last_call.map(at))
    }
    fn wait(ms: u64) -> CallGiven {
        CallGiven::AskAgainIn(Duration::from_millis(ms))
    }

    #[test]
    fn calls_keep_their_distance_from_each_other_and_from_every_send() {
        assert_eq!(
            given("0.5", None, None),
            CallGiven::At(at(5)),
            "a free lane"
        );
        let CallGiven::At(behind) = given("0.5", Some(0), None) else {
            panic!("a send lies right before it");
        };
        assert_eq!(behind.duration_since(at(0)).as_micros(), 20_409);
        let CallGiven::At(apart) = given("0.5", Some(-1000), Some(0)) else {
            panic!("a call lies right before it");
        };
        assert_eq!(apart.duration_since(at(0)).as_micros(), 2 * 20_409);
    }

    #[test]
    fn what_lies_beyond_the_horizon_is_asked_for_again() {
        let CallGiven::AskAgainIn(soon) = given("0.1", Some(0), Some(200)) else {
            panic!("204 ms after 200 ms is beyond 250 ms");
        };
        assert_eq!(soon.as_millis(), 200 + 204 - 250);
        assert_eq!(given("0.001", None, Some(0)), wait(1000), "within a second");
        assert_eq!(given("0", None, Some(0)), wait(1000), "a share of zero");
        let CallGiven::AskAgainIn(behind) = given("1", Some(240), None) else {
            panic!("payments were first");
        };
        assert_eq!(behind.as_millis(), 240 + 20 - 250);
    }

    #[test]
    fn a_call_of_another_timeline_does_not_stop_the_next() {
        assert_eq!(given("0.5", None, Some(3_600_000)), CallGiven::At(at(5)));
    }
}
