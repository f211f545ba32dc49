//! The timetable of a lane: when everything on it that has not been sent will be, as things stand. The one
//! answer to "when will this run, and what will be late?" for intake, items, lanes, metrics and forecasts.
//!
//! It plays the gate: what is due first goes first, one turn after the other at the lane's pace, in the time
//! in which the lane is open. Nothing is read and nothing is written.

use std::time::Duration;

use rust_decimal::Decimal;

use crate::lane::{Lane, Spread};
use crate::lane_in_force::LaneInForce;
use crate::open_time::{OpenTime, Stretch};
use crate::window::END_OF_TIME;
use crate::{SignedDuration, Timestamp};

/// An estimate is at least this coarse.
pub const LEAST_TOLERANCE: Duration = Duration::from_secs(2);

/// A cursor further ahead than this belongs to a clock that has been set back since.
const FARTHEST_CURSOR: SignedDuration = SignedDuration::from_secs(2);

/// Items that have not been sent: one, or those of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// When the first of them is due.
    pub from: Timestamp,
    /// Until when the rest is due, evenly; `from` for a single item.
    pub to: Timestamp,
    pub count: u32,
    /// Held instead of sent after this time.
    pub hold_after: Option<Timestamp>,
}

impl Load {
    pub fn item(due: Timestamp, hold_after: Option<Timestamp>) -> Self {
        Self {
            from: due,
            to: due,
            count: 1,
            hold_after,
        }
    }

    /// Of which only the number is known.
    pub fn spread(from: Timestamp, to: Timestamp, count: u32) -> Self {
        Self {
            from,
            to: to.max(from),
            count,
            hold_after: None,
        }
    }

    /// A window of the lane's plan: evenly spread slots fill it from its beginning on.
    pub fn window(lane: &Lane, start: Timestamp, count: u32) -> Self {
        let size = SignedDuration::try_from(lane.window_size()).unwrap_or_default();
        let filled = match lane.spread {
            Spread::Even if count < lane.max_per_window => {
                let micros = size.as_micros() * i128::from(count) / i128::from(lane.max_per_window);
                SignedDuration::from_micros(i64::try_from(micros).unwrap_or_default())
            }
            Spread::Even | Spread::Jitter => size,
        };
        Self::spread(start, start + filled, count)
    }

    fn due(&self, place: u32) -> Timestamp {
        let length = i128::from(self.to.as_microsecond() - self.from.as_microsecond());
        let offset = length * i128::from(place) / i128::from(self.count.max(1));
        let offset = i64::try_from(offset).unwrap_or(0);
        self.from + SignedDuration::from_micros(offset)
    }
}

/// What decides when things are sent.
#[derive(Debug, Clone)]
pub struct Outset<'a> {
    pub lane: &'a LaneInForce,
    pub margin: Decimal,
    pub now: Timestamp,
    /// The last turn ever given on the lane.
    pub last_turn: Option<Timestamp>,
    /// How long the way from slot to turn takes.
    pub way: Duration,
    pub loads: Vec<Load>,
}

/// Why no time can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    pub code: UntoldCode,
    pub reason: String,
    pub since: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntoldCode {
    /// Its lane is paused, and nobody has said until when.
    LanePaused,
    /// Its lane's calendar never opens again.
    LaneNeverOpens,
    /// Its lane does not exist.
    NoLane,
    /// Items of its type are not dispatched.
    DispatchOff,
    /// No process dispatches, or the engine cannot be reached.
    NobodyDispatches,
    /// No process runs what was dispatched.
    NobodyExecutes,
    /// It waits for a person: HELD or DEAD.
    WaitsForPerson,
}

impl UntoldCode {
    pub const ALL: [Self; 7] = [
        Self::LanePaused,
        Self::LaneNeverOpens,
        Self::NoLane,
        Self::DispatchOff,
        Self::NobodyDispatches,
        Self::NobodyExecutes,
        Self::WaitsForPerson,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::LanePaused => "LANE_PAUSED",
            Self::LaneNeverOpens => "LANE_NEVER_OPENS",
            Self::NoLane => "NO_LANE",
            Self::DispatchOff => "DISPATCH_OFF",
            Self::NobodyDispatches => "NOBODY_DISPATCHES",
            Self::NobodyExecutes => "NOBODY_EXECUTES",
            Self::WaitsForPerson => "WAITS_FOR_PERSON",
        }
    }
}

