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

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::account::without_accounts;
use tollgate_core::id::{AttemptId, LaneName, WatchId};
use tollgate_core::outcome::{AttemptKind, Outcome, Quiet};
use tollgate_core::ports::{
    Connector, Health, Heard, History, Line, Missed, NoLine, Permit, Settlement, Store, StoreError,
    StoreResult,
};
use tollgate_core::retry;

use crate::count;
use crate::decide::{self, Doubt, Next};
use crate::follow::{Follows, PAUSES, follow, judge, proved};
use crate::gate::{Ask, Gate, NoTurn, Refusal};
use crate::job::{IfDeclined, Job, Sent};
use crate::lane_care::LaneCare;
use crate::unused::Unused;
use aside::{requeued, superseded};

/// About ten seconds: well within a step.
const SETTLE_TRIES: retry::Policy = retry::Policy {
    max_attempts: 8,
    first_pause: Duration::from_millis(100),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(3),
};

/// How often an item is looked at again because another sender was faster, or because its permit expired before
/// the first byte. Another sender has made an attempt each time, so it is making progress; an expired permit has
/// cost the lane a turn, and a machine that loses this many in a row is too busy to send.
const MOST_LOOKS: u32 = 8;

/// How long an item rests that found all lines taken by others.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// After the gate could not ask for a turn.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// What came of one look at an item.
enum Look {
    Sent(Sent),
    /// Nothing was sent here, and what is to be done may have changed.
    Again(Again),
}

enum Again {
    /// Another attempt was made meanwhile.
    Overtaken,
    /// A turn was taken, and the permit expired at the socket.
    Missed(Missed),
}

/// What one exchange is about.
#[derive(Clone, Copy)]
struct Asked<'a> {
    job: &'a Job,
    if_declined: Option<&'a IfDeclined>,
    kind: AttemptKind,
    doubt: Doubt,
    /// Of the item, before this exchange.
    failures: u32,
    /// Whether "I have it already" would be evidence.
    duplicate_proves: bool,
}

