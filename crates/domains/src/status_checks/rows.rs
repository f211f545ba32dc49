//! The steps between the calls: what a check works on is read, and what came of it is written. Each
//! may run twice; the first record of anything stays.

use std::time::Duration;

use metrics::counter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Policy, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{CheckEnd, EndedParts, Part, PartList};

use super::World;
use super::grouping::{CheckStatusResult, Chunk, ChunkOutcome, Group, ProgressInfo, group, kept};
use crate::steps;

/// Some of these steps go through all rows of a check.
pub(super) const STORE_STEP: Policy = Policy {
    timeout: Duration::from_mins(2),
    ..steps::STORE_STEP
};
/// At most this many parts are read or written at once: a write holds up nobody else's turn.
const PARTS_AT_ONCE: u32 = 200;

/// The payments of one part of the lookups.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadLookups {
    pub part: u32,
}

impl Step for ReadLookups {
    const NAME: &'static str = "readLookups";
    const SHORT: bool = true;
    type Out = Vec<String>;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.part)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<Vec<String>, StepError> {
        let parts = world.parts(&call.flow_id, PartList::Lookups, self.part, 1);
        match parts.await?.pop() {
            Some(part) if part.number == self.part => read(&part.body_json),
            _ => Err(gone()),
        }
    }
}

/// The gateway of each payment of a part, or none where the lookup failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordLookups {
    pub part: u32,
    pub gateways: Vec<Option<String>>,
}

impl Step for RecordLookups {
    const NAME: &'static str = "recordLookups";
    const SHORT: bool = true;
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.part)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<(), StepError> {
        let ended = EndedParts {
            list: PartList::Lookups,
            from: self.part,
            to: self.part + 1,
            outcome_json: written(&self.gateways)?,
            failed: false,
        };
        Ok(world.store.end_parts(&call.flow_id, ended).await?)
    }
}

/// Groups what was found, writes the chunks of every gateway and moves the check on. The answer is
/// how many chunks each gateway has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanChunks {
    pub chunk_size: u32,
}

impl Step for PlanChunks {
    const NAME: &'static str = "planChunks";
    type Out = Vec<u32>;
    type World = World;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<Vec<u32>, StepError> {
        let check = &call.flow_id;
        let groups = group(world.lookups(check).await?);
        let size = usize::try_from(self.chunk_size)
            .unwrap_or(usize::MAX)
            .max(1);
        let mut counts = Vec::with_capacity(groups.len());
        for (gateway, group) in (0..).zip(&groups) {
            counts.push(world.write_chunks(check, gateway, group, size).await?);
        }
        let begun = world.store.begin_gateways(check, number(counts.len()));
        begun.await?;
        let (gateways, chunks) = (counts.len(), counts.iter().sum::<u32>());
        tracing::info!(%check, gateways, chunks, "a status check has looked up its payments and queries the gateways");
        Ok(counts)
    }
}

/// Some chunks of a gateway, from one on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadChunks {
    pub check: FlowId,
    pub gateway: u32,
    pub from: u32,
    pub limit: u32,
}

impl Step for ReadChunks {
    const NAME: &'static str = "readChunks";
    const SHORT: bool = true;
    type Out = Vec<Chunk>;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.from)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, _: &Call) -> Result<Vec<Chunk>, StepError> {
        let gateway = self.gateway;
        let list = PartList::Chunks { gateway };
        let parts = world
            .parts(&self.check, list, self.from, self.limit)
            .await?;
        parts.iter().map(|part| read(&part.body_json)).collect()
    }
}

/// What came of one chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordChunk {
    pub check: FlowId,
    pub gateway: u32,
    pub index: u32,
    pub outcome: ChunkOutcome,
}

impl Step for RecordChunk {
    const NAME: &'static str = "recordChunk";
    const SHORT: bool = true;
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.index)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, _: &Call) -> Result<(), StepError> {
        let gateway = self.gateway;
        let ended = EndedParts {
            list: PartList::Chunks { gateway },
            from: self.index,
            to: self.index + 1,
            outcome_json: written(&self.outcome)?,
            failed: self.outcome.has_failed(),
        };
        world.store.end_parts(&self.check, ended).await?;
        world.show(&self.check).await;
        Ok(())
    }
}

/// A gateway's flow has failed as a whole: what it has not reached has failed with it. The answer is how many of its
/// chunks have failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FailGateway {
    pub gateway: u32,
    pub error: String,
}

