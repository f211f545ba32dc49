//! The sender: attempt, turn, send, settle. Once as far as money is concerned.
//!
//! A crash at any line: before the turn is taken nothing was sent and the step runs again; after
//! it, the attempt is open in the store, and the next sender takes it over as Unknown and resends
//! under the same key or asks, as the downstream's profile allows.
//!
//! Two senders of one run may overlap: a process that was stopped and wakes up, a step whose lease
//! was lost. So each decision names the latest attempt that it rests on, and the store gives no turn
//! for it once there is a later one; the sender then looks again.

mod aside;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::id::WatchId;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{
    Connector, History, NoConnection, Store, StoreError, StoreResult, Then,
};
use tollgate_core::retry;

use crate::gate::{Ask, Gate, NoTurn, Refusal};
use crate::sending::count;
use crate::sending::decide::{self, Doubt, Next};
use crate::sending::exchange::{Again, Exchange, Look, unused};
use crate::sending::follow::PAUSES;
use crate::sending::job::{IfDeclined, Job, Sent};
use crate::sending::lane_care::LaneCare;
use aside::requeued;

/// How often an item is looked at again because another sender was faster, or because its permit expired before
/// the first byte. Another sender has made an attempt each time, so it is making progress; an expired permit has
/// cost the lane a turn, and a machine that loses this many in a row is too busy to send.
const MOST_LOOKS: u32 = 8;

/// How long an item rests that found all connections taken by others.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// After the gate could not ask for a turn.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

