//! The import runner: starts a flow for every chunk of the files that were taken in, a few at a time, and
//! removes what broken-off uploads have left. The chunks in the store are its work list, so what
//! was missed by a crash is found by the next look, and two import runners do not hurt: a flow is started
//! once, and a chunk ends once. A chunk that fails waits in the store for its next try and holds nobody up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tollgate_core::id::{FlowId, ItemType};
use tollgate_core::ports::{
    ChunkId, ChunkToDo, Engine, FlowView, Memo, Start, Started, Store, StoreResult, Unreachable,
};

/// At most this many chunks are taken in at once.
const IN_FLIGHT: usize = 4;
/// How often to look for chunks without a reason.
const PAUSE: Duration = Duration::from_secs(1);
/// Before a chunk is looked at whose failure could not be noted.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(10);
/// How long one question about a flow's end takes at most.
const WAIT: Duration = Duration::from_secs(30);
/// How often to look for uploads that were given up.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// An upload to which nothing was added for so long is given up.
const IDLE_UPLOAD: Duration = Duration::from_hours(1);
/// At most this many chunks of uploads that were given up are removed at once.
const MAX_REMOVED: u32 = 64;

/// Which flow takes a chunk in.
#[derive(Debug, Clone)]
pub struct ChunkFlow {
    pub name: String,
    pub task_queue: String,
}

pub struct ImportRunner {
    item_type: ItemType,
    flow: ChunkFlow,
    store: Arc<dyn Store>,
    engine: Arc<dyn Engine>,
    wake: Wake,
}

/// Tells the import runner that there is something to do now.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    pub fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits until somebody has said so. For one who passes it on; nobody else hears it then.
    pub async fn woken(&self) {
        self.0.notified().await;
    }
}

impl std::fmt::Debug for ImportRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportRunner")
            .field("item_type", &self.item_type)
            .finish_non_exhaustive()
    }
}

impl ImportRunner {
    pub fn new(
        item_type: ItemType,
        flow: ChunkFlow,
        store: Arc<dyn Store>,
        engine: Arc<dyn Engine>,
        wake: Wake,
    ) -> Self {
        Self {
            item_type,
            flow,
            store,
            engine,
            wake,
        }
    }

    /// Feeds until told to stop. What is under way then goes on in the engine.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let runner = Arc::new(self);
        let mut in_flight: JoinSet<ChunkId> = JoinSet::new();
        let mut held: BTreeSet<ChunkId> = BTreeSet::new();
        let mut sweeps = tokio::time::interval(SWEEP_EVERY);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match runner.next(&held).await {
                Ok(chunks) => {
                    for to_do in chunks {
                        held.insert(to_do.chunk.clone());
                        in_flight.spawn(Arc::clone(&runner).take_in(to_do));
                    }
                }
                Err(error) => tracing::warn!(%error, "waiting chunks could not be read"),
            }
            let mut is_time_to_sweep = false;
            tokio::select! {
                Some(ended) = in_flight.join_next() => match ended {
                    Ok(chunk) => drop(held.remove(&chunk)),
                    Err(error) => {
                        tracing::error!(%error, "the watcher of a chunk ended unexpectedly");
                        held.clear();
                        in_flight = JoinSet::new();
                    }
                },
                () = runner.wake.0.notified() => {}
                () = tokio::time::sleep(PAUSE) => {}
                _ = sweeps.tick() => is_time_to_sweep = true,
                _ = stop.wait_for(|stop| *stop) => return,
            }
            if is_time_to_sweep {
                runner.sweep().await;
            }
        }
    }

    /// The chunks to begin with now.
    async fn next(&self, held: &BTreeSet<ChunkId>) -> StoreResult<Vec<ChunkToDo>> {
        let free = IN_FLIGHT.saturating_sub(held.len());
        if free == 0 {
            return Ok(vec![]);
        }
        // Those in flight are still on the list.
        let limit = u32::try_from(IN_FLIGHT + held.len()).unwrap_or(u32::MAX);
        let to_do = self.store.chunks_to_do(&self.item_type, limit).await?;
        let new = to_do
            .into_iter()
            .filter(|to_do| !held.contains(&to_do.chunk));
        Ok(new.take(free).collect())
    }

    /// Returns when the chunk has ended, or waits for its next try: then its place is another's.
    async fn take_in(self: Arc<Self>, to_do: ChunkToDo) -> ChunkId {
        match self.flow_of(&to_do).await {
            Ok(None) => {}
            Ok(Some(why)) => self.note(&to_do.chunk, &why).await,
            Err(error) => {
                tracing::warn!(chunk = %to_do.chunk, %error, "the chunk is tried again");
                tokio::time::sleep(PAUSE).await;
            }
        }
        to_do.chunk
    }

    /// Starts the flow of the chunk's next try and waits for its end. Says why, if the flow itself failed; a
    /// failure that the flow has noted is no news.
    async fn flow_of(&self, to_do: &ChunkToDo) -> Result<Option<String>, Unreachable> {
        let id = to_do.flow();
        if let Started::Failed(why) = self.start(&id, &to_do.chunk).await? {
            return Ok(Some(format!("its flow cannot be started: {why}")));
        }
        Ok(match self.ended(&id).await? {
            FlowView::Failed { error } => Some(error),
            FlowView::Done { .. } | FlowView::Running { .. } | FlowView::NotFound => None,
        })
    }

    async fn note(&self, chunk: &ChunkId, why: &str) {
        tracing::error!(%chunk, why, "the chunk could not be processed; it is tried again");
        metrics::counter!("tollgate_intake_failures_total", "what" => "chunk").increment(1);
        if let Err(error) = self.store.chunk_failed(chunk, why).await {
            tracing::error!(%chunk, %error, "a failed attempt could not be recorded");
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        }
    }

    async fn start(&self, id: &FlowId, chunk: &ChunkId) -> Result<Started, Unreachable> {
        let start = Start {
            id: id.clone(),
            name: self.flow.name.clone(),
            task_queue: self.flow.task_queue.clone(),
            input_json: serde_json::json!({ "chunk": chunk }).to_string(),
            delay: Duration::ZERO,
            memo: Memo::new(),
        };
        let started = self.engine.start(vec![start]).await?.pop();
        started.ok_or_else(|| Unreachable("the engine did not answer".to_owned()))
    }

    async fn ended(&self, id: &FlowId) -> Result<FlowView, Unreachable> {
        loop {
            match self.engine.view(id, WAIT).await? {
                FlowView::Running { .. } => tokio::task::yield_now().await,
                ended => return Ok(ended),
            }
        }
    }

    async fn sweep(&self) {
        loop {
            match self.store.sweep_uploads(IDLE_UPLOAD, MAX_REMOVED).await {
                Ok(0) => return,
                Ok(chunks) => tracing::info!(chunks, "removed chunks of interrupted uploads"),
                Err(error) => {
                    tracing::warn!(%error, "interrupted uploads could not be removed");
                    return;
                }
            }
        }
    }
}
