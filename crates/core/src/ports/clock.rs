//! The one clock that decides about time shared between nodes: the database's.

use async_trait::async_trait;

use super::StoreResult;
use crate::Timestamp;

#[async_trait]
pub trait SharedClock: Send + Sync {
    async fn now(&self) -> StoreResult<Timestamp>;
}
