//! A connector: the way to one downstream. A send without a permit does not compile, and a permit
//! comes only from the gate.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use thiserror::Error;

use crate::Timestamp;
use crate::id::{AttemptId, LaneName, WatchId};
use crate::marker::Marker;
use crate::outcome::Outcome;

#[async_trait]
pub trait Connector: Send + Sync {
    /// The one lane through which this downstream is reached.
    fn lane(&self) -> &LaneName;
    fn profile(&self) -> &Profile;
    /// Why nothing can be made of this request, whoever sends it; none if it can be sent.
    fn why_not(&self, _request: &Request) -> Option<String> {
        None
    }
    /// The right to one exchange, before any turn is taken: the downstream can be reached, and one of
    /// the connections that it may have is ours. Failing here has sent nothing and costs no turn.
    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection>;
}

/// Why there is no connection. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoConnection {
    /// All our own connections are in use, or this machine has no descriptor, memory or port left: this says
    /// nothing about the downstream.
    #[error("{0}")]
    Busy(String),
    #[error("{0}")]
    Unreachable(String),
    /// Nothing that would let us in can be had now: neither the item nor the downstream has failed.
    #[error("{0}")]
    NoLogin(String),
}

impl NoConnection {
    /// Says which downstream it is about.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Busy(why) => Self::Busy(format!("{place}: {why}")),
            Self::Unreachable(why) => Self::Unreachable(format!("{place}: {why}")),
            Self::NoLogin(why) => Self::NoLogin(format!("{place}: {why}")),
        }
    }
}

/// What came of an exchange: what it proves about the item, and what it tells about the downstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeResult {
    pub outcome: Outcome,
    pub health: Health,
    /// It is Done by the word that it is a duplicate: proof only of an earlier send under this key.
    pub is_duplicate: bool,
}

/// The permit expired before the first byte left. Nothing was sent, neither the item nor the downstream is to
/// blame, and another turn may be taken at once.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Missed(pub String);

/// What an exchange tells about the downstream itself, whatever became of the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// No byte went out.
    Untold,
    Answers,
    /// No answer, or none that can be understood.
    Fails,
    /// It takes nothing from us at all, or somebody else answers in its place: until a person has put
    /// something right, nothing is sent. The reason goes to operators and into the log, and repeats nothing of a body.
    TurnsUsAway {
        why: String,
    },
}

/// The right to one exchange with a downstream. It has a socket only from shortly before its turn.
#[async_trait]
pub trait Connection: Send + Sync {
    /// Takes or renews the socket for a turn at this time of the node's clock. Called when the turn
    /// is granted; one that waits holds no socket that could die meanwhile.
    async fn connect_for(&mut self, _turn: Instant) -> Result<(), NoConnection> {
        Ok(())
    }
    /// Sends now, and judges the answer by the downstream's contract.
    async fn send(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed>;
    /// Asks now whether it was done: `Done`, `Declined`, `Retry` (the downstream knows nothing of
    /// it), or `Unknown`.
    async fn probe(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed>;
}

/// What goes out. Built by the domain; the connector knows where and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The item's own id, which the answer must name.
    pub reference: String,
    pub idempotency_key: String,
    pub body_json: String,
    /// Which configuration of the connector sent it first, if it may have gone out before: it goes out again with the
    /// same bytes.
    pub sent_by: Option<WatchId>,
}

/// What a downstream promises about repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub honours_idempotency_key: bool,
    /// How long a key is remembered, from the first send.
    pub key_retention: Duration,
    /// How long after the last send "unknown to me" proves that it was not done.
    pub settle: Duration,
    pub timeout: Duration,
    /// The statuses that promise that nothing was done; `[429]` unless configured. A 5xx counts
    /// only when it also says `Retry-After`.
    pub means_not_done: Vec<u16>,
    /// How a 4xx is recognised as the downstream's own.
    pub recognised_by: Marker,
    /// Whether questions are asked by the key. Then "unknown to me" is no evidence once the key may
    /// be forgotten.
    pub asks_by_key: bool,
}

impl Profile {
    /// Whether a send whose answer was lost may go out again under the same key.
    pub fn may_resend(&self, first_sent: Timestamp, now: Timestamp) -> bool {
        self.honours_idempotency_key && self.remembers(first_sent, now)
    }

    /// Whether the key of a send is still known, as far as the downstream promises.
    pub fn remembers(&self, first_sent: Timestamp, now: Timestamp) -> bool {
        let age = now.duration_since(first_sent);
        let promise = self.key_retention.saturating_sub(self.timeout);
        !age.is_negative() && age.unsigned_abs() < promise
    }

    /// Whether "unknown to me" is evidence yet.
    pub fn has_settled(&self, last_sent: Timestamp, now: Timestamp) -> bool {
        let age = now.duration_since(last_sent);
        !age.is_negative() && age.unsigned_abs() >= self.settle
    }
}

/// The right to send once, now. Not `Clone`, used up by sending, and void after `use_by`: whoever writes
/// the first byte checks it, so that a process that was stopped after the gate does not send late.
#[derive(Debug)]
#[must_use = "a permit that is not used wastes a turn of the lane"]
pub struct Permit {
    attempt: AttemptId,
    turn_at: Timestamp,
    era: i64,
    use_by: Instant,
}

impl Permit {
    /// Only the gate calls this (the tidy test checks it), after the turn is durable and its
    /// time has come.
    pub fn granted_by_the_gate(
        attempt: AttemptId,
        turn_at: Timestamp,
        era: i64,
        use_by: Instant,
    ) -> Self {
        Self {
            attempt,
            turn_at,
            era,
            use_by,
        }
    }
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }
    pub fn turn_at(&self) -> Timestamp {
        self.turn_at
    }
    /// Which era's clock shows `turn_at`.
    pub fn era(&self) -> i64 {
        self.era
    }
    /// The last moment for the first byte, by the node's clock, which goes on while the process is
    /// stopped.
    pub fn use_by(&self) -> Instant {
        self.use_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(honours: bool) -> Profile {
        Profile {
            honours_idempotency_key: honours,
            key_retention: Duration::from_secs(100),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        }
    }
    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }

    #[test]
    fn no_resend_after_the_retention_less_the_timeout_nor_when_the_clock_ran_back() {
        let may = |secs| profile(true).may_resend(at(0), at(secs));
        assert!(may(0) && may(89));
        assert!(!may(90) && !may(-1));
        assert!(!profile(false).may_resend(at(0), at(1)));
    }

    #[test]
    fn unknown_to_me_is_no_evidence_before_the_settle_time() {
        let settled = |secs| profile(true).has_settled(at(0), at(secs));
        assert!(!settled(59) && !settled(-100));
        assert!(settled(60));
    }
}
