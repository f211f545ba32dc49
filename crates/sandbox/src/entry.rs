//! One line of the ledger: what arrived, when, and what came of it. It holds no account and no
//! body, only the body's hash.

use std::time::Duration;

use serde::{Serialize, Serializer};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When the head of the request was seen, since the ledger was opened (`Ledger::wall_anchor`).
    #[serde(rename = "arrivalSecs", serialize_with = "in_secs")]
    pub arrival: Duration,
    pub kind: Kind,
    /// The idempotency key, if one was sent.
    pub key: Option<String>,
    /// None if the request could not be read. `invoice/{invoiceId}` for a charge.
    pub payment_id: Option<String>,
    /// None until the whole body has arrived.
    pub body_sha256: Option<String>,
    /// As it was written in the body; None for a probe or an unreadable body.
    pub amount: Option<String>,
    pub currency: Option<String>,
    pub effect: Effect,
    /// The fault that struck it, in the words of the spec. Delays are not listed.
    pub fault: Option<String>,
    /// Whether a whole answer was handed to the connection; whether it reached the client, only
    /// the client knows.
    pub answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// `POST /payments`, `POST /charge`
    Send,
    /// `GET /payments/{paymentId}`, `GET /charge/{key}`
    Probe,
    /// `POST /webhooks`: counted among the faults, and written down as a [`crate::Delivery`].
    Webhook,
    /// The three services of a status check: counted among the faults, and written down as a
    /// [`crate::ServiceCall`].
    Lookup,
    Notify,
    Check,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Money moved.
    Took,
    /// A charge that was declined: no money moved, and under this key none ever will.
    Declined,
    /// The key was known: the first answer was given again and no money moved.
    Repeated,
    /// Over the bank's limit, or a fault that says so; nothing was done.
    Refused429,
    /// Unreadable, a known key with another body, a key in use, or a fault that answers with
    /// another 4xx; nothing was done.
    RefusedOther,
    /// Nothing was done and nobody was told so: a fault before the work, a client gone before its
    /// last byte, or a request that is still being read or worked on.
    LostBefore,
    /// A probe for a payment that had taken effect.
    Found,
    /// A probe for a payment that had not.
    NotFound,
    /// A probe for a payment that had taken effect, and was told that it had not: it had not
    /// settled yet, or a fault denied it.
    Hidden,
}

fn in_secs<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
