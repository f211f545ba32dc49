//! The one clock that decides about time shared between nodes: the database's.

use async_trait::async_trait;

use super::StoreResult;
use crate::Timestamp;

/// What the shared clock shows, and in which life of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub now: Timestamp,
    /// Another number after a failover or a restore: what was reserved before may be gone.
    pub timeline: u32,
}

#[async_trait]
pub trait SharedClock: Send + Sync {
    async fn now(&self) -> StoreResult<Timestamp> {
        Ok(self.read_clock().await?.now)
    }
    async fn read_clock(&self) -> StoreResult<Reading>;
}
