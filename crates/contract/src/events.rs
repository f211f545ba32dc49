//! Events: moves of items, published to a topic.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of event publishing: every move of a payment or an invoice, published to a topic.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Events {
    /// Whether moves write events. A process that starts with `[events]` in its configuration turns this on.
    pub on: bool,
    /// Events that are not published yet.
    pub backlog: u64,
    /// Whether there may be more events than `backlog`.
    pub backlog_is_capped: bool,
    /// Time of the oldest event that is not published yet.
    pub oldest_at: Option<Timestamp>,
    /// Process that publishes.
    pub owner: Option<String>,
    /// Events published so far.
    pub published: u64,
    /// Time at which an event was last published.
    pub last_published_at: Option<Timestamp>,
    /// Current problem with the brokers. Tollgate keeps trying; events are kept.
    pub trouble: Option<String>,
    /// Time at which the problem was noticed.
    pub trouble_at: Option<Timestamp>,
    /// How the settings of another process differ from those of the process that publishes.
    pub difference: Option<String>,
}

/// Effect of turning events off.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventsOff {
    /// Events that were not published and are lost.
    pub dropped: u64,
}
