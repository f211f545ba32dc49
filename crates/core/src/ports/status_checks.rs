//! Status checks as rows: what is asked, how far it has come, and what came of it. Flows carry none
//! of it, so their payloads stay small and progress is right at any moment, on either engine.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Page, PageFrom, PageToken, StoreResult};
use crate::Timestamp;
use crate::id::FlowId;

#[async_trait]
pub trait StatusChecks: Send + Sync {
    /// Begins a check of so many payments, with the parts of its list of lookups. False if the id
    /// is taken; then nothing was changed.
    async fn open_check(
        &self,
        check: &FlowId,
        total: u32,
        lookups: Vec<String>,
    ) -> StoreResult<bool>;

    /// Adds parts to a list, from a number on. A number that is there already stays as it is.
    async fn add_parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        bodies: Vec<String>,
    ) -> StoreResult<()>;

    /// The parts of a list from a number on, in their order.
    async fn parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        limit: u32,
    ) -> StoreResult<Vec<Part>>;

    /// Writes what came of the parts of this range that have no outcome yet: the first one stays.
    async fn end_parts(&self, check: &FlowId, ended: EndedParts) -> StoreResult<()>;

    /// Moves a check on; never back, and not after its end. Every gateway's chunks are there.
    async fn begin_gateways(&self, check: &FlowId, gateways: u32) -> StoreResult<()>;
    async fn begin_aggregation(&self, check: &FlowId) -> StoreResult<()>;
    /// The first end stays.
    async fn end_check(&self, check: &FlowId, end: CheckEnd) -> StoreResult<()>;

    async fn check(&self, check: &FlowId) -> StoreResult<Option<CheckView>>;

    /// All checks, the newest first.
    async fn checks(
        &self,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<CheckLine, PageToken>>;

    /// How far a check is with each gateway that has chunks, by its number, after one of them.
    async fn check_gateways(
        &self,
        check: &FlowId,
        after: Option<u32>,
        limit: u32,
    ) -> StoreResult<Page<GatewayView, u32>>;

    /// Removes what is older than this, at most so many parts at a time, the oldest check first.
    /// Returns how many rows it removed; none when there is nothing left to remove.
    async fn forget_checks(&self, older_than: Duration, most: u32) -> StoreResult<u64>;
}

/// One list of a check's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartList {
    /// The payments to look up, some hundred a part.
    Lookups,
    /// The chunks of the gateway of this number.
    Chunks { gateway: u32 },
}

impl PartList {
    /// How it is written: the chunks are those above zero.
    pub fn number(self) -> i64 {
        match self {
            Self::Lookups => 0,
            Self::Chunks { gateway } => i64::from(gateway) + 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    pub body_json: String,
    pub outcome_json: Option<String>,
}

/// What came of the parts `from..to` of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedParts {
    pub list: PartList,
    pub from: u32,
    pub to: u32,
    pub outcome_json: String,
    /// Counted among the chunks that failed.
    pub failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CheckPhase {
    EsLookup,
    GatewayProcessing,
    Aggregating,
    Completed,
}

impl CheckPhase {
    pub const ALL: [Self; 4] = [
        Self::EsLookup,
        Self::GatewayProcessing,
        Self::Aggregating,
        Self::Completed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::EsLookup => "ES_LOOKUP",
            Self::GatewayProcessing => "GATEWAY_PROCESSING",
            Self::Aggregating => "AGGREGATING",
            Self::Completed => "COMPLETED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckEnd {
    Completed {
        result_json: String,
    },
    /// The phase stays the one it failed in.
    Failed {
        error: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckView {
    pub phase: CheckPhase,
    pub total: u32,
    pub gateways: u32,
    /// The chunks that are there, those with an outcome, and those of them that failed.
    pub chunks: u32,
    pub chunks_ended: u32,
    pub chunks_failed: u32,
    pub opened_at: Timestamp,
    pub end: Option<CheckEnd>,
}

/// A check in a list, as its own row tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    pub check: FlowId,
    pub phase: CheckPhase,
    pub total: u32,
    pub gateways: u32,
    pub opened_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Ended, and not by its completion.
    pub failed: bool,
}

impl CheckLine {
    pub fn page_token(&self) -> PageToken {
        PageToken::new(self.opened_at.as_microsecond(), &self.check)
    }
}

/// A gateway of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayView {
    pub gateway: u32,
    /// Its first chunk, which says whose it is.
    pub first_chunk_json: String,
    pub chunks: u32,
    pub chunks_ended: u32,
    pub chunks_failed: u32,
}
