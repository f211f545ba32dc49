//! Who is looked up with whom, who is asked with whom, and what comes of it all. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use tollgate_core::excerpt::excerpt;
use tollgate_core::ports::{CheckPhase, CheckView};

/// About this many calls are made in one run of a flow; then it continues as new.
pub(super) const CALLS_PER_RUN: usize = 200;
/// The longest error that is kept of a call.
pub(super) const MAX_ERROR_CHARS: usize = 300;

/// Each id once, at its first place.
pub(super) fn without_duplicates(ids: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let is_new = |id: &String| seen.insert(id.clone());
    ids.into_iter().filter(is_new).collect()
}

/// The ids as parts of whole batches, so that a run of the flow ends where a batch ends.
pub(super) fn parts(ids: &[String], batch: usize) -> impl Iterator<Item = &[String]> {
    let batches = (CALLS_PER_RUN / batch).max(1);
    ids.chunks(batch * batches)
}

/// How many chunks a run of a gateway's flow works through.
pub(super) fn chunks_per_run(chunk: usize) -> usize {
    (CALLS_PER_RUN / (chunk + 1)).max(1)
}

/// What is asked of one gateway, in the order in which its payments were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) gateway: String,
    pub(super) payment_ids: Vec<String>,
}

/// One chunk, as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    pub gateway: String,
    pub payment_ids: Vec<String>,
}

impl Group {
    pub(super) fn chunks(&self, size: usize) -> Vec<Chunk> {
        let chunk = |ids: &[String]| Chunk {
            gateway: self.gateway.clone(),
            payment_ids: ids.to_vec(),
        };
        self.payment_ids.chunks(size).map(chunk).collect()
    }
}

/// The gateways in the order in which they were first met; who has none is left out.
pub(super) fn group(found: impl IntoIterator<Item = (String, Option<String>)>) -> Vec<Group> {
    let mut groups: Vec<Group> = vec![];
    let mut places: HashMap<String, usize> = HashMap::new();
    for (id, gateway) in found {
        let Some(gateway) = gateway else { continue };
        let place = *places.entry(gateway.clone()).or_insert_with(|| {
            groups.push(Group {
                gateway,
                payment_ids: vec![],
            });
            groups.len() - 1
        });
        groups[place].payment_ids.push(id);
    }
    groups
}

/// Where a chunk or a payment of it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Stage {
    Idb,
    Pgi,
}

/// What came of a chunk, as it lies in the store. Whoever is not named was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChunkOutcome {
    /// Nobody of it was asked about.
    NotAnnounced {
        error: String,
    },
    Asked {
        failed: Vec<FailedPayment>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedPayment {
    pub payment_id: String,
    pub error: String,
}

impl ChunkOutcome {
    /// A chunk with any failure has failed.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::NotAnnounced { .. } => true,
            Self::Asked { failed } => !failed.is_empty(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatusResult {
    /// By gateway: the calls about these worked, which does not say that money moved.
    pub successful: BTreeMap<String, Vec<String>>,
    pub failed: BTreeMap<String, Vec<FailedChunk>>,
    pub gateway_lookup_failed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedChunk {
    pub chunk_index: u32,
    pub payment_ids: Vec<String>,
    pub error: String,
    pub stage: Stage,
}

impl CheckStatusResult {
    /// Adds the chunk of this index; one without an outcome was not reached.
    pub(super) fn add(&mut self, index: u32, chunk: Chunk, outcome: Option<ChunkOutcome>) {
        let Chunk {
            gateway,
            payment_ids,
        } = chunk;
        let outcome = outcome.unwrap_or_else(|| ChunkOutcome::NotAnnounced {
            error: "not processed".to_owned(),
        });
        match outcome {
            ChunkOutcome::NotAnnounced { error } => {
                self.failed.entry(gateway).or_default().push(FailedChunk {
                    chunk_index: index,
                    payment_ids,
                    error,
                    stage: Stage::Idb,
                });
            }
            ChunkOutcome::Asked { failed } => {
                let is_failed: HashSet<&str> =
                    failed.iter().map(|one| one.payment_id.as_str()).collect();
                let worked = payment_ids
                    .iter()
                    .filter(|id| !is_failed.contains(id.as_str()));
                let worked: Vec<String> = worked.cloned().collect();
                if !worked.is_empty() {
                    let successful = self.successful.entry(gateway.clone());
                    successful.or_default().extend(worked);
                }
                let entries = failed.into_iter().map(|one| FailedChunk {
                    chunk_index: index,
                    payment_ids: vec![one.payment_id],
                    error: one.error,
                    stage: Stage::Pgi,
                });
                let entries: Vec<FailedChunk> = entries.collect();
                if !entries.is_empty() {
                    self.failed.entry(gateway).or_default().extend(entries);
                }
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressInfo {
    /// Each payment once.
    pub total_payments: u32,
    pub gateways_identified: u32,
    pub chunks_total: u32,
    /// With or without success.
    pub chunks_completed: u32,
    pub chunks_failed: u32,
    pub current_phase: CheckPhase,
}

impl ProgressInfo {
    pub(super) fn lookups(total_payments: u32) -> Self {
        Self {
            total_payments,
            gateways_identified: 0,
            chunks_total: 0,
            chunks_completed: 0,
            chunks_failed: 0,
            current_phase: CheckPhase::EsLookup,
        }
    }

    /// Chunks that are being written while lookups go on do not count yet.
    pub(super) fn of(view: &CheckView) -> Self {
        if view.phase == CheckPhase::EsLookup {
            return Self::lookups(view.total);
        }
        Self {
            total_payments: view.total,
            gateways_identified: view.gateways,
            chunks_total: view.chunks,
            chunks_completed: view.chunks_ended,
            chunks_failed: view.chunks_failed,
            current_phase: view.phase,
        }
    }
}

/// An error as it is kept: bounded, and on one line.
pub(super) fn kept(error: &str) -> String {
    excerpt(error, MAX_ERROR_CHARS)
}

#[cfg(test)]
mod tests;
