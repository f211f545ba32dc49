//! What became of one attempt to send. A lost answer is `Unknown`, never `Retry`.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The downstream did it; its answer.
    Done(String),
    /// A definite no, with the reason.
    Refused(String),
    /// The downstream's word about this very idempotency key: it was not done and never will be.
    /// It may be asked again, under another key.
    Declined(String),
    /// Definitely not done; may be tried again.
    Retry { why: String, quiet: Quiet },
    /// Sent, or perhaps sent, and the answer is lost. Ends by evidence or by a person.
    Unknown(String),
}

impl Outcome {
    pub fn retry(why: impl Into<String>) -> Self {
        Self::Retry {
            why: why.into(),
            quiet: Quiet::No,
        }
    }

    pub fn state(&self) -> AttemptState {
        match self {
            Self::Done(_) => AttemptState::Done,
            Self::Refused(_) => AttemptState::Refused,
            Self::Declined(_) => AttemptState::Declined,
            Self::Retry { .. } => AttemptState::Retry,
            Self::Unknown(_) => AttemptState::Unknown,
        }
    }

    /// The downstream's answer, or why there is none.
    pub fn detail(&self) -> &str {
        match self {
            Self::Done(text) | Self::Refused(text) | Self::Declined(text) | Self::Unknown(text) => {
                text
            }
            Self::Retry { why, .. } => why,
        }
    }
}

/// How long the whole lane should stay quiet after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiet {
    No,
    /// As the downstream asked.
    For(Duration),
}

/// An attempt is open from the moment its turn is taken until its outcome is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttemptState {
    Open,
    Done,
    Refused,
    Declined,
    Retry,
    Unknown,
}

impl AttemptState {
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Done,
        Self::Refused,
        Self::Declined,
        Self::Retry,
        Self::Unknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Done => "DONE",
            Self::Refused => "REFUSED",
            Self::Declined => "DECLINED",
            Self::Retry => "RETRY",
            Self::Unknown => "UNKNOWN",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// What an attempt asks of the downstream. Both take a turn at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttemptKind {
    /// Do it.
    Send,
    /// Was it done?
    Probe,
}

impl AttemptKind {
    pub const ALL: [Self; 2] = [Self::Send, Self::Probe];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Probe => "PROBE",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.as_str() == text)
    }
}
