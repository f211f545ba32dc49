//! What a sender does for its whole lane: closes it for a while when exchanges keep failing, and
//! pauses it when the downstream takes nothing from us at all. Every move is audited.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::{Author, NewAudit, Store, StoreResult};

use crate::sending::breaker::{Breaker, Circuit};

/// So much of the last failure is told of a lane that the breaker has closed: it is kept with the cursor,
/// which every turn writes.
const LAST_CHARS: usize = 80;
/// How long a lane without a login is closed: at first, and at most.
const FIRST_LOGIN_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LOGIN_PAUSE: Duration = Duration::from_secs(15);

pub(crate) struct LaneCare {
    store: Arc<dyn Store>,
    lane: LaneName,
    breaker: Mutex<Breaker>,
    /// Many sends are turned away at once, and one of them pauses the lane.
    stopping: tokio::sync::Mutex<()>,
    /// Since when there is no login, and how long the lane was closed for it the last time.
    no_login: tokio::sync::Mutex<Option<(Instant, Duration)>>,
}

impl LaneCare {
    pub(crate) fn new(store: Arc<dyn Store>, lane: LaneName) -> Self {
        Self {
            store,
            lane,
            breaker: Mutex::default(),
            stopping: tokio::sync::Mutex::default(),
            no_login: tokio::sync::Mutex::default(),
        }
    }

    /// There is no token to show. The lane is closed for growing pauses, so that nothing is claimed in vain; nothing
    /// is held against the items or the downstream, and it is logged once.
    pub(crate) async fn no_login(&self, why: &str) {
        let Ok(mut since) = self.no_login.try_lock() else {
            return;
        };
        let pause = match *since {
            None => {
                tracing::warn!(lane = %self.lane, why, "the login failed: nothing is sent until it succeeds");
                FIRST_LOGIN_PAUSE
            }
            Some((at, pause)) if at.elapsed() < pause => return,
            Some((_, pause)) => (pause * 2).min(LONGEST_LOGIN_PAUSE),
        };
        let author = Author::new(actor::SENDER, why);
        if let Err(error) = self.store.close_lane(&self.lane, pause, author).await {
            tracing::warn!(lane = %self.lane, %error, "the lane could not be closed");
        }
        *since = Some((Instant::now(), pause));
    }

    /// Something went out again.
    pub(crate) async fn has_login(&self) {
        let mut since = self.no_login.lock().await;
        if since.take().is_some() {
            tracing::info!(lane = %self.lane, "the login works again");
        }
    }

    /// Tells the breaker, and carries out what it says. Nothing depends on it: a store that is
    /// away for the moment is not asked again.
    pub(crate) async fn heard(
        &self,
        worked: bool,
        began: Timestamp,
        heard: Timestamp,
        detail: &str,
    ) {
        let circuit = {
            let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
            breaker.record(worked, began, heard)
        };
        let lane = &self.lane;
        let done = match circuit {
            None => return,
            Some(Circuit::Opens { pause, failed, of }) => {
                tracing::warn!(%lane, ?pause, detail, "too many requests fail: the lane is closed for a while");
                let last: String = detail.chars().take(LAST_CHARS).collect();
                let why = format!("{failed} of the last {of} requests failed or were slow: {last}");
                let author = Author::new(actor::BREAKER, why);
                self.store.close_lane(lane, pause, author).await
            }
            Some(Circuit::Closes) => {
                tracing::info!(%lane, "requests succeed again");
                let entry = NewAudit {
                    action: "LANE_WORKS_AGAIN".into(),
                    actor: actor::BREAKER.into(),
                    detail: format!("lane {lane}: requests succeed again"),
                    ..NewAudit::default()
                };
                self.store.write_audit(entry).await
            }
        };
        if let Err(error) = done {
            tracing::warn!(%lane, %error, "the breaker could not close the lane or record that it works again");
        }
    }

    /// The configuration is wrong, not a million payments: the lane waits for a person. A store
    /// that is away is not asked again: the answer in hand counts for more, and the next send
    /// is turned away too.
    pub(crate) async fn stop(&self, why: &str, at: Timestamp) {
        let _alone = self.stopping.lock().await;
        if let Err(error) = self.pause(why, at).await {
            tracing::warn!(lane = %self.lane, %error, "the lane could not be paused");
        }
    }

    async fn pause(&self, why: &str, at: Timestamp) -> StoreResult<()> {
        let name = &self.lane;
        let lane = self.store.lane(name).await?;
        // A pause that has ended, or has yet to begin, stops nothing now.
        let is_paused = |pause: &Pause| pause.holds_at(at);
        if lane.is_none_or(|lane| lane.lane.pause.as_ref().is_some_and(is_paused)) {
            return Ok(());
        }
        tracing::error!(lane = %name, why, "the lane is paused");
        let change = LaneChange {
            pause: Some(Some(Pause::now(actor::SENDER, why))),
            ..LaneChange::default()
        };
        let author = Author::new(actor::SENDER, why);
        self.store.change_lane(name, change, author).await.map(drop)
    }
}
