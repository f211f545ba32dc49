//! Attempts and turns: what was intended, when it was allowed to go out, and what became of it.

use std::time::Duration;

use async_trait::async_trait;
use rust_decimal::Decimal;

use super::{Era, StoreResult};
use crate::Timestamp;
use crate::account::without_accounts;
use crate::id::{AttemptId, Item, LaneName, WatchId};
use crate::lane_in_force::closed_for;
use crate::outcome::{AttemptKind, AttemptState, Outcome};

#[async_trait]
pub trait Attempts: Send + Sync {
    /// All attempts of an item, oldest first, after taking over what a dead sender left: an open
    /// attempt whose turn has passed is Unknown from here on. One whose turn may still be used
    /// stays open and is reported as `busy_for`. A turn of an older era can be used until
    /// [`Era::older_turns_end`]. A run that does not own the item takes nothing over, and a node
    /// that was taken over from gets `Fenced` instead. The record moves to `in_doubt` with what is
    /// taken over, whatever comes of the sender's next steps.
    async fn take_over(
        &self,
        item: &Item,
        run: u32,
        tolerance: Duration,
        in_doubt: &StatusMove,
    ) -> StoreResult<History>;

    /// In one transaction for a block of waiting attempts: checks each owner's run and that the
    /// sender has seen every attempt of its item, opens its attempt, moves the lane's cursor and
    /// logs the exact time of each turn. When this returns the turns are durable; an attempt
    /// without a turn has changed nothing. A node that was taken over from gets `Fenced`.
    /// While the canary of `watch` is on, no more new sends get a turn than it has places, all nodes
    /// together.
    async fn take_turns(&self, wanted: TurnsWanted) -> StoreResult<TurnBlock>;

    /// A turn for a call that belongs to no item, within a share of the lane: moves the same cursor
    /// and logs the same way as every other turn.
    async fn take_call_turn(&self, wanted: CallWanted) -> StoreResult<CallTurn>;

    /// Writes an attempt's outcome, moves the record and finishes or requeues the item, together.
    /// An outcome is evidence and is written whoever owns the item now; record and queue move
    /// only for the run that owns it, and the answer says whether it did. That it was done is
    /// written, too, where its attempt was taken over, or disproved, before the answer came. A node
    /// that was taken over from may still settle what it had sent.
    /// An answer that is not a refusal ends the canary of its connector; a refusal that makes a storm
    /// pauses the lane.
    async fn settle(&self, settlement: Settlement) -> StoreResult<bool>;
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    pub past: Vec<Past>,
    /// How often a connection or an exchange of this item has failed: its next pause is by this number. What
    /// waited for a closed lane has not failed.
    pub failures: u32,
    /// When the item is due: of those that wait for a turn, whoever is due first goes first.
    pub due: Timestamp,
    /// What its record says, and why it was stopped or put back last.
    pub status: String,
    pub last_error: Option<String>,
    /// Another sender may still use its turn for this long.
    pub busy_for: Option<Duration>,
    pub now: Timestamp,
    /// The era that `now` belongs to.
    pub era: Era,
}

/// One attempt of an item, as its history tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    pub attempt: AttemptId,
    pub kind: AttemptKind,
    pub state: AttemptState,
    /// The idempotency key that it went out under, or asked about.
    pub key: String,
    pub turn_at: Timestamp,
    /// Which era's clock showed `turn_at`.
    pub era: i64,
    pub detail: String,
    /// Refused, and a person has had its item tried again since.
    pub reopened: bool,
    /// Which configuration of its connector sent it, if the store was told.
    pub watch: Option<WatchId>,
}

impl History {
    /// The latest attempt: what a turn that is asked for on this history is compared with.
    pub fn latest(&self) -> Option<AttemptId> {
        self.past.last().map(|past| past.attempt)
    }

    /// How often it was sent, whatever became of it.
    pub fn sends(&self) -> u32 {
        let sends = |past: &&Past| past.kind == AttemptKind::Send;
        self.past.iter().filter(sends).fold(0, |sum, _| sum + 1)
    }
}

impl Past {
    /// Whether another key may be asked: it was declined, or a person wants it tried again.
    pub fn makes_way(&self) -> bool {
        self.state == AttemptState::Declined || self.reopened
    }

    /// Until when its turn can be used.
    pub fn usable_until(&self, era: Era, tolerance: Duration) -> Timestamp {
        if self.era == era.number {
            self.turn_at + tolerance
        } else {
            era.older_turns_end()
        }
    }
}

/// How long a step that sends may take: until it has a line and its turn, and for the answer.
pub const LONGEST_SEND: Duration = Duration::from_mins(2);

/// How long the turn of an open attempt may still be used.
pub fn busy_for(past: &[Past], era: Era, tolerance: Duration, now: Timestamp) -> Option<Duration> {
    let open = past.iter().find(|past| past.state == AttemptState::Open)?;
    let left = open.usable_until(era, tolerance).duration_since(now);
    let left = Duration::try_from(left).ok()?;
    (!left.is_zero()).then_some(left)
}