pub struct Sender {
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
    connector: Arc<dyn Connector>,
    care: LaneCare,
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
            care,
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
        let history = self.history(job).await?;
        let key = &job.request.idempotency_key;
        let (kind, doubt) = match decide::next(&history, self.connector.profile(), key) {
            Next::AlreadyDone(answer) => return Ok(Look::Sent(Sent::Done(answer))),
            Next::AlreadyRefused(reason) => {
                // Settled by a run that no longer owned the item: the end is still to be written.
                let refused = job.moves.refused.clone();
                self.store.finish(&job.item, job.run, refused).await?;
                return Ok(Look::Sent(Sent::Refused(reason)));
            }
            Next::KeyIsDeclined if self.forgets_refusals => (AttemptKind::Send, Doubt::None),
            Next::KeyIsDeclined => {
                let why = format!("{key} was declined meanwhile; it is looked at again");
                return Err(StoreError::Unavailable(why));
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
        // The line comes first: failing here has sent nothing and spends no turn.
        let mut line = match self.connector.line().await {
            Ok(line) => line,
            Err(none) => {
                let sent = self.no_line(job, &none, &history).await;
                return sent.map(Look::Sent);
            }
        };
        let ask = self.ask(job, kind, doubt, &history);
        let _under_way = self.gate.under_way();
        match self.gate.turn(ask, &mut *line).await {
            Ok(permit) => {
                let ask = Asked {
                    job,
                    if_declined,
                    kind,
                    doubt,
                    failures: history.failures,
                    duplicate_proves: decide::duplicate_proves(
                        &history,
                        &job.request.idempotency_key,
                    ),
                };
                self.exchange(ask, line, permit).await
            }
            Err(refusal) => self.refused(job, kind, refusal, &history).await,
        }
    }

    /// Only a downstream that cannot be reached is held against it, and against the item.
    async fn no_line(&self, job: &Job, none: &NoLine, history: &History) -> StoreResult<Sent> {
        let said = none.to_string();
        match none {
            NoLine::Busy(_) => self.put_back(job, BUSY_PAUSE, &said).await,
            NoLine::NoLogin(why) => {
                self.care.no_login(why).await;
                self.put_back(job, BUSY_PAUSE, &said).await
            }
            NoLine::Unreachable(why) => {
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
            NoTurn::NotYours(why) => self.not_ours(job, why).await,
            NoTurn::TooLate => self.hold(job).await,
            // Nobody claims for a closed lane, and when it opens what was due first goes first.
            NoTurn::Closed(why) => self.put_back_in_place(job, &why).await,
            impatient @ NoTurn::Impatient(_) => {
                self.put_back_in_place(job, &impatient.to_string()).await
            }
            NoTurn::Away(why) => self.put_back(job, AWAY_PAUSE, &why).await,
            NoTurn::NoLine(none) => self.no_line(job, &none, history).await,
        };
        sent.map(Look::Sent)
    }

    /// No byte went out. That is written down, so that the next look finds no open attempt and takes another
    /// turn at once: the item neither rests nor has failed.
    async fn missed(
        &self,
        asked: &Asked<'_>,
        attempt: AttemptId,
        missed: Missed,
    ) -> StoreResult<Look> {
        let lane = self.connector.lane();
        metrics::counter!("tollgate_turns_dropped_total", "lane" => lane.to_string()).increment(1);
        tracing::debug!(item = %asked.job.item, %lane, %missed, "permit expired");
        let unused = unused(asked.job, asked.kind, attempt);
        unused.settle(&*self.store, &missed.to_string()).await?;
        Ok(Look::Again(Again::Missed(missed)))
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

    #[tracing::instrument(skip_all, fields(lane = %self.connector.lane(), kind = ?asked.kind, outcome))]
    async fn exchange(
        &self,
        asked: Asked<'_>,
        line: Box<dyn Line>,
        permit: Permit,
    ) -> StoreResult<Look> {
        let Asked {
            job,
            if_declined,
            kind,
            doubt,
            failures,
            duplicate_proves,
        } = asked;
        let (attempt, turn_at, era) = (permit.attempt(), permit.turn_at(), permit.era());
        let profile = self.connector.profile();
        let began = Instant::now();
        let heard = match kind {
            AttemptKind::Send if !doubt.permits(profile, turn_at, era) => Ok(Heard {
                outcome: Outcome::retry(
                    "not sent: the bank may have forgotten the key in the meantime",
                ),
                health: Health::Untold,
                is_duplicate: false,
            }),
            AttemptKind::Send => line.send(permit, &job.request).await,
            AttemptKind::Probe => line.probe(permit, &job.request).await,
        };
        let heard = match heard {
            Ok(heard) => heard,
            Err(missed) => return self.missed(&asked, attempt, missed).await,
        };
        self.care_for_lane(job, &heard, turn_at, began.elapsed())
            .await;
        let outcome = judge(proved(heard, duplicate_proves), doubt);
        tracing::Span::current().record("outcome", outcome.state().as_str());
        count::exchange(self.connector.lane(), kind, outcome.state());
        if matches!(outcome, Outcome::Unknown(_)) {
            // What was answered is in the attempt; a bank may repeat an account in it.
            tracing::warn!(item = %job.item, ?kind, "in doubt: outcome unknown");
        }
        let evidence_in = match kind {
            AttemptKind::Send => None,
            AttemptKind::Probe => Some(doubt.evidence_in(profile, turn_at, era)),
        };
        let pause = self.pause_after(failures);
        let Follows {
            record,
            then,
            disproves,
            sent,
        } = follow(job, if_declined, &outcome, evidence_in, pause);
        let close_lane = self.asked_for_quiet(&outcome);
        let (item, run) = (job.item.clone(), job.run);
        let settlement = Settlement {
            attempt,
            item,
            run,
            outcome,
            record,
            then,
            disproves,
            close_lane,
            accounts: job.accounts.clone(),
        };
        let is_refusal = matches!(settlement.outcome, Outcome::Refused(_));
        let is_ours = self.settle(settlement).await?;
        if is_refusal && self.watch.is_some() {
            self.look_for_storm().await;
        }
        if is_ours {
            return Ok(Look::Sent(sent));
        }
        let why = "another run took over while the answer was awaited";
        Ok(Look::Sent(superseded(job, "settle", why)))
    }

    fn asked_for_quiet(&self, outcome: &Outcome) -> Option<(LaneName, Duration)> {
        match outcome {
            Outcome::Retry {
                quiet: Quiet::For(time),
                ..
            } => Some((self.connector.lane().clone(), *time)),
            _ => None,
        }
    }

    /// The refusal may have paused the lane: this node's turns that are not used yet are dropped. If the
    /// store is away nobody else gets a turn either.
    async fn look_for_storm(&self) {
        let lane = self.connector.lane();
        match self.store.lane(lane).await {
            Ok(Some(found)) if found.storm.is_some() => {
                tracing::error!(%lane, "a refusal storm has paused the lane");
                self.gate.drop_turns(lane);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%lane, %error, "a storm could not be looked for"),
        }
    }

    /// What is slow fails as well: it will soon time out.
    async fn care_for_lane(&self, job: &Job, heard: &Heard, turn_at: Timestamp, took: Duration) {
        let slow = took > self.connector.profile().timeout / 2;
        let detail = without_accounts(heard.outcome.detail(), &job.accounts);
        let detail = detail.as_str();
        let (worked, detail) = match &heard.health {
            Health::Untold => return,
            Health::TurnsUsAway { why } => {
                self.care.stop(why, turn_at).await;
                (!slow, why.as_str())
            }
            Health::Answers => (!slow, detail),
            Health::Fails => (false, detail),
        };
        self.care.has_login().await;
        let heard_at = turn_at + took;
        self.care.heard(worked, turn_at, heard_at, detail).await;
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
}

fn unused(job: &Job, kind: AttemptKind, attempt: AttemptId) -> Unused {
    Unused {
        attempt,
        item: job.item.clone(),
        run: job.run,
        kind,
    }
}
