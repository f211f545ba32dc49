//! Whether the store can be used: a write that is tried, a word that ends the process, and how
//! busy its connections are.

use async_trait::async_trait;

use super::StoreResult;

#[async_trait]
pub trait StoreHealth: Send + Sync {
    /// Writes something small, durably. An error means that nothing can be written now.
    async fn try_write(&self) -> StoreResult<()>;

    /// Resolves, with one sentence, once the store must not be used any more: an fsync failed, so
    /// that what is durable is unknown, or the file is damaged. Its process must end.
    async fn broken(&self) -> String;

    fn connections(&self) -> StoreConnections;
}

/// The store's connections, counted now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreConnections {
    /// As many as there may be.
    pub most: usize,
    pub in_use: usize,
    /// Operations that wait for one.
    pub waiting: usize,
}
