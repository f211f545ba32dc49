//! How what was claimed together is started: as a flow for each item, or as flows of several. Pure.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use tollgate_core::flow::{BatchInput, BatchItem, ExecInput};
use tollgate_core::id::{BatchId, Fence, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane_in_force::CLOSED_PAUSE;
use tollgate_core::ports::{Claimed, Memo, Start, StartRecord, Started, StoreError, StoreResult};

use crate::dispatching::batch::TIMES_WITHIN;

/// What is claimed together, and how: some items of one lane.
pub(crate) struct Batch {
    pub(crate) id: BatchId,
    pub(crate) lane: LaneName,
    pub(crate) config: ItemTypeConfig,
}

/// One flow, and the claims of the items that it is for.
pub(crate) struct Part {
    flow: FlowId,
    start: Option<Start>,
    pub(crate) items: Vec<(ItemId, Fence)>,
}

impl Part {
    fn new(start: Start, items: Vec<(ItemId, Fence)>) -> Self {
        Self {
            flow: start.id.clone(),
            start: Some(start),
            items,
        }
    }

    /// How it is started; asked for once.
    pub(crate) fn start(&mut self) -> Start {
        self.start.take().expect("a flow is started once")
    }

    pub(crate) fn records(self, started: Started) -> impl Iterator<Item = StartRecord> {
        let flow = self.flow;
        self.items.into_iter().map(move |(id, fence)| StartRecord {
            id,
            fence,
            flow: flow.clone(),
            started: started.clone(),
        })
    }
}

/// Flows of at most the configured number of items each, whose times lie close together.
pub(crate) fn exec_starts(
    item_type: &ItemType,
    batch: &Batch,
    claimed: Vec<Claimed>,
    random: &mut SmallRng,
) -> StoreResult<Vec<Part>> {
    let jitter_window_ms = u64::from(batch.config.jitter_window_ms);
    let mut timed: Vec<Timed> = claimed
        .into_iter()
        .map(|claimed| Timed::new(claimed, random.random_range(0..=jitter_window_ms)))
        .collect();
    let size = batch.config.flow_size();
    if size == 1 {
        let each = timed.into_iter();
        return each.map(|item| single(item_type, batch, item)).collect();
    }
    timed.sort_by_key(Timed::delay);
    let mut parts = vec![];
    let mut rest = timed.as_slice();
    while let Some(first) = rest.first() {
        let last = first.delay() + TIMES_WITHIN;
        let close = rest.iter().take(size).take_while(|it| it.delay() <= last);
        let (now, later) = rest.split_at(close.count());
        parts.push(several(item_type, batch, parts.len() + 1, now)?);
        rest = later;
    }
    Ok(parts)
}

/// A claimed item, and when it is to be executed.
struct Timed {
    claimed: Claimed,
    /// After its time.
    jitter_ms: u64,
}

impl Timed {
    /// Whatever has a slot runs at its slot, whichever run it is. What found its lane closed for a moment is spread
    /// by the gate. What waits for longer because it failed, perhaps with many others, is spread at random.
    fn new(claimed: Claimed, jitter_ms: u64) -> Self {
        let at_its_time = claimed.on_slot || claimed.delay <= CLOSED_PAUSE;
        let jitter_ms = if at_its_time { 0 } else { jitter_ms };
        Self { claimed, jitter_ms }
    }

    fn delay(&self) -> Duration {
        self.claimed.delay + Duration::from_millis(self.jitter_ms)
    }
}

/// The flow of one item, which is given its context.
fn single(item_type: &ItemType, batch: &Batch, timed: Timed) -> StoreResult<Part> {
    let delay = timed.delay();
    let Claimed {
        id,
        fence,
        run,
        context_json,
        ..
    } = timed.claimed;
    let item = Item::new(item_type, &id);
    let memo = Memo::from([("item", item.to_string()), ("lane", batch.lane.to_string())]);
    let flow = item.exec_flow(run);
    let input = json(&ExecInput {
        item,
        run,
        context_json,
    })?;
    let name = &batch.config.exec_workflow_type;
    let start = start(batch, flow, name, input, delay, memo);
    Ok(Part::new(start, vec![(id, fence)]))
}

/// A flow of several items, which starts with the first of them.
fn several(
    item_type: &ItemType,
    batch: &Batch,
    number: usize,
    timed: &[Timed],
) -> StoreResult<Part> {
    let items = timed.iter().map(|it| BatchItem {
        id: it.claimed.id.clone(),
        run: it.claimed.run,
        jitter_ms: it.jitter_ms,
    });
    let input = json(&BatchInput {
        item_type: item_type.clone(),
        items: items.collect(),
    })?;
    let memo = Memo::from([
        ("items", timed.len().to_string()),
        ("lane", batch.lane.to_string()),
        ("batch", batch.id.to_string()),
    ]);
    let flow = batch.id.exec_flow(item_type, number);
    let name = &batch.config.exec_batch_workflow_type;
    let delay = timed.first().map(Timed::delay).unwrap_or_default();
    let start = start(batch, flow, name, input, delay, memo);
    let claims = timed
        .iter()
        .map(|it| (it.claimed.id.clone(), it.claimed.fence));
    Ok(Part::new(start, claims.collect()))
}

fn start(
    batch: &Batch,
    id: FlowId,
    name: &str,
    input_json: String,
    delay: Duration,
    memo: Memo,
) -> Start {
    Start {
        id,
        name: name.to_owned(),
        task_queue: batch.config.exec_task_queue.clone(),
        input_json,
        delay,
        memo,
    }
}

fn json(input: &impl serde::Serialize) -> StoreResult<String> {
    serde_json::to_string(input).map_err(|e| StoreError::Bug(e.to_string()))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn claimed(id: &str, run: u32, delay: Duration, on_slot: bool) -> Claimed {
        Claimed {
            id: ItemId::new(id),
            fence: Fence(1),
            run,
            delay,
            on_slot,
            context_json: "{}".into(),
        }
    }

    fn parts(items_per_flow: u32, claimed: Vec<Claimed>) -> Vec<Part> {
        let config = ItemTypeConfig {
            items_per_flow,
            exec_workflow_type: "OneWorkflow".into(),
            exec_batch_workflow_type: "SeveralWorkflow".into(),
            ..ItemTypeConfig::default()
        };
        let batch = Batch {
            id: BatchId::new("B"),
            lane: LaneName::new("default"),
            config,
        };
        let mut random = SmallRng::seed_from_u64(7);
        exec_starts(&ItemType::new("PAYMENT"), &batch, claimed, &mut random).unwrap()
    }

    #[test]
    fn whatever_has_a_slot_runs_at_it_whichever_run_it_is() {
        let (soon, jitter) = (3 * SECOND, 4000);
        let table = [
            (1, soon, true, soon),
            (2, soon, true, soon),
            (2, soon, false, soon + Duration::from_millis(jitter)),
            (2, CLOSED_PAUSE, false, CLOSED_PAUSE),
            (2, Duration::ZERO, false, Duration::ZERO),
        ];
        for (run, until, on_slot, expected) in table {
            let claimed = claimed("p", run, until, on_slot);
            assert_eq!(Timed::new(claimed, jitter).delay(), expected, "{until:?}");
        }
    }

    #[test]
    fn one_item_per_flow_has_the_sources_name_and_its_context() {
        let mut parts = parts(1, vec![claimed("p", 1, SECOND, true)]);
        let start = parts[0].start();
        assert_eq!(
            (start.id.as_str(), start.name.as_str()),
            ("exec-payment-p", "OneWorkflow")
        );
        assert_eq!(start.delay, SECOND);
        assert!(start.input_json.contains("contextJson"));
    }

    #[test]
    fn a_flow_holds_no_more_items_than_it_may_and_none_that_is_far_from_the_first() {
        let at = |n: u32| claimed(&format!("p{n}"), 1, n * SECOND, true);
        let mut parts = parts(3, [9, 0, 1, 2, 3, 4, 20].map(at).to_vec());
        let told: Vec<_> = parts
            .iter_mut()
            .map(|part| {
                let ids = part.items.iter().map(|(id, _)| id.to_string());
                let ids: Vec<_> = ids.collect();
                let start = part.start();
                (start.id.to_string(), start.delay.as_secs(), ids.join(" "))
            })
            .collect();
        let part =
            |n: u32, delay, ids: &str| (format!("exec-payment-batch-B-{n}"), delay, ids.to_owned());
        assert_eq!(
            told,
            [
                part(1, 0, "p0 p1 p2"),
                part(2, 3, "p3 p4"),
                part(3, 9, "p9"),
                part(4, 20, "p20"),
            ]
        );
    }

    #[test]
    fn a_flow_of_several_names_its_items_and_carries_no_context() {
        let mut parts = parts(50, vec![claimed("p", 2, SECOND, true)]);
        let start = parts[0].start();
        assert_eq!(start.name, "SeveralWorkflow");
        assert_eq!(
            start.input_json,
            r#"{"itemType":"PAYMENT","items":[{"id":"p","run":2}]}"#
        );
    }
}
