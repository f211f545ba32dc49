//! The sender: attempt, turn, send, settle. Once as far as money is concerned.
//!
//! A crash at any line: before the turn is taken nothing was sent and the step runs again; after
//! it, the attempt is open in the store, and whoever runs the step next takes it over as Unknown
//! and resends under the same key or asks, as the downstream's profile allows.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::id::Item;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::CLOSED_PAUSE;
use tollgate_core::outcome::{AttemptKind, Outcome, Quiet};
use tollgate_core::ports::{
    Connector, ItemView, Line, Permit, Request, Settlement, StatusMove, Store, StoreError,
    StoreResult, Then,
};
use tollgate_core::retry;

use crate::decide::{self, Doubt, Next};
use crate::gate::{Ask, Gate, NoTurn};
use crate::lane_care::LaneCare;

/// The pauses of an item that goes back to the queue, by its run: growing, and without an end.
const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(1),
    factor: 2,
    longest_pause: Duration::from_mins(5),
};

/// About ten seconds: well within a step.
const SETTLE_TRIES: retry::Policy = retry::Policy {
    max_attempts: 8,
    first_pause: Duration::from_millis(100),
    factor: 2,
    longest_pause: Duration::from_secs(3),
};

/// One item to be sent.
#[derive(Debug, Clone)]
pub struct Job {
    pub item: Item,
    pub run: u32,
    pub request: Request,
    pub moves: Moves,
}

/// How the record moves with the outcome.
#[derive(Debug, Clone)]
pub struct Moves {
    pub done: StatusMove,
    pub refused: StatusMove,
    pub in_doubt: StatusMove,
}

/// What became of the item for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    /// The downstream did it; its answer.
    Done(String),
    /// A definite no; the item has ended.
    Refused(String),
    /// The item waits in the queue and comes back as its next run.
    Requeued(String),
    /// It must not run late and would; it waits for a person. Nothing was sent.
    Held,
    /// Another run owns the item. Nothing was sent.
    Superseded(String),
}

pub struct Sender {
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
    connector: Arc<dyn Connector>,
    care: LaneCare,
    pauses: retry::Policy,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("lane", self.connector.lane())
            .finish_non_exhaustive()
    }
}

impl Sender {
    pub fn new(store: Arc<dyn Store>, gate: Arc<Gate>, connector: Arc<dyn Connector>) -> Self {
        let care = LaneCare::new(Arc::clone(&store), connector.lane().clone());
        Self {
            store,
            gate,
            connector,
            care,
            pauses: PAUSES,
        }
    }

    /// For items that may wait longer between two tries than money may. Its `max_attempts` is not
    /// looked at: whether to go on is the domain's to decide.
    #[must_use]
    pub fn with_pauses(self, pauses: retry::Policy) -> Self {
        Self { pauses, ..self }
    }

    /// Sends an item, or finds out what became of it. Safe to call again after a crash.
    pub async fn send(&self, job: &Job) -> StoreResult<Sent> {
        let history = loop {
            let history = self
                .store
                .take_over(&job.item, self.gate.tolerance())
                .await?;
            match history.busy_for {
                // Bounded: a turn lies at most the gate's horizon or one turn of the slowest lane ahead.
                Some(left) => tokio::time::sleep(left).await,
                None => break history,
            }
        };
        let (kind, doubt) = match decide::next(&history.past, self.connector.profile(), history.now)
        {
            Next::AlreadyDone(answer) => return Ok(Sent::Done(answer)),
            Next::AlreadyRefused(reason) => {
                // Settled by a run that no longer owned the item: the end is still to be written.
                let refused = job.moves.refused.clone();
                self.store.finish(&job.item, job.run, refused).await?;
                return Ok(Sent::Refused(reason));
            }
            Next::Send(doubt) => (AttemptKind::Send, doubt),
            Next::Probe(doubt) => (AttemptKind::Probe, doubt),
        };
        // The connection comes first: failing here has sent nothing and spends no turn.
        let line = match self.connector.line().await {
            Ok(line) => line,
            Err(why) => {
                let now = history.now;
                self.care.heard(false, now, now, &why).await;
                return self
                    .put_back(job, self.pauses.pause_after(job.run), &why)
                    .await;
            }
        };
        let permit = match self
            .gate
            .turn(self.ask(job, kind, doubt, history.now))
            .await
        {
            Ok(permit) => permit,
            Err(NoTurn::NotYours(why)) => return self.not_ours(job, why).await,
            Err(NoTurn::TooLate) => return self.hold(job).await,
            // Not for as long as the lane is closed: nobody claims for a closed lane, and one
            // that opens earlier than it said finds its items ready.
            Err(NoTurn::Closed { why, for_at_least }) => {
                let pause = for_at_least.min(CLOSED_PAUSE);
                return self.put_back(job, pause, &why).await;
            }
            Err(impatient @ NoTurn::Impatient(_)) => {
                return self
                    .put_back(job, Duration::from_secs(1), &impatient.to_string())
                    .await;
            }
        };
        self.exchange(job, kind, doubt, line, permit).await
    }

    /// After a restart a flow may run before the dispatcher has claimed its item again: then it is
    /// only early, and the step is tried again.
    async fn not_ours(&self, job: &Job, why: String) -> StoreResult<Sent> {
        let view = self.store.item(&job.item).await?;
        let early =
            |view: &ItemView| view.queue_status == QueueStatus::Ready && view.run == job.run;
        if view.is_some_and(|view| early(&view)) {
            return Err(StoreError::Unavailable(format!("not claimed yet: {why}")));
        }
        Ok(Sent::Superseded(why))
    }

