//! One lane's waiting attempts at this node: asks the store for turns, a block at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{AttemptId, LaneName, WatchId};
use tollgate_core::ports::{NewTurn, Store, StoreError, StoreResult, Turn, TurnBlock, TurnsWanted};

use crate::gate::clock_watch::{ClockOffset, ClockWatch, Look};
use crate::gate::fence::Fence;
use crate::gate::{Granted, NoTurn, Refusal};
use crate::sending::unused::{self, Unused};

/// At most this many attempts ask for a turn in one transaction.
const MAX_BLOCK: usize = 512;
const SHORTEST_LEAD: Duration = Duration::from_millis(5);
const LONGEST_LEAD: Duration = Duration::from_millis(100);
/// After the store could not be used.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);
/// While turns are out, the shared clock is looked at so often.
const LOOK_EVERY: Duration = HORIZON.checked_div(2).expect("two is not zero");
/// And at rest, so that a jump does not pass for the drift of a long time.
const LOOK_AT_REST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Waiting {
    /// Whoever is due first asks first.
    pub(crate) due: Timestamp,
    pub(crate) new: NewTurn,
    pub(crate) answer: oneshot::Sender<Result<Granted, Refusal>>,
}

impl Waiting {
    fn refuse(self, why: NoTurn) {
        let unused = self.new.missed;
        // Whoever has gone does not hear it.
        let _ = self.answer.send(Err(Refusal { why, unused }));
    }

    fn unused(&self, attempt: AttemptId) -> Unused {
        Unused {
            attempt,
            item: self.new.item.clone(),
            run: self.new.run,
            kind: self.new.kind,
        }
    }
}

pub(crate) struct LaneQueue {
    lane: LaneName,
    /// Which configuration of a connector sends what waits here.
    watched: Option<WatchId>,
    store: Arc<dyn Store>,
    watch: Arc<ClockWatch>,
    /// The gate's: set once another node has taken over.
    fence: Arc<Fence>,
    /// The last turn that was handed out.
    last_out: Option<Instant>,
    /// The longest recent commit, forgotten slowly: turns must not be due before it ends.
    slowest: Duration,
    waiting: Vec<Waiting>,
}

impl LaneQueue {
    pub(crate) fn new(
        lane: LaneName,
        watched: Option<WatchId>,
        store: Arc<dyn Store>,
        watch: Arc<ClockWatch>,
        fence: Arc<Fence>,
    ) -> Self {
        Self {
            lane,
            watched,
            store,
            watch,
            fence,
            last_out: None,
            slowest: Duration::ZERO,
            waiting: vec![],
        }
    }

