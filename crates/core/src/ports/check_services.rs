//! The services that a status check asks: where a payment is known, who is told, who is asked.

use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

/// Each call is one exchange that lasts no longer than `within`; nothing is tried again in here.
#[async_trait]
pub trait CheckServices: Send + Sync {
    /// Which gateway has the payment.
    async fn gateway_of(&self, payment_id: &str, within: Duration) -> Result<String, CallError>;

    /// Announces that these payments of a gateway are asked about.
    async fn announce(
        &self,
        gateway: &str,
        payment_ids: &[String],
        within: Duration,
        turn: &dyn TakeTurn,
    ) -> Result<(), CallError>;

    /// Has the gateway asked about one payment.
    async fn ask(
        &self,
        gateway: &str,
        payment_id: &str,
        within: Duration,
        turn: &dyn TakeTurn,
    ) -> Result<GatewayAnswer, CallError>;
}

/// Waits for the turn of one call. Asked with a ready connection in hand, and outside the call's
/// own time.
#[async_trait]
pub trait TakeTurn: Send + Sync {
    /// Or why there is none, for now.
    async fn take(&self) -> Result<(), String>;
}

/// That there is an answer means that the call worked, not that money moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAnswer {
    /// It names the payment that was asked about and says that it is completed: that is evidence.
    pub completed: bool,
    /// The gateway's own reference, if it gave one.
    pub reference: Option<String>,
}

/// Why a call gave nothing, by what the caller does about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The payment is not known there.
    #[error("not found")]
    NotFound,
    /// Asking again would fare no better.
    #[error("{0}")]
    Refused(String),
    /// A server error, a timeout or the network: may be tried again.
    #[error("{0}")]
    Failed(String),
}
