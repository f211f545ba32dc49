//! Keeps one Temporal Schedule per item type: there with the type, at its interval, gone with it.
//! It also tells of task queues that nobody works on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::flow::Flow;
use tollgate_core::id::ItemType;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{SettingKind, Store};
use tollgate_dispatch::{DISPATCH_TASK_QUEUE, DispatchRound, DispatcherFlow, Every, dispatcher_id};
use tollgate_domains::{payments, status_checks};
use tollgate_operations::item_types;
use tollgate_temporal::{Recurring, Schedules, TaskQueues};

use crate::engines::exec_queues;

/// How soon a change of a type's interval takes effect.
const PAUSE: Duration = Duration::from_secs(2);
/// Every so many rounds everything is looked at, changed or not.
const THOROUGH: u64 = 15;
/// What all our schedules' ids begin with.
const PREFIX: &str = "dispatch-";

pub(crate) struct Keeper {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) schedules: Schedules,
    pub(crate) queues: TaskQueues,
}

impl Keeper {
    /// Until told to stop.
    pub(crate) async fn run(self, stop: watch::Receiver<bool>) {
        let mut every = Every::new(PAUSE, stop);
        let mut kept = BTreeMap::new();
        for round in 0_u64.. {
            if !every.once(self.look(round, &mut kept)).await {
                return;
            }
        }
    }

    async fn look(&self, round: u64, kept: &mut BTreeMap<String, Recurring>) {
        let thorough = round.is_multiple_of(THOROUGH);
        if thorough {
            kept.clear();
        }
        if let Err(error) = self.keep_all(kept).await {
            tracing::warn!(%error, "the dispatchers' schedules could not be maintained");
            kept.clear();
        } else if thorough {
            self.look_at_queues().await;
        }
    }

    async fn keep_all(&self, kept: &mut BTreeMap<String, Recurring>) -> anyhow::Result<()> {
        let mut wanted = BTreeMap::new();
        for (item_type, _) in item_types() {
            if let Some(stored) = tollgate_dispatch::item_type(&*self.store, &item_type).await? {
                let recurring = recurring(&item_type, &stored.config)?;
                wanted.insert(recurring.id.clone(), recurring);
            }
        }
        if wanted == *kept {
            return Ok(());
        }
        for recurring in wanted.values() {
            if self.schedules.keep(recurring).await? {
                tracing::info!(schedule = recurring.id, every = ?recurring.every, "the dispatcher's schedule was set");
            }
        }
        for id in self.schedules.ids(PREFIX, DispatcherFlow::NAME).await? {
            if !wanted.contains_key(&id) && self.is_left_over(&id).await? {
                tracing::info!(
                    schedule = id,
                    "no item type has this schedule; it is removed"
                );
                self.schedules.remove(&id).await?;
            }
        }
        *kept = wanted;
        Ok(())
    }

    /// Whether a dispatcher's schedule that this release does not want was one of Tollgate's, and is
    /// nobody's: a release beside this one may have an item type more.
    async fn is_left_over(&self, id: &str) -> anyhow::Result<bool> {
        let queue = self.schedules.task_queue(id).await?;
        if queue.as_deref() != Some(DISPATCH_TASK_QUEUE) {
            return Ok(false);
        }
        let name = id.strip_prefix(PREFIX).unwrap_or(id).to_ascii_uppercase();
        let setting = self.store.setting(SettingKind::ItemType, &name).await?;
        Ok(setting.is_none())
    }

    /// What waits in a queue that nobody works on waits for ever, and nothing else would tell.
    async fn look_at_queues(&self) {
        let Ok(mut queues) = exec_queues(&*self.store).await else {
            return;
        };
        queues.insert(payments::INIT_TASK_QUEUE.to_owned());
        queues.insert(DISPATCH_TASK_QUEUE.to_owned());
        queues.insert(status_checks::TASK_QUEUE.to_owned());
        for queue in queues {
            let Ok(workers) = self.queues.workers(&queue).await else {
                return;
            };
            if workers == 0 {
                tracing::warn!(
                    task_queue = queue,
                    "no process polls this task queue; start one with its role"
                );
            }
            #[expect(clippy::cast_precision_loss, reason = "a handful of processes")]
            metrics::gauge!("tollgate_task_queue_workers", "task_queue" => queue)
                .set(workers as f64);
        }
    }
}

fn recurring(item_type: &ItemType, config: &ItemTypeConfig) -> anyhow::Result<Recurring> {
    let round = DispatchRound::of(item_type, config);
    Ok(Recurring {
        id: dispatcher_id(item_type),
        flow: DispatcherFlow::NAME.to_owned(),
        task_queue: DISPATCH_TASK_QUEUE.to_owned(),
        every: round.interval(),
        input: serde_json::to_value(round)?,
    })
}
