//! What is done for all processes at a time: started by a term as leader, or on Temporal by the processes with
//! the role.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_api::Tokens;
use tollgate_config::Config;
use tollgate_core::flow::Flow;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Engine, Store};
use tollgate_dispatch::{
    Archiver, CheckRetention, ChunkFlow, Eraser, ExportedFiles, Gate, ImportRunner, JobRunner,
    Planner, Reconciler, Sweeper, Wake,
};
use tollgate_domains::erasure;
use tollgate_domains::invoices::{self, Billing, InvoiceBulkInitFlow};
use tollgate_domains::payments::bulk::PaymentBulkInitFlow;
use tollgate_domains::payments::{self, Intake};
use tollgate_operations::archive;
use tollgate_operations::downstreams::asking::Asking;
use tollgate_operations::downstreams::questions::Questions;
use tollgate_operations::item_types;

use crate::downstreams::providers;
use crate::engines;
use crate::retries;

/// What is done for all processes: by the leader, or on Temporal by those with the role, where what each of
/// them writes is guarded.
pub(crate) struct Services<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) billing: Arc<Billing>,
    pub(crate) fed: &'a Wake,
    pub(crate) gate: &'a Arc<Gate>,
}

impl Services<'_> {
    /// Starts what is due; for the embedded engine. On Temporal, schedules do.
    pub(crate) async fn dispatch(
        &self,
        stopped: &watch::Receiver<bool>,
        running: &mut JoinSet<()>,
    ) -> anyhow::Result<()> {
        for (item_type, _) in item_types() {
            let dispatcher = engines::dispatcher(&item_type, self.store, &self.engine).await?;
            running.spawn(Arc::new(dispatcher).run(stopped.clone()));
        }
        self.look_after(stopped, running);
        Ok(())
    }

    /// Looks for what was left behind.
    pub(crate) fn look_after(&self, stopped: &watch::Receiver<bool>, running: &mut JoinSet<()>) {
        let (config, store) = (self.config, self.store);
        let every = Duration::from_secs;
        for (item_type, _) in item_types() {
            let sweeper = Sweeper::new(item_type, Arc::clone(store), Arc::clone(&self.engine));
            running.spawn(sweeper.run(every(config.sweep.interval_secs), stopped.clone()));
        }
        let types = item_types().map(|(item_type, _)| item_type).to_vec();
        let planner = Planner::new(Arc::clone(store), types, config.gate.margin);
        let reconciler = Reconciler::new(Arc::clone(store), Arc::new(planner));
        running.spawn(reconciler.run(every(config.sweep.reconcile_secs), stopped.clone()));
        let retention = CheckRetention::new(Arc::clone(store), config.status_check.retention());
        running.spawn(retention.run(stopped.clone()));
        running.spawn(archive::upkeep(config, store).run(stopped.clone()));
        match config.retention() {
            Ok(types) => {
                let types = types.into_iter().map(|of| of.archived).collect();
                let archiver = Archiver::new(Arc::clone(store), types, config.old_ages());
                running.spawn(archiver.run(stopped.clone()));
            }
            // It was read at the start, and would have stopped it.
            Err(error) => tracing::error!(%error, "nothing is archived"),
        }
        running.spawn(self.job_runner().run(stopped.clone()));
        running.spawn(self.eraser().run(stopped.clone()));
        let (billing, pause) = (Arc::clone(&self.billing), every(config.invoices.sweep_secs));
        running.spawn(providers::run_sweep(billing, pause, stopped.clone()));
    }

    /// Erases personal data, in exported files, too.
    fn eraser(&self) -> Eraser {
        let exports = archive::exports(self.config, self.store);
        let has_folder = exports.has_folder();
        let files: Arc<dyn ExportedFiles> = Arc::new(exports);
        let files = has_folder.then_some(files);
        Eraser::new(Arc::clone(self.store), erasure::RULES, files)
    }

    /// Acts on many items, in the names of people who may still do so.
    fn job_runner(&self) -> JobRunner {
        let tokens = Tokens::of(&self.config.auth).ok();
        let may_act = move |name: &str| tokens.as_ref().is_some_and(|it| it.may_operate(name));
        let per_second = self.config.jobs.max_per_second;
        let (store, moves) = (Arc::clone(self.store), payments::job_moves());
        let asking = Arc::new(Asking::new(self.config, self.gate));
        let banks = Arc::new(Questions::new(self.store, &asking));
        JobRunner::new(store, moves, banks, Arc::new(may_act), per_second)
    }

    /// Takes in what was accepted: files, records of feeds, and payments whose first try failed.
    pub(crate) fn intake(&self, stopped: &watch::Receiver<bool>, running: &mut JoinSet<()>) {
        let payments = self.import_runner::<PaymentBulkInitFlow>(payments::item_type(), self.fed);
        running.spawn(payments.run(stopped.clone()));
        // Invoices come from feeds only, and are looked for every second.
        let wake = Wake::default();
        let invoices = self.import_runner::<InvoiceBulkInitFlow>(invoices::item_type(), &wake);
        running.spawn(invoices.run(stopped.clone()));
        let intake = Intake {
            store: Arc::clone(self.store),
            engine: Arc::clone(&self.engine),
        };
        running.spawn(retries::run(Arc::new(intake), stopped.clone()));
    }

    /// Takes in the chunks of files and feeds, each by a flow.
    fn import_runner<F: Flow>(&self, item_type: ItemType, wake: &Wake) -> ImportRunner {
        let flow = ChunkFlow {
            name: F::NAME.to_owned(),
            task_queue: payments::INIT_TASK_QUEUE.to_owned(),
        };
        let (store, engine) = (Arc::clone(self.store), Arc::clone(&self.engine));
        ImportRunner::new(item_type, flow, store, engine, wake.clone())
    }
}