/// When everything will be sent.
#[derive(Debug, Clone)]
pub struct Timetable {
    pub as_of: Timestamp,
    /// How far from an estimate the send may be.
    pub tolerance: Duration,
    pub way: Duration,
    openings: Openings,
    /// The first turn that is free at all.
    first_free: Timestamp,
    stops: Vec<Stop>,
    /// Whatever is due from here on has no time.
    untold_from: Option<Timestamp>,
    untold: Untold,
}

/// A load, and when it is sent.
#[derive(Debug, Clone, Copy)]
struct Stop {
    from: Timestamp,
    to: Timestamp,
    first: Timestamp,
    last: Timestamp,
    /// The first turn after it.
    free: Timestamp,
}

impl Timetable {
    pub fn of(outset: Outset<'_>) -> Self {
        let Outset {
            lane,
            margin,
            now,
            last_turn,
            way,
            mut loads,
        } = outset;
        let spacing = lane.lane.pace(margin).spacing();
        loads.sort_by_key(|load| load.from);
        let openings = Openings::of(lane);
        let after_last = last_turn
            .filter(|last| *last <= now + FARTHEST_CURSOR)
            .map_or(now, |last| last + spacing);
        let first_free = now.max(after_last).max(lane.closed_until.unwrap_or(now));
        let mut played = Played {
            openings: openings.clone(),
            spacing,
            way,
            free: first_free,
        };
        let mut stops = Vec::with_capacity(loads.len());
        let mut untold_from = None;
        for load in &loads {
            match played.send(load) {
                Ok(stop) => stops.push(stop),
                Err((stop, due)) => {
                    stops.extend(stop);
                    untold_from = Some(due);
                    break;
                }
            }
        }
        Self {
            as_of: now,
            tolerance: lane.lane.window_size().max(LEAST_TOLERANCE),
            way,
            openings,
            first_free,
            stops,
            untold_from,
            untold: why_untold(lane),
        }
    }

    /// When an item is sent that is due then. `Err` if no time can be told.
    pub fn at(&self, due: Timestamp) -> Result<Timestamp, &Untold> {
        let told = self.turn(due);
        told.ok_or(&self.untold)
    }

    fn turn(&self, due: Timestamp) -> Option<Timestamp> {
        if self.untold_from.is_some_and(|from| due >= from) {
            return None;
        }
        let behind = self.stops.partition_point(|stop| stop.from <= due);
        let earliest = match behind.checked_sub(1).map(|last| &self.stops[last]) {
            None => self.first_free,
            Some(stop) if due <= stop.to => stop.turn_of(due),
            Some(stop) => stop.free,
        };
        self.openings.clone().opens(earliest.max(due))
    }

    /// Whether an item that is due then is sent by its deadline, the way to its turn included.
    pub fn meets(&self, due: Timestamp, deadline: Timestamp) -> Result<bool, &Untold> {
        let turn = self.at(due)?;
        // Whoever reaches the gate when it has just closed waits until it opens.
        let reaches = self.openings.clone().opens(turn + self.way);
        Ok(reaches.is_some_and(|reaches| reaches <= deadline))
    }

    /// When the last of what waits is sent; `None` in it if nothing waits.
    pub fn drained(&self) -> Result<Option<Timestamp>, &Untold> {
        match self.untold_from {
            Some(_) => Err(&self.untold),
            None => Ok(self.stops.iter().map(|stop| stop.last).max()),
        }
    }

    /// The longest that anything waits beyond the time at which it is due; whatever has more time than this
    /// and the way to its turn is in time.
    pub fn longest_delay(&self) -> SignedDuration {
        let delays = self.stops.iter().flat_map(|stop| {
            let last_due = stop.to.min(stop.last);
            [
                stop.first.duration_since(stop.from),
                stop.last.duration_since(last_due),
                stop.last.duration_since(stop.from),
            ]
        });
        let to_first = self.first_free.duration_since(self.as_of);
        delays.max().unwrap_or(SignedDuration::ZERO).max(to_first)
    }
}

impl Stop {
    fn turn_of(&self, due: Timestamp) -> Timestamp {
        let all = self.to.as_microsecond() - self.from.as_microsecond();
        if all == 0 {
            return self.last;
        }
        let part = i128::from(due.as_microsecond() - self.from.as_microsecond());
        let lasts = i128::from(self.last.as_microsecond() - self.first.as_microsecond());
        let offset = i64::try_from(lasts * part / i128::from(all)).unwrap_or(0);
        self.first + SignedDuration::from_micros(offset)
    }
}

/// The gate, played forward.
struct Played {
    openings: Openings,
    spacing: SignedDuration,
    way: Duration,
    free: Timestamp,
}