    pub(crate) async fn run(mut self, mut arrivals: mpsc::Receiver<Waiting>) {
        loop {
            if self.waiting.is_empty() {
                let Some(first) = self.next(&mut arrivals).await else {
                    return;
                };
                self.waiting.push(first);
            }
            while let Ok(next) = arrivals.try_recv() {
                self.waiting.push(next);
            }
            self.forget_the_gone();
            self.turn_all_away_if_fenced();
            self.waiting.sort_by_key(|w| w.due);
            if self.waiting.is_empty() {
                continue;
            }
            let pause = match self.ask().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(lane = %self.lane, %error, "no turns");
                    TROUBLE_PAUSE
                }
            };
            if !self.waiting.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(pause.min(LOOK_EVERY)) => {}
                    _ = self.fence.closed() => {}
                }
            }
        }
    }

    /// A node that hands over has not been taken over from yet, so the store would still give it turns.
    fn turn_all_away_if_fenced(&mut self) {
        let Some(why) = self.fence.why() else {
            return;
        };
        for waiting in self.waiting.drain(..) {
            waiting.refuse(NoTurn::Fenced(why.clone()));
        }
    }

    /// Whoever comes next. Meanwhile a jump of the clock voids the turns that are still out.
    async fn next(&self, arrivals: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
        loop {
            let is_out = self.last_out.is_some_and(|last| last > Instant::now());
            let pause = if is_out { LOOK_EVERY } else { LOOK_AT_REST };
            if let Ok(next) = tokio::time::timeout(pause, arrivals.recv()).await {
                return next;
            }
            if let Err(error) = self.watch.look(&*self.store).await {
                tracing::warn!(lane = %self.lane, %error, "the shared clock cannot be read");
            }
        }
    }

    /// Asks for a block of turns and hands them out; returns when to ask again.
    async fn ask(&mut self) -> StoreResult<Duration> {
        let bearing = match self.watch.look(&*self.store).await? {
            Look::Good(bearing) => bearing,
            Look::Quiet(left) => return Ok(left),
            Look::Uncertain(uncertainty) => {
                tracing::warn!(lane = %self.lane, ?uncertainty, "clock too uncertain for a turn");
                return Ok(TROUBLE_PAUSE);
            }
        };
        let asking = self.waiting.len().min(MAX_BLOCK);
        let wanted = TurnsWanted {
            lane: self.lane.clone(),
            watch: self.watched,
            lead: (self.slowest * 2).clamp(SHORTEST_LEAD, LONGEST_LEAD),
            attempts: self.waiting[..asking]
                .iter()
                .map(|w| w.new.clone())
                .collect(),
        };
        let asked = Instant::now();
        let block = self.store.take_turns(wanted).await;
        self.slowest = asked.elapsed().max(self.slowest * 9 / 10);
        let block = match block {
            Ok(block) => block,
            Err(error) => {
                // It may have been committed: whoever asked goes back and takes over what is open.
                self.turn_away(asking, &error);
                return Err(error);
            }
        };
        if !self.watch.still_holds(bearing, asked, block.now) {
            self.keep_as_missed(block, asking);
            return Ok(TROUBLE_PAUSE);
        }
        let pause = block.ask_again_in;
        self.hand_out(block, asking, bearing);
        Ok(pause)
    }

    /// Whoever has lost patience asks for nothing.
    fn forget_the_gone(&mut self) {
        for gone in self.waiting.extract_if(.., |w| w.answer.is_closed()) {
            if let Some(missed) = gone.new.missed {
                unused::settle_aside(&self.store, gone.unused(missed));
            }
        }
    }

    fn turn_away(&mut self, asking: usize, error: &StoreError) {
        if let StoreError::Fenced(why) = error {
            self.fence.close(why);
            return self.turn_all_away_if_fenced();
        }
        for waiting in self.waiting.drain(..asking) {
            waiting.refuse(NoTurn::Away(error.to_string()));
        }
    }

    /// The clock jumped while the block was taken: nobody can tell when its turns are.
    fn keep_as_missed(&mut self, block: TurnBlock, asking: usize) {
        for (waiting, turn) in self.waiting[..asking].iter_mut().zip(block.turns) {
            if let Turn::At { attempt, .. } = turn {
                waiting.new.missed = Some(attempt);
            }
        }
    }

    fn hand_out(&mut self, block: TurnBlock, asking: usize, bearing: ClockOffset) {
        let rest = self.waiting.split_off(asking);
        let asked = std::mem::replace(&mut self.waiting, rest);
        for (waiting, turn) in asked.into_iter().zip(block.turns) {
            match turn {
                Turn::At { attempt, at } => {
                    let local = bearing.sample.local(at);
                    self.last_out = self.last_out.max(Some(local));
                    let granted = Granted {
                        attempt,
                        at,
                        era: block.era,
                        local,
                        jumps: bearing.jumps,
                    };
                    self.grant(waiting, granted);
                }
                Turn::Closed { why, .. } => waiting.refuse(NoTurn::Closed(why)),
                Turn::NotYours(why) => waiting.refuse(NoTurn::NotYours(why)),
                Turn::LookAgain(why) => waiting.refuse(NoTurn::LookAgain(why)),
                Turn::TooLate => waiting.refuse(NoTurn::TooLate),
                Turn::Later => self.waiting.push(waiting),
            }
        }
    }

    /// Nobody sends for a caller that has gone.
    fn grant(&self, waiting: Waiting, granted: Granted) {
        let unused = waiting.unused(granted.attempt);
        if waiting.answer.send(Ok(granted)).is_err() {
            unused::settle_aside(&self.store, unused);
        }
    }
}
