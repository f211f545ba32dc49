//! The gate: where a real send takes its exact turn.
//!
//! [`Gate::turn`] returns at the very moment at which the send must go out, or says why it may
//! not. A turn missed by more than the tolerance, or void since the shared clock has jumped, is
//! dropped and another one taken. Once another node has taken over the store, the gate is closed
//! for good: nothing that waits at it is sent.

pub(crate) mod call_turns;
mod clock_watch;
mod fence;
mod lane_queue;
pub(crate) mod node_clock;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_TOLERANCE;
use tollgate_core::id::{AttemptId, Item, LaneName, WatchId};
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Connection, NewTurn, NoConnection, Permit, Store};

use crate::every::Every;
use crate::gate::clock_watch::ClockWatch;
use crate::gate::fence::Fence;
use crate::gate::lane_queue::{LaneQueue, Waiting};
use crate::sending::unused::UnlessUsed;

/// The shared clock is looked at so often even while nobody asks for turns: what was started by a
/// clock that was ahead would wait, and nobody would notice.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// At most this many attempts wait at one lane's gate; more wait outside.
const MAX_WAITING: usize = 8192;

/// The first byte leaves so long after its turn, or never. More than the gate's tolerance: a busy machine
/// takes its time between the gate and the socket, and each turn that is lost there is lost to the lane.
const SEND_WITHIN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct GateOptions {
    /// A turn missed by more than this is dropped.
    pub tolerance: Duration,
    /// Whoever has no turn after this time goes back to the queue.
    pub patience: Duration,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            tolerance: DEFAULT_TOLERANCE,
            patience: Duration::from_secs(30),
        }
    }
}

/// Who asks for a turn, and what for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub lane: LaneName,
    /// Which configuration of a connector sends it; none if its refusals do not count.
    pub watch: Option<WatchId>,
    pub item: Item,
    pub run: u32,
    pub kind: AttemptKind,
    pub key: String,
    /// Never before this time.
    pub planned: Timestamp,
    /// When the item is due: of those that wait, whoever is due first goes first.
    pub due: Timestamp,
    /// The latest attempt that the decision to ask rests on.
    pub seen: Option<AttemptId>,
    /// It was sent before: its deadline does not bind it any more.
    pub may_be_late: bool,
}

/// Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: NoTurn,
    /// An attempt that is open and whose turn was dropped unused.
    pub unused: Option<AttemptId>,
}

/// Why there is no turn.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoTurn {
    /// The lane sends nothing for now.
    #[error("{0}")]
    Closed(String),
    /// The store could not be asked, or this process ends.
    #[error("{0}")]
    Away(String),
    #[error("{0}")]
    NotYours(String),
    /// The history that the decision rests on is no longer the whole.
    #[error("{0}")]
    LookAgain(String),
    /// Another node has taken over; this one sends nothing more.
    #[error("another node has taken over: {0}")]
    Fenced(String),
    #[error("its turn would come after its deadline")]
    TooLate,
    #[error("no turn within {0:?}")]
    Impatient(Duration),
    /// There was a turn, and no connection for it.
    #[error("{0}")]
    NoConnection(NoConnection),
}

/// A durable turn whose time has not come yet.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) attempt: AttemptId,
    pub(crate) at: Timestamp,
    pub(crate) era: i64,
    pub(crate) local: Instant,
    /// How often the clock had jumped when this was mapped.
    pub(crate) jumps: u64,
}

