//! Why a store did not do what it was asked: one variant per thing the caller can do about it.

use thiserror::Error;

pub type StoreResult<T> = Result<T, StoreError>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Not now. What was asked is usually not written; where a commit's answer was lost it may be,
    /// so every operation is safe to repeat. Tell clients 503.
    #[error("the store cannot be used right now: {0}")]
    Unavailable(String),
    /// Another node has taken over. Stop; it goes on.
    #[error("another node has taken over: {0}")]
    Fenced(String),
    /// What was asked can never be done; the sentence names the field and the remedy.
    #[error("{0}")]
    Invalid(String),
    /// Our own mistake.
    #[error("bug in the store: {0}")]
    Bug(String),
}

impl StoreError {
    /// Whether the same may go well another time, here or on the node that has taken over.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Fenced(_) => true,
            Self::Invalid(_) | Self::Bug(_) => false,
        }
    }
}
