//! Admissions that arrive together: one transaction, one lock per lane, one batch per type.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::ports::{Admission, NewItem, StoreResult};

use super::admit::Batch;
use super::bodies::is_storable;
use super::guards;
use crate::postgres::connection::group::Job;
use crate::postgres::connection::run::all;
use crate::postgres::lanes::counters::{lock_plans, write_back};

/// One caller's items.
#[derive(Debug, Clone)]
pub(crate) struct Admit {
    pub(crate) item_type: ItemType,
    pub(crate) items: Vec<NewItem>,
}

impl Job for Admit {
    type Answer = Vec<Admission>;

    fn weight(&self) -> usize {
        self.items.len()
    }
}

type ByType = BTreeMap<ItemType, Vec<(usize, Vec<NewItem>)>>;

/// Callers that arrive together share a batch: an item does not care whose call it came in.
pub(crate) async fn admit_all(
    tx: &Transaction<'_>,
    jobs: Vec<Admit>,
    margin: Decimal,
    seed: u64,
) -> StoreResult<Vec<StoreResult<Vec<Admission>>>> {
    let mut answers: Vec<_> = jobs
        .iter()
        .map(|job| Vec::with_capacity(job.items.len()))
        .collect();
    let mut by_type = ByType::new();
    for (n, job) in jobs.into_iter().enumerate() {
        by_type
            .entry(job.item_type)
            .or_default()
            .push((n, job.items));
    }
    // Lanes are locked in one go, whatever types and batches need them.
    let names = lanes(&by_type);
    let guarded = guarded(&by_type);
    let known = known_lanes(tx, &names).await?;
    let mut prepared = vec![];
    for (item_type, callers) in by_type {
        let owners: Vec<usize> = callers
            .iter()
            .flat_map(|(n, items)| std::iter::repeat_n(*n, items.len()))
            .collect();
        let items: Vec<NewItem> = callers.into_iter().flat_map(|(_, items)| items).collect();
        let batch = Batch {
            tx,
            item_type: &item_type,
            seed,
        };
        let items = batch.prepare(items, &known).await?;
        prepared.push((item_type, owners, items));
    }
    let names: Vec<&str> = names.iter().map(LaneName::as_str).collect();
    let mut plans = lock_plans(tx, &names, margin).await?;
    // A lane that was created meanwhile comes too late for these items: their bodies are not written.
    plans.retain(|lane, _| known.contains(lane));
    guards::lock(tx, guarded).await?;
    for (item_type, owners, items) in prepared {
        let batch = Batch {
            tx,
            item_type: &item_type,
            seed,
        };
        let admitted = batch.admit(items, &mut plans).await?;
        for (n, answer) in owners.into_iter().zip(admitted) {
            answers[n].push(answer);
        }
    }
    write_back(tx, plans.iter()).await?;
    Ok(answers.into_iter().map(Ok).collect())
}

fn lanes(by_type: &ByType) -> BTreeSet<LaneName> {
    let items = by_type.values().flatten().flat_map(|(_, items)| items);
    items.map(|item| item.lane.clone()).collect()
}

/// Which of the lanes exist. A lane is never removed, so it still exists when its plan is locked.
async fn known_lanes(
    tx: &Transaction<'_>,
    names: &BTreeSet<LaneName>,
) -> StoreResult<BTreeSet<LaneName>> {
    const KNOWN: &str = "SELECT lane FROM lane_plan WHERE lane = ANY($1)";
    let names: Vec<&str> = names.iter().map(LaneName::as_str).collect();
    let rows = all(tx, KNOWN, &[&names]).await?;
    Ok(rows
        .iter()
        .map(|row| LaneName::new(row.get::<_, String>(0)))
        .collect())
}

/// What the guards of all items look at.
fn guarded(by_type: &ByType) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (item_type, callers) in by_type {
        let items = callers.iter().flat_map(|(_, items)| items);
        for item in items.filter(|item| is_storable(item)) {
            names.extend(guards::names(item_type, item));
        }
    }
    names
}