pub struct Sender {
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
    connector: Arc<dyn Connector>,
    care: Arc<LaneCare>,
    pauses: retry::Policy,
    /// Under which name the store counts its refusals.
    watch: Option<WatchId>,
    /// A key under which the downstream has refused may be used again.
    forgets_refusals: bool,
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
        count::begin(connector.lane());
        Self {
            store,
            gate,
            connector,
            care: Arc::new(care),
            pauses: PAUSES,
            watch: None,
            forgets_refusals: false,
        }
    }

    /// Its refusals count: many of them pause the lane.
    #[must_use]
    pub fn watched(self, watch: WatchId) -> Self {
        Self {
            watch: Some(watch),
            ..self
        }
    }

    /// The downstream does not remember what it has refused: the same key may be sent again.
    #[must_use]
    pub fn forgetting_refusals(self) -> Self {
        Self {
            forgets_refusals: true,
            ..self
        }
    }

    /// Whether a refused item that is sent again needs another key.
    pub fn remembers_refusals(&self) -> bool {
        !self.forgets_refusals
    }

    /// For items that may wait longer between two tries than money may. Its `max_attempts` is not
    /// looked at: whether to go on is the domain's to decide.
    #[must_use]
    pub fn with_pauses(self, pauses: retry::Policy) -> Self {
        Self { pauses, ..self }
    }

    /// Ends when nothing is under way that this node has sent.
    pub async fn settled(&self) {
        self.gate.idle().await;
    }

    /// Waits until this node may send nothing more; why.
    pub async fn fenced(&self) -> String {
        self.gate.closed().await
    }

    /// Sends an item, or finds out what became of it. Safe to call again after a crash. A decline
    /// ends it like a refusal.
    pub async fn send(&self, job: &Job) -> StoreResult<Sent> {
        self.send_or(job, None).await
    }

    /// The same for items that may be declined and asked again: what follows is written together
    /// with the answer. The key of the next run must be another one: a job under a key that was
    /// declined meanwhile is not sent, and whoever made it looks again.
    pub async fn send_or(&self, job: &Job, if_declined: Option<&IfDeclined>) -> StoreResult<Sent> {
        let mut again = Again::Overtaken;
        for _ in 0..MOST_LOOKS {
            again = match self.look_and_send(job, if_declined).await? {
                Look::Sent(sent) => return Ok(sent),
                Look::Again(again) => again,
            };
        }
        match again {
            Again::Missed(why) => {
                self.put_back(job, BUSY_PAUSE, &format!("not sent: {why}"))
                    .await
            }
            Again::Overtaken => {
                let item = &job.item;
                let why = format!("other senders of {item} were faster {MOST_LOOKS} times");
                Err(StoreError::Unavailable(why))
            }
        }
    }

    async fn look_and_send(
        &self,
        job: &Job,
        if_declined: Option<&IfDeclined>,
    ) -> StoreResult<Look> {
        if let Some(why) = self.gate.fenced() {
            return Err(StoreError::Fenced(why));
        }
        let history = self.history(job).await?;
        let key = &job.request.idempotency_key;
        let (kind, doubt) = match decide::next(&history, self.connector.profile(), key) {
            Next::AlreadyDone(answer) => return Ok(Look::Sent(Sent::Done(answer))),
            Next::AlreadyRefused(reason) => {
                // Settled by a run that no longer owned the item: the end is still to be written.
                if job.refused_then == Then::Finish {
                    let refused = job.moves.refused.clone();
                    self.store.finish(&job.item, job.run, refused).await?;
                }
                return Ok(Look::Sent(Sent::Refused(reason)));
            }
            Next::KeyIsDeclined if self.forgets_refusals => (AttemptKind::Send, Doubt::None),
            Next::KeyIsDeclined => {
                let why = format!("{key} was declined in the meantime; Tollgate checks it again");
                return Err(StoreError::Unavailable(why));
            }
            Next::Send(Doubt::None) if is_rejected(job, &history) => {
                let why = history.last_error.unwrap_or_default();
                return Ok(Look::Sent(Sent::Refused(why)));
            }
            Next::Send(doubt) => (AttemptKind::Send, doubt),
            Next::Probe(doubt) => (AttemptKind::Probe, doubt),
        };
        let as_it_was;
        let job = match decide::key_in_doubt(&history) {
            Some(own) => {
                as_it_was = job.again(own, decide::first_sent_by(&history));
                &as_it_was
            }
            None => job,
        };
        if kind == AttemptKind::Send
            && let Some(why) = self.connector.why_not(&job.request)
        {
            return self.cannot_be_made(job, &why).await.map(Look::Sent);
        }
        // The connection comes first: failing here has sent nothing and spends no turn.
        let mut connection = match self.connector.connection().await {
            Ok(connection) => connection,
            Err(none) => {
                let sent = self.no_connection(job, &none, &history).await;
                return sent.map(Look::Sent);
            }
        };
        let ask = self.ask(job, kind, doubt, &history);
        let under_way = self.gate.under_way();
        match self.gate.turn(ask, &mut *connection).await {
            Ok(permit) => {
                let key = &job.request.idempotency_key;
                let exchange = Exchange {
                    store: Arc::clone(&self.store),
                    gate: Arc::clone(&self.gate),
                    connector: Arc::clone(&self.connector),
                    care: Arc::clone(&self.care),
                    watched: self.watch.is_some(),
                    job: job.clone(),
                    if_declined: if_declined.cloned(),
                    kind,
                    doubt,
                    duplicate_proves: decide::duplicate_proves(&history, key),
                    pause: self.pause_after(history.failures),
                };
                exchange.run(connection, permit, under_way).await
            }
            Err(refusal) => self.refused(job, kind, refusal, &history).await,
        }
    }

    /// Only a downstream that cannot be reached is held against it, and against the item.
    async fn no_connection(
        &self,
        job: &Job,
        none: &NoConnection,
        history: &History,
    ) -> StoreResult<Sent> {
        let said = none.to_string();
        match none {
            NoConnection::Busy(_) => self.put_back(job, BUSY_PAUSE, &said).await,
            NoConnection::NoLogin(why) => {
                self.care.no_login(why).await;
                self.put_back(job, BUSY_PAUSE, &said).await
            }
            NoConnection::Unreachable(why) => {
                self.care.heard(false, history.now, history.now, why).await;
                let pause = self.pause_after(history.failures);
                let (item, run) = (&job.item, job.run);
                let back = self.store.put_back_failed(item, run, pause, &said);
                Ok(requeued(job, back.await?, &said))
            }
        }
    }

    /// After one more failure than these.
    fn pause_after(&self, failures: u32) -> Duration {
        self.pauses.pause_after(failures.saturating_add(1))
    }

    /// What was attempted so far, once nobody may be using a turn.
    async fn history(&self, job: &Job) -> StoreResult<History> {
        loop {
            let (usable_for, in_doubt) = (self.gate.usable_for(), &job.moves.in_doubt);
            let history = self
                .store
                .take_over(&job.item, job.run, usable_for, in_doubt)
                .await?;
            match history.busy_for {
                // Bounded by the gate's `LATEST_USE`.
                Some(left) => tokio::time::sleep(left).await,
                None => return Ok(history),
            }
        }
    }

    /// There is no turn. First what was certainly not sent is written down, then the item moves: a
    /// crash between the two leaves an item that the next sender sends.
    async fn refused(
        &self,
        job: &Job,
        kind: AttemptKind,
        refusal: Refusal,
        history: &History,
    ) -> StoreResult<Look> {
        if let Some(attempt) = refusal.unused {
            let why = format!("its turn was missed, then: {}", refusal.why);
            let unused = unused(job, kind, attempt);
            unused.settle(&*self.store, &why).await?;
        }
        let sent = match refusal.why {
            NoTurn::LookAgain(_) => return Ok(Look::Again(Again::Overtaken)),
            NoTurn::Fenced(why) => return Err(StoreError::Fenced(why)),
            NoTurn::NotYours(why) => Ok(Sent::Superseded(why)),
            NoTurn::TooLate => self.hold(job).await,
            // Nobody claims for a closed lane, and when it opens what was due first goes first.
            NoTurn::Closed(why) => self.put_back_in_place(job, &why).await,
            impatient @ NoTurn::Impatient(_) => {
                self.put_back_in_place(job, &impatient.to_string()).await
            }
            NoTurn::Away(why) => self.put_back(job, AWAY_PAUSE, &why).await,
            NoTurn::NoConnection(none) => self.no_connection(job, &none, history).await,
        };
        sent.map(Look::Sent)
    }

    fn ask(&self, job: &Job, kind: AttemptKind, doubt: Doubt, history: &History) -> Ask {
        Ask {
            lane: self.connector.lane().clone(),
            watch: self.watch,
            item: job.item.clone(),
            run: job.run,
            kind,
            key: job.request.idempotency_key.clone(),
            planned: history.now,
            due: history.due,
            seen: history.latest(),
            may_be_late: kind == AttemptKind::Probe || matches!(doubt, Doubt::Since { .. }),
        }
    }
}

/// Whether rules have rejected it before it was sent: nothing but its end is left, and its news are queued before
/// that. Those who end an item with its refusal have no such moment.
fn is_rejected(job: &Job, history: &History) -> bool {
    job.refused_then == Then::Stay && history.status == job.moves.refused.to
}