/// What is said of attempts that an answer has disproved.
pub fn disproof(answer: &str) -> String {
    format!("a later answer shows that it was not done: {answer}")
}

#[derive(Debug, Clone)]
pub struct TurnsWanted {
    pub lane: LaneName,
    /// Which configuration of a connector sends them; none if its refusals do not count.
    pub watch: Option<WatchId>,
    /// How long the commit may take before the first turn is due.
    pub lead: Duration,
    pub attempts: Vec<NewTurn>,
}

#[derive(Debug, Clone)]
pub struct CallWanted {
    pub lane: LaneName,
    /// As for [`TurnsWanted`].
    pub lead: Duration,
    /// How much of the lane's rate all such calls together may take.
    pub share: Decimal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallTurn {
    pub now: Timestamp,
    pub given: CallGiven,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallGiven {
    At(Timestamp),
    /// Not within reach yet; nothing was changed.
    AskAgainIn(Duration),
    /// The lane sends nothing.
    Closed {
        why: String,
    },
}

#[derive(Debug, Clone)]
pub struct NewTurn {
    pub item: Item,
    pub run: u32,
    pub kind: AttemptKind,
    pub key: String,
    /// Never before this time.
    pub planned: Timestamp,
    /// The latest attempt of the item when the sender decided to ask. Any later one, whatever
    /// became of it, refuses the turn.
    pub seen: Option<AttemptId>,
    /// An attempt that is open already and missed its turn: it gets another, and the missed one
    /// leaves the log, since nothing was sent in it.
    pub missed: Option<AttemptId>,
    /// It was sent before and may have been done: its deadline does not bind it any more.
    pub may_be_late: bool,
}

#[derive(Debug, Clone)]
pub struct TurnBlock {
    pub now: Timestamp,
    /// The era of `now` and of the turns; perhaps an older one than theirs, never a newer.
    pub era: i64,
    /// In the order of the wanted attempts.
    pub turns: Vec<Turn>,
    /// When to ask again for those who were told `Later`.
    pub ask_again_in: Duration,
}

impl TurnBlock {
    /// The answer of a lane that sends nothing.
    pub fn closed(wanted: usize, why: String, until: Option<Timestamp>, now: Timestamp) -> Self {
        let for_at_least = closed_for(until, now);
        Self {
            now,
            era: 0,
            turns: vec![Turn::Closed { why, for_at_least }; wanted],
            ask_again_in: for_at_least,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    At {
        attempt: AttemptId,
        at: Timestamp,
    },
    /// Beyond the horizon for now.
    Later,
    /// The lane sends nothing: paused, or closed by its calendar or its downstream.
    Closed {
        why: String,
        for_at_least: Duration,
    },
    /// It would go out after its deadline, and must not.
    TooLate,
    /// Not this sender's to send: the queue row names another run.
    NotYours(String),
    /// There is an attempt that this sender has not seen, or one that has done it. Nothing was sent;
    /// the sender reads the history again and decides again.
    LookAgain(String),
}

#[derive(Debug, Clone)]
pub struct Settlement {
    pub attempt: AttemptId,
    pub item: Item,
    pub run: u32,
    pub outcome: Outcome,
    pub record: Option<StatusMove>,
    pub then: Then,
    /// It proves that what was Unknown before it was not done: for the run that owns the item, those
    /// attempts are Retry from here on.
    pub disproves: bool,
    /// The downstream asked for quiet: no turn of this lane until then.
    pub close_lane: Option<(LaneName, Duration)>,
    /// The item's accounts. What is written about its lane does not repeat them.
    pub accounts: Vec<String>,
}

impl Settlement {
    /// The downstream's answer as texts about its lane may quote it.
    pub fn answer_without_accounts(&self) -> String {
        without_accounts(self.outcome.detail(), &self.accounts)
    }

    /// Whether it counts among the item's failures when the item goes back to the queue. A proof that nothing was
    /// done does not, nor does a decline, after which other pauses apply.
    pub fn is_failure(&self) -> bool {
        match &self.outcome {
            Outcome::Retry { .. } | Outcome::Unknown(_) => !self.disproves,
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Declined(_) => false,
        }
    }
}

/// A compare-and-set of a record's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusMove {
    /// Moves only from one of these; from any other it stays.
    pub from: Vec<String>,
    pub to: String,
}

impl StatusMove {
    pub fn new(from: &[&str], to: &str) -> Self {
        Self {
            from: from.iter().map(|&s| s.to_owned()).collect(),
            to: to.to_owned(),
        }
    }
}

/// What happens to the queue row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Then {
    /// The flow goes on.
    Stay,
    Finish,
    /// Back to READY as the next run, after this time. Waiting happens in the queue.
    Requeue {
        after: Duration,
        why: String,
    },
}