impl Played {
    /// What is still on its way when the lane closes is too late for it.
    fn turn(&mut self, due: Timestamp) -> Option<Timestamp> {
        let turn = self.openings.opens(self.free.max(due))?;
        let closes = self.openings.known.map_or(END_OF_TIME, |known| known.to);
        if closes < turn + self.way {
            return self.openings.opens(closes);
        }
        Some(turn)
    }

    /// When a load is sent; or what of it is, and from which due time on nothing is.
    fn send(&mut self, load: &Load) -> Result<Stop, (Option<Stop>, Timestamp)> {
        let mut stop: Option<Stop> = None;
        for place in 0..load.count {
            let due = load.due(place);
            let Some(turn) = self.turn(due) else {
                let sent = stop.map(|stop| Stop { to: due, ..stop });
                return Err((sent, due));
            };
            // What is held takes nobody's turn.
            if load.hold_after.is_none_or(|until| turn <= until) {
                self.free = turn + self.spacing;
            }
            let first = stop.map_or(turn, |stop| stop.first);
            stop = Some(Stop {
                from: load.from,
                to: load.to,
                first,
                last: turn,
                free: self.free,
            });
        }
        stop.ok_or((None, END_OF_TIME))
    }
}

/// The time in which a lane sends: as its slots' open time, and less a pause that nobody has ended yet.
#[derive(Debug, Clone)]
struct Openings {
    open: OpenTime,
    /// The beginning of such a pause.
    ends: Option<Timestamp>,
    /// Where the last answer lay: the next one is mostly there, too.
    known: Option<Stretch>,
}

impl Openings {
    fn of(lane: &LaneInForce) -> Self {
        let endless = lane.pause().filter(|pause| pause.until.is_none());
        Self {
            open: lane.open_time(),
            ends: endless.map(|pause| pause.from.unwrap_or(Timestamp::MIN)),
            known: None,
        }
    }

    /// The first moment from `time` on at which the lane is open.
    fn opens(&mut self, time: Timestamp) -> Option<Timestamp> {
        let is_known = |known: &Stretch| known.from <= time && time < known.to;
        if self.known.as_ref().is_some_and(is_known) {
            return Some(time);
        }
        let found = self.open.stretch_from(time)?;
        let from = found.from.max(time);
        if from >= self.ends.unwrap_or(END_OF_TIME).min(END_OF_TIME) {
            return None;
        }
        let to = self.ends.map_or(found.to, |ends| ends.min(found.to));
        self.known = Some(Stretch { from, to });
        Some(from)
    }
}

fn why_untold(lane: &LaneInForce) -> Untold {
    let name = &lane.name;
    match lane.pause().filter(|it| it.until.is_none()) {
        Some(pause) => Untold {
            code: UntoldCode::LanePaused,
            reason: format!(
                "lane \"{name}\" is paused by {} until it is resumed: {}",
                pause.actor, pause.reason
            ),
            since: pause.from.or(pause.since).unwrap_or(lane.effective_at),
        },
        None => Untold {
            code: UntoldCode::LaneNeverOpens,
            reason: format!(
                "lane \"{name}\" never opens again for its waiting items; change its calendar"
            ),
            since: lane.effective_at,
        },
    }
}

/// A send that was planned for a slot, and the send before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentOnSlot {
    pub slot: Timestamp,
    pub claimed_at: Timestamp,
    pub turn: Timestamp,
    /// The turn before it on the same lane.
    pub before: Option<Timestamp>,
}

/// What was claimed later than this after its slot had waited for its lane, and not for its turn.
const CLAIMED_LATE: SignedDuration = SignedDuration::from_secs(1);

/// How long the way from slot to turn takes: longer for one in a hundred only, and never shorter than
/// `least`. What waited because the lane was busy or closed is not held against it.
pub fn way(sends: &[SentOnSlot], spacing: SignedDuration, least: Duration) -> Duration {
    let mut ways: Vec<SignedDuration> = sends
        .iter()
        .map(|sent| {
            let mut could = sent.slot;
            if sent.claimed_at > sent.slot + CLAIMED_LATE {
                could = sent.claimed_at;
            }
            if let Some(before) = sent.before {
                could = could.max(before + spacing);
            }
            sent.turn.duration_since(could)
        })
        .collect();
    ways.sort_unstable();
    let place = (ways.len() * 99).div_ceil(100).saturating_sub(1);
    let measured = ways.get(place).copied().unwrap_or_default();
    Duration::try_from(measured).unwrap_or_default().max(least)
}

#[cfg(test)]
mod tests;
