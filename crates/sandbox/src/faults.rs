//! What goes wrong on purpose, as rules: which arrivals, and what happens to them. The words in
//! which they are written are read in `spec.rs`; when they strike is decided in `fate.rs`.

use std::{
    fmt,
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

use http::StatusCode;

use crate::entry::Kind;

/// The faults in force, in order; none by default. Read from text: `"send 3: reset after".parse()`.
/// `Display` gives the text back, one rule a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    pub(crate) rules: Vec<Rule>,
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// These, and behind them the others: of two that would strike alike, the first does.
    #[must_use]
    pub fn and_then(mut self, others: Self) -> Self {
        self.rules.extend(others.rules);
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) which: Which,
    pub(crate) fault: Fault,
}

/// The arrivals that a rule is about; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Which {
    pub(crate) subject: Subject,
    /// One in so many, at random by the seed.
    pub(crate) one_in: Option<NonZeroU32>,
    /// By their numbers, among the subject and the payment named.
    pub(crate) numbers: Option<Numbers>,
    pub(crate) payment: OfPayment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Sends,
    Probes,
    Webhooks,
    /// The calls of status checks: Elasticsearch, the IDB facade, the PGI gateway.
    Lookups,
    Notifies,
    Checks,
    /// Sends and probes: what reaches the bank.
    All,
}

/// From the first to the last of them, both included; without a last one, all that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) first: NonZeroU64,
    pub(crate) last: Option<NonZeroU64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OfPayment {
    Any,
    /// Any, and each payment's arrivals are numbered by themselves.
    Each,
    Named(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The answer is held back so long after the work.
    Latency(Duration),
    /// The work takes so long, and its key is in use meanwhile. It is done even if the client leaves.
    Work(Duration),
    /// So long after the work a probe still finds nothing.
    Settle(Duration),
    /// So long after the work the key is forgotten, and a repeat takes effect again.
    ForgetKey(Duration),
    /// A charge is declined: the work is to say no.
    Decline,
    Blow(Blow),
}

/// What happens to the answer, and whether the work had been done by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blow {
    pub(crate) strike: Strike,
    pub(crate) when: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Instead of the work.
    Before,
    /// Instead of the answer.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    Status {
        status: StatusCode,
        retry_after_secs: Option<u32>,
    },
    /// Somebody on the way answers in the bank's place, with this status and in plain text.
    Stranger { status: StatusCode },
    /// A TCP reset.
    Reset,
    /// Never an answer; the connection stays open.
    Stall,
    /// The head and half of the body, then the end of the connection.
    Half,
    /// 200 with a body that is no JSON.
    Garbage,
    /// 200 with nothing in it.
    Empty,
    /// 200 with JSON that names another payment.
    WrongId,
    /// 200 with JSON that says another amount.
    WrongAmount,
    /// 200 with JSON of this size.
    Huge { megabytes: u32 },
}

impl Subject {
    pub(crate) fn includes(self, kind: Kind) -> bool {
        match self {
            Self::Sends => kind == Kind::Send,
            Self::Probes => kind == Kind::Probe,
            Self::Webhooks => kind == Kind::Webhook,
            Self::Lookups => kind == Kind::Lookup,
            Self::Notifies => kind == Kind::Notify,
            Self::Checks => kind == Kind::Check,
            Self::All => matches!(kind, Kind::Send | Kind::Probe),
        }
    }
}

impl Numbers {
    pub(crate) fn include(self, number: u64) -> bool {
        self.first.get() <= number && self.last.is_none_or(|last| number <= last.get())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            writeln!(f, "{}: {}", rule.which, rule.fault)?;
        }
        Ok(())
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = self.one_in {
            write!(f, "1 in {n} ")?;
        }
        f.write_str(match self.subject {
            Subject::Sends => "sends",
            Subject::Probes => "probes",
            Subject::Webhooks => "webhooks",
            Subject::Lookups => "lookups",
            Subject::Notifies => "notifies",
            Subject::Checks => "checks",
            Subject::All => "all",
        })?;
        match self.numbers {
            None => {}
            Some(Numbers { first, last: None }) => write!(f, " {first}-")?,
            Some(Numbers { first, last }) if last == Some(first) => write!(f, " {first}")?,
            Some(Numbers {
                first,
                last: Some(last),
            }) => write!(f, " {first}-{last}")?,
        }
        match &self.payment {
            OfPayment::Any => Ok(()),
            OfPayment::Each => f.write_str(" of each payment"),
            OfPayment::Named(id) => write!(f, " of payment {id}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(time) => write!(f, "latency {}ms", time.as_millis()),
            Self::Work(time) => write!(f, "work {}ms", time.as_millis()),
            Self::Settle(time) => write!(f, "settle {}ms", time.as_millis()),
            Self::ForgetKey(time) => write!(f, "forget-key {}ms", time.as_millis()),
            Self::Decline => f.write_str("decline"),
            Self::Blow(blow) => blow.fmt(f),
        }
    }
}

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut retry_after = None;
        match self.strike {
            Strike::Status {
                status,
                retry_after_secs,
            } => {
                retry_after = retry_after_secs;
                f.write_str(status.as_str())?;
            }
            Strike::Stranger { status } => write!(f, "stranger {}", status.as_str())?,
            Strike::Reset => f.write_str("reset")?,
            Strike::Stall => f.write_str("stall")?,
            Strike::Half => f.write_str("half")?,
            Strike::Garbage => f.write_str("garbage")?,
            Strike::Empty => f.write_str("empty")?,
            Strike::WrongId => f.write_str("wrong-id")?,
            Strike::WrongAmount => f.write_str("wrong-amount")?,
            Strike::Huge { megabytes } => write!(f, "huge {megabytes}")?,
        }
        f.write_str(match self.when {
            When::Before => " before",
            When::After => " after",
        })?;
        match retry_after {
            Some(secs) => write!(f, " retry-after {secs}"),
            None => Ok(()),
        }
    }
}
