//! One line of the ledger: what arrived, when, and what came of it. It holds no account and no
//! body, only the body's hash.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When the head of the request was seen, since the ledger was opened (`Ledger::wall_anchor`).
    pub arrival: Duration,
    pub kind: Kind,
    /// The idempotency key, if one was sent.
    pub key: Option<String>,
    /// None if the request could not be read.
    pub payment_id: Option<String>,
    /// None until the whole body has arrived.
    pub body_sha256: Option<String>,
    /// As it was written in the body; None for a probe or an unreadable body.
    pub amount: Option<String>,
    pub currency: Option<String>,
    pub effect: Effect,
    /// Whether an answer was handed to the connection; whether it reached the client, only the
    /// client knows.
    pub answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `POST /payments`
    Send,
    /// `GET /payments/{paymentId}`
    Probe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Money moved.
    Took,
    /// The key was known: the first answer was given again and no money moved.
    Repeated,
    /// Over the bank's limit; nothing was done.
    Refused429,
    /// Unreadable, or a known key with another body; nothing was done.
    RefusedOther,
    /// Nothing was done and nothing was answered: a fault, a client gone before its last byte, or
    /// a request that is still being read.
    LostBefore,
    /// A probe for a payment that had taken effect.
    Found,
    /// A probe for a payment that had not.
    NotFound,
}