#[derive(Debug)]
pub(crate) struct UnderWay(Arc<watch::Sender<usize>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

type QueueKey = (LaneName, Option<WatchId>);

pub struct Gate {
    pub(crate) store: Arc<dyn Store>,
    options: GateOptions,
    pub(crate) watch: Arc<ClockWatch>,
    fence: Arc<Fence>,
    under_way: Arc<watch::Sender<usize>>,
    /// The queues of lanes at this node, one for each configuration of a connector.
    lanes: Mutex<HashMap<QueueKey, mpsc::Sender<Waiting>>>,
    /// How often the turns of a lane were dropped because a storm had paused it.
    storms: Mutex<HashMap<LaneName, u64>>,
    /// Whoever asks for the turn of a call holds the lock of its lane.
    calls: Mutex<HashMap<LaneName, Arc<tokio::sync::Mutex<()>>>>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(store: Arc<dyn Store>, options: GateOptions) -> Self {
        let watch = Arc::new(ClockWatch::new(options.tolerance));
        Self {
            store,
            options,
            watch,
            fence: Arc::default(),
            under_way: Arc::new(watch::channel(0).0),
            lanes: Mutex::new(HashMap::new()),
            storms: Mutex::new(HashMap::new()),
            calls: Mutex::new(HashMap::new()),
        }
    }

    pub fn tolerance(&self) -> Duration {
        self.options.tolerance
    }

    /// How long after a turn its attempt may still be sent, by any node's clock: the tolerance is more
    /// than two clocks may differ by. Before that nobody takes it over.
    pub(crate) fn usable_for(&self) -> Duration {
        SEND_WITHIN + self.options.tolerance
    }

    /// Another node has taken over, or is about to: from here on nothing gets a turn, and turns that were
    /// taken and not used are dropped.
    pub fn fence(&self, why: &str) {
        self.fence.close(why);
    }

    /// Why this node may send nothing more, once it may not.
    pub(crate) fn fenced(&self) -> Option<String> {
        self.fence.why()
    }

    /// Waits until this node may send nothing more; why.
    pub(crate) async fn closed(&self) -> String {
        self.fence.closed().await
    }

    /// Somebody asks for a turn, sends in it and writes what came of it, until this is dropped.
    pub(crate) fn under_way(&self) -> UnderWay {
        self.under_way.send_modify(|count| *count += 1);
        UnderWay(Arc::clone(&self.under_way))
    }

    /// How many ask for a turn, or have one and have not written what came of it.
    pub fn count_under_way(&self) -> usize {
        *self.under_way.borrow()
    }

    /// Waits until nobody has a turn any more: what was sent is answered, and the answer written. For a
    /// gate that was fenced; at another one somebody always comes.
    pub async fn idle(&self) {
        let mut under_way = self.under_way.subscribe();
        // The sender is ours.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    /// Looks at the shared clock until told to stop, so that a jump opens a new era soon after it.
    pub async fn watch_clock(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let mut every = Every::new(LOOK_EVERY, stop);
        let mut is_seen = true;
        while every.once(self.look_at_clock(&mut is_seen)).await {}
    }

    /// An outage is told once.
    async fn look_at_clock(&self, is_seen: &mut bool) {
        if self.fence.is_closed() {
            return;
        }
        let looked = self.watch.look(&*self.store).await;
        if let Err(error) = &looked
            && *is_seen
        {
            tracing::warn!(%error, "the shared clock cannot be read");
        }
        *is_seen = looked.is_ok();
    }

    /// A storm has paused the lane: turns of this node that were taken and not used are dropped, and
    /// whoever had them is told that the lane is paused.
    pub(crate) fn drop_turns(&self, lane: &LaneName) {
        let mut storms = self.storms.lock().unwrap_or_else(PoisonError::into_inner);
        *storms.entry(lane.clone()).or_default() += 1;
    }

    fn storms(&self, lane: &LaneName) -> u64 {
        let storms = self.storms.lock().unwrap_or_else(PoisonError::into_inner);
        storms.get(lane).copied().unwrap_or_default()
    }

    /// Waits for a turn and for its time. It is connected once the turn is granted. On return the
    /// caller sends, at once.
    #[tracing::instrument(skip_all, fields(lane = %ask.lane))]
    pub async fn turn(&self, ask: Ask, connection: &mut dyn Connection) -> Result<Permit, Refusal> {
        let patience = self.options.patience;
        let deadline = Instant::now() + patience;
        let mut missed = None;
        loop {
            if let Some(why) = self.fence.why() {
                let why = NoTurn::Fenced(why);
                return Err(Refusal {
                    why,
                    unused: missed,
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let impatient = || Refusal {
                why: NoTurn::Impatient(patience),
                unused: missed,
            };
            let storms = self.storms(&ask.lane);
            let granted = tokio::time::timeout(left, self.granted(&ask, missed))
                .await
                .map_err(|_| impatient())??;
            // Cut off from here on, its turn is not used, and that is certain.
            let mut unless_used = UnlessUsed::new(&self.store, &ask, granted.attempt);
            // Not cut off at the turn: one that is missed for it finds the connection the next time.
            if let Err(none) = connection.connect_for(granted.local.into_std()).await {
                unless_used.forget();
                return Err(Refusal {
                    why: NoTurn::NoConnection(none),
                    unused: Some(granted.attempt),
                });
            }
            // A handover does not wait for turns that will not be used.
            tokio::select! {
                () = tokio::time::sleep_until(granted.local) => {}
                _ = self.fence.closed() => {}
            }
            let late = granted.local.elapsed();
            let name = || ask.lane.to_string();
            unless_used.forget();
            if self.is_good(&granted) && storms == self.storms(&ask.lane) {
                metrics::counter!("tollgate_turns_total", "lane" => name()).increment(1);
                metrics::histogram!("tollgate_turn_lateness_seconds", "lane" => name())
                    .record(late.as_secs_f64());
                let Granted {
                    attempt, at, era, ..
                } = granted;
                let use_by = (granted.local + SEND_WITHIN).into_std();
                return Ok(Permit::granted_by_the_gate(attempt, at, era, use_by));
            }
            metrics::counter!("tollgate_turns_dropped_total", "lane" => name()).increment(1);
            tracing::debug!(item = %ask.item, lane = %ask.lane, ?late, "turn dropped");
            missed = Some(granted.attempt);
        }
    }

    fn is_good(&self, granted: &Granted) -> bool {
        granted.local.elapsed() <= self.options.tolerance
            && granted.jumps == self.watch.jumps()
            && !self.fence.is_closed()
    }

    async fn granted(&self, ask: &Ask, missed: Option<AttemptId>) -> Result<Granted, Refusal> {
        let new = NewTurn {
            item: ask.item.clone(),
            run: ask.run,
            kind: ask.kind,
            key: ask.key.clone(),
            planned: ask.planned,
            seen: ask.seen,
            missed,
            may_be_late: ask.may_be_late,
        };
        let (answer, answered) = oneshot::channel();
        let stopped = || Refusal {
            why: NoTurn::Away("the gate is shutting down".into()),
            unused: missed,
        };
        let lane = self.lane(&ask.lane, ask.watch);
        lane.send(Waiting {
            due: ask.due,
            new,
            answer,
        })
        .await
        .map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    pub(crate) fn call_queue(&self, lane: &LaneName) -> Arc<tokio::sync::Mutex<()>> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(calls.entry(lane.clone()).or_default())
    }

    /// The lane's queue at this node; its task ends with the gate.
    fn lane(&self, name: &LaneName, watch: Option<WatchId>) -> mpsc::Sender<Waiting> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || {
            let (sender, receiver) = mpsc::channel(MAX_WAITING);
            let queue = LaneQueue::new(
                name.clone(),
                watch,
                Arc::clone(&self.store),
                Arc::clone(&self.watch),
                Arc::clone(&self.fence),
            );
            tokio::spawn(queue.run(receiver));
            sender
        };
        let key = (name.clone(), watch);
        lanes.entry(key).or_insert_with(start).clone()
    }
}
