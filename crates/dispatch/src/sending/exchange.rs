//! One exchange with a downstream: send or ask, judge the answer, settle it. It is a task of its own: whoever
//! waits for it may be cut off, and what is sent is answered and settled all the same.
//!
//! A crash in here leaves an open attempt, which the next sender takes over as Unknown.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::account::without_accounts;
use tollgate_core::id::AttemptId;
use tollgate_core::outcome::{AttemptKind, Outcome, Quiet};
use tollgate_core::ports::{
    Connection, Connector, ExchangeResult, Health, Missed, Permit, Settlement, Store, StoreError,
    StoreResult,
};
use tollgate_core::retry;
use tracing::Instrument;

use crate::gate::{Gate, UnderWay};
use crate::sending::count;
use crate::sending::decide::Doubt;
use crate::sending::follow::{Follows, follow, judge, proved};
use crate::sending::job::{IfDeclined, Job, Sent};
use crate::sending::lane_care::LaneCare;
use crate::sending::unused::Unused;

/// About ten seconds: well within a step.
const SETTLE_TRIES: retry::Policy = retry::Policy {
    max_attempts: 8,
    first_pause: Duration::from_millis(100),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(3),
};

/// What came of one look at an item.
pub(crate) enum Look {
    Sent(Sent),
    /// Nothing was sent here, and what is to be done may have changed.
    Again(Again),
}

pub(crate) enum Again {
    /// Another attempt was made meanwhile.
    Overtaken,
    /// A turn was taken, and the permit expired at the socket.
    Missed(Missed),
}

/// What one exchange is about, and all that it needs.
pub(crate) struct Exchange {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) care: Arc<LaneCare>,
    /// Its refusals count.
    pub(crate) watched: bool,
    pub(crate) job: Job,
    pub(crate) if_declined: Option<IfDeclined>,
    pub(crate) kind: AttemptKind,
    pub(crate) doubt: Doubt,
    /// "I know this one" would prove that an earlier send was done.
    pub(crate) duplicate_proves: bool,
    /// How long the item rests if this fails.
    pub(crate) pause: Duration,
}

impl Exchange {
    /// Begins now, and goes on if nobody waits for it any more.
    pub(crate) async fn run(
        self,
        connection: Box<dyn Connection>,
        permit: Permit,
        under_way: UnderWay,
    ) -> StoreResult<Look> {
        let exchange = async move {
            let done = self.exchange(connection, permit).await;
            drop(under_way);
            done
        };
        let exchange = tokio::spawn(exchange.instrument(tracing::Span::current()));
        match exchange.await {
            Ok(done) => done,
            Err(ended) => match ended.try_into_panic() {
                Ok(words) => std::panic::resume_unwind(words),
                Err(_) => Err(StoreError::Unavailable("the process stops".to_owned())),
            },
        }
    }

    #[tracing::instrument(skip_all, fields(lane = %self.connector.lane(), kind = ?self.kind, outcome))]
    async fn exchange(&self, connection: Box<dyn Connection>, permit: Permit) -> StoreResult<Look> {
        let (job, kind, doubt) = (&self.job, self.kind, self.doubt);
        let (attempt, turn_at, era) = (permit.attempt(), permit.turn_at(), permit.era());
        let began = Instant::now();
        let heard = self.hear(connection, permit).await;
        let heard = match heard {
            Ok(heard) => heard,
            Err(missed) => return self.missed(attempt, missed).await,
        };
        self.care_for_lane(&heard, turn_at, began.elapsed()).await;
        let outcome = judge(proved(heard, self.duplicate_proves), doubt);
        tracing::Span::current().record("outcome", outcome.state().as_str());
        count::exchange(self.connector.lane(), kind, outcome.state());
        if matches!(outcome, Outcome::Unknown(_)) {
            // What was answered is in the attempt; a bank may repeat an account in it.
            tracing::warn!(item = %job.item, ?kind, "in doubt: outcome unknown");
        }
        let evidence_in = match kind {
            AttemptKind::Send => None,
            AttemptKind::Probe => Some(doubt.evidence_in(self.connector.profile(), turn_at, era)),
        };
        let Follows {
            record,
            then,
            disproves,
            sent,
        } = follow(
            job,
            self.if_declined.as_ref(),
            &outcome,
            evidence_in,
            self.pause,
        );
        let close_lane = match &outcome {
            Outcome::Retry {
                quiet: Quiet::For(time),
                ..
            } => Some((self.connector.lane().clone(), *time)),
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
            disproves,
            close_lane,
            accounts: job.accounts.clone(),
        };
        let is_refusal = matches!(settlement.outcome, Outcome::Refused(_));
        let is_ours = self.settle(settlement).await?;
        if is_refusal && self.watched {
            self.look_for_storm().await;
        }
        if is_ours {
            return Ok(Look::Sent(sent));
        }
        let why = "another run took over while the answer was awaited";
        Ok(Look::Sent(superseded(job, "settle", why)))
    }

    /// Sends or asks. A bank that may have forgotten the key since the first send is not sent to.
    async fn hear(
        &self,
        connection: Box<dyn Connection>,
        permit: Permit,
    ) -> Result<ExchangeResult, Missed> {
        let profile = self.connector.profile();
        let is_safe = self.doubt.permits(profile, permit.turn_at(), permit.era());
        match self.kind {
            AttemptKind::Send if !is_safe => Ok(ExchangeResult {
                outcome: Outcome::retry(
                    "not sent: the bank may have forgotten the key in the meantime",
                ),
                health: Health::Untold,
                is_duplicate: false,
            }),
            AttemptKind::Send => connection.send(permit, &self.job.request).await,
            AttemptKind::Probe => connection.probe(permit, &self.job.request).await,
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
            Err(error) => tracing::warn!(%lane, %error, "refusal storms could not be checked"),
        }
    }

    /// What is slow fails as well: it will soon time out.
    async fn care_for_lane(&self, heard: &ExchangeResult, turn_at: Timestamp, took: Duration) {
        let slow = took > self.connector.profile().timeout / 2;
        let detail = without_accounts(heard.outcome.detail(), &self.job.accounts);
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

    /// No byte went out. That is written down, so that the next look finds no open attempt and takes another
    /// turn at once: the item neither rests nor has failed.
    async fn missed(&self, attempt: AttemptId, missed: Missed) -> StoreResult<Look> {
        let lane = self.connector.lane();
        metrics::counter!("tollgate_turns_dropped_total", "lane" => lane.to_string()).increment(1);
        tracing::debug!(item = %self.job.item, %lane, %missed, "permit expired");
        let unused = unused(&self.job, self.kind, attempt);
        unused.settle(&*self.store, &missed.to_string()).await?;
        Ok(Look::Again(Again::Missed(missed)))
    }
}

pub(crate) fn unused(job: &Job, kind: AttemptKind, attempt: AttemptId) -> Unused {
    Unused {
        attempt,
        item: job.item.clone(),
        run: job.run,
        kind,
    }
}

/// An update that is guarded by the run has moved no row.
pub(crate) fn superseded(job: &Job, what: &'static str, why: &str) -> Sent {
    tracing::warn!(item = %job.item, run = job.run, what, why, "nothing was written: the item was changed in the meantime");
    Sent::Superseded(why.to_owned())
}