impl Step for FailGateway {
    const NAME: &'static str = "failGateway";
    const SHORT: bool = true;
    /// Nothing in what was recorded before it was counted.
    type Out = Option<u32>;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.gateway)
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<Option<u32>, StepError> {
        let gateway = self.gateway;
        let error = kept(&format!("the gateway's workflow failed: {}", self.error));
        let ended = EndedParts {
            list: PartList::Chunks { gateway },
            from: 0,
            to: i32::MAX.unsigned_abs(),
            outcome_json: written(&ChunkOutcome::NotAnnounced { error })?,
            failed: true,
        };
        world.store.end_parts(&call.flow_id, ended).await?;
        world.show(&call.flow_id).await;
        let page = world
            .store
            .check_gateways(&call.flow_id, gateway.checked_sub(1), 1);
        let view = page.await?.items.into_iter().next();
        Ok(view.map(|view| view.chunks_failed))
    }
}

/// Puts everything together and ends the check.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Aggregate {
    pub gateways: u32,
}

impl Step for Aggregate {
    const NAME: &'static str = "aggregate";
    type Out = ProgressInfo;
    type World = World;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<ProgressInfo, StepError> {
        let (check, store) = (&call.flow_id, &world.store);
        store.begin_aggregation(check).await?;
        tracing::info!(%check, "a status check has queried every gateway and builds its result");
        let lookups = world.lookups(check).await?.into_iter();
        let failed = lookups.filter(|(_, gateway)| gateway.is_none());
        let mut result = CheckStatusResult {
            gateway_lookup_failed: failed.map(|(id, _)| id).collect(),
            ..CheckStatusResult::default()
        };
        for gateway in 0..self.gateways {
            let list = PartList::Chunks { gateway };
            for part in world.all_parts(check, list).await? {
                let outcome = part.outcome_json.as_deref().map(read).transpose()?;
                result.add(part.number, read(&part.body_json)?, outcome);
            }
        }
        let result_json = written(&result)?;
        let ended = store.end_check(check, CheckEnd::Completed { result_json });
        ended.await?;
        let view = store.check(check).await?;
        if let Some(view) = &view {
            let progress = ProgressInfo::of(view);
            let (payments, chunks, failed) = (
                progress.total_payments,
                progress.chunks_total,
                progress.chunks_failed,
            );
            tracing::info!(%check, payments, chunks, failed, "a status check has completed");
            count_end("completed");
        }
        view.as_ref().map(ProgressInfo::of).ok_or_else(gone)
    }
}

/// The check has failed as a whole; its error is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FailCheck {
    pub error: String,
}

impl Step for FailCheck {
    const NAME: &'static str = "failCheck";
    const SHORT: bool = true;
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &World, call: &Call) -> Result<(), StepError> {
        let error = kept(&self.error);
        tracing::warn!(check = %call.flow_id, error, "a status check has failed");
        count_end("failed");
        let end = CheckEnd::Failed { error };
        Ok(world.store.end_check(&call.flow_id, end).await?)
    }
}

impl World {
    async fn parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        limit: u32,
    ) -> Result<Vec<Part>, StepError> {
        Ok(self.store.parts(check, list, from, limit).await?)
    }

    async fn all_parts(&self, check: &FlowId, list: PartList) -> Result<Vec<Part>, StepError> {
        let mut all = vec![];
        loop {
            let from = number(all.len());
            let page = self.parts(check, list, from, PARTS_AT_ONCE).await?;
            let is_last = page.len() < PARTS_AT_ONCE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Every payment with its gateway, in the order in which they were given.
    async fn lookups(&self, check: &FlowId) -> Result<Vec<(String, Option<String>)>, StepError> {
        let mut found = vec![];
        for part in self.all_parts(check, PartList::Lookups).await? {
            let ids: Vec<String> = read(&part.body_json)?;
            let outcome = part.outcome_json.as_deref().map(read).transpose()?;
            let gateways: Vec<Option<String>> = outcome.unwrap_or_default();
            let gateways = gateways.into_iter().chain(std::iter::repeat(None));
            found.extend(ids.into_iter().zip(gateways));
        }
        Ok(found)
    }

    async fn write_chunks(
        &self,
        check: &FlowId,
        gateway: u32,
        group: &Group,
        size: usize,
    ) -> Result<u32, StepError> {
        let chunks = group.chunks(size);
        let (list, mut from) = (PartList::Chunks { gateway }, 0);
        for some in chunks.chunks(PARTS_AT_ONCE as usize) {
            let bodies = some.iter().map(written).collect::<Result<_, _>>()?;
            self.store.add_parts(check, list, from, bodies).await?;
            from += number(some.len());
        }
        Ok(from)
    }
}

fn count_end(end: &'static str) {
    counter!("tollgate_status_checks_ended_total", "end" => end).increment(1);
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, StepError> {
    serde_json::from_str(json).map_err(|e| StepError::last(format!("a row cannot be read: {e}")))
}

fn written<T: Serialize>(value: &T) -> Result<String, StepError> {
    serde_json::to_string(value).map_err(|e| StepError::last(format!("it is not JSON: {e}")))
}

fn gone() -> StepError {
    StepError::last("the retention of this status check has ended")
}