    fn ask(&self, job: &Job, kind: AttemptKind, doubt: Doubt, planned: Timestamp) -> Ask {
        Ask {
            lane: self.connector.lane().clone(),
            item: job.item.clone(),
            run: job.run,
            kind,
            key: job.request.idempotency_key.clone(),
            planned,
            may_be_late: kind == AttemptKind::Probe || matches!(doubt, Doubt::Since { .. }),
        }
    }

    async fn exchange(
        &self,
        job: &Job,
        kind: AttemptKind,
        doubt: Doubt,
        line: Box<dyn Line>,
        permit: Permit,
    ) -> StoreResult<Sent> {
        let (attempt, turn_at) = (permit.attempt(), permit.turn_at());
        let began = Instant::now();
        let said = match kind {
            AttemptKind::Send if !doubt.permits(self.connector.profile(), turn_at) => {
                Outcome::retry("not sent: the bank may have forgotten the key meanwhile")
            }
            AttemptKind::Send => line.send(permit, &job.request).await,
            AttemptKind::Probe => line.probe(permit, &job.request).await,
        };
        let took = began.elapsed();
        let slow = took > self.connector.profile().timeout / 2;
        let worked = !slow && !matches!(said, Outcome::Unknown(_));
        let heard_at = turn_at + took;
        self.care
            .heard(worked, turn_at, heard_at, said.detail())
            .await;
        let outcome = judge(said, doubt);
        let (record, then, sent) = self.follow(job, kind, doubt, turn_at, &outcome);
        let close_lane = match &outcome {
            Outcome::Retry {
                quiet: Quiet::For(time),
                ..
            } => Some((self.connector.lane().clone(), *time)),
            Outcome::Retry {
                why,
                quiet: Quiet::UntilResumed,
            } => {
                self.care.stop(why, turn_at).await;
                None
            }
            _ => None,
        };
        let (item, run) = (job.item.clone(), job.run);
        let settlement = Settlement {
            attempt,
            item,
            run,
            outcome,
            record,
            then,
            close_lane,
        };
        if self.settle(settlement).await? {
            return Ok(sent);
        }
        Ok(Sent::Superseded(
            "another run took over while the answer was awaited".into(),
        ))
    }

    /// An answer in hand is not thrown away because the store is away for a moment.
    async fn settle(&self, settlement: Settlement) -> StoreResult<bool> {
        let mut tries = 1;
        loop {
            match self.store.settle(settlement.clone()).await {
                Err(StoreError::Unavailable(why)) => {
                    let Some(pause) = SETTLE_TRIES.next_pause(tries) else {
                        return Err(StoreError::Unavailable(why));
                    };
                    tries += 1;
                    tokio::time::sleep(pause).await;
                }
                said => return said,
            }
        }
    }

    /// What follows from an outcome: for the record, for the queue, and for the flow.
    fn follow(
        &self,
        job: &Job,
        kind: AttemptKind,
        doubt: Doubt,
        turn_at: Timestamp,
        outcome: &Outcome,
    ) -> (Option<StatusMove>, Then, Sent) {
        let requeue = |after: Duration, why: &str| {
            let why = why.to_owned();
            (
                Then::Requeue {
                    after,
                    why: why.clone(),
                },
                Sent::Requeued(why),
            )
        };
        match outcome {
            Outcome::Done(answer) => (
                Some(job.moves.done.clone()),
                Then::Stay,
                Sent::Done(answer.clone()),
            ),
            Outcome::Refused(reason) => (
                Some(job.moves.refused.clone()),
                Then::Finish,
                Sent::Refused(reason.clone()),
            ),
            Outcome::Unknown(why) => {
                let (then, sent) = requeue(self.pauses.pause_after(job.run), why);
                (Some(job.moves.in_doubt.clone()), then, sent)
            }
            Outcome::Retry { why, quiet } => {
                let pause = match (kind, doubt) {
                    // "Unknown to me": ask again when that will be evidence; send again if it is.
                    (AttemptKind::Probe, Doubt::Since { last: sent, .. }) => {
                        let settle = self.connector.profile().settle;
                        // A clock that was set back knows nothing: the whole time is left.
                        let age = Duration::try_from(turn_at.duration_since(sent));
                        settle.saturating_sub(age.unwrap_or_default())
                    }
                    _ => match quiet {
                        Quiet::For(time) => self.pauses.pause_after(job.run).max(*time),
                        Quiet::No | Quiet::UntilResumed => self.pauses.pause_after(job.run),
                    },
                };
                let (then, sent) = requeue(pause, why);
                (None, then, sent)
            }
        }
    }

    async fn hold(&self, job: &Job) -> StoreResult<Sent> {
        if self.store.hold(&job.item, job.run).await? {
            return Ok(Sent::Held);
        }
        Ok(Sent::Superseded("another run owns the item".into()))
    }

    async fn put_back(&self, job: &Job, pause: Duration, why: &str) -> StoreResult<Sent> {
        if self.store.put_back(&job.item, job.run, pause, why).await? {
            return Ok(Sent::Requeued(why.to_owned()));
        }
        Ok(Sent::Superseded("another run owns the item".into()))
    }
}

/// Once an attempt is Unknown, a later refusal proves nothing about it.
fn judge(said: Outcome, doubt: Doubt) -> Outcome {
    match (said, doubt) {
        (Outcome::Refused(reason), Doubt::Since { .. }) => Outcome::Unknown(format!(
            "an earlier send is in doubt, and this proves nothing about it: {reason}"
        )),
        (said, _) => said,
    }
}
