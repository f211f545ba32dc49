//! The life of a process between standing by and leading.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::id::Epoch;
use tollgate_core::leadership::{BEAT_EVERY, LOOK_EVERY, LeaderWatch, ProcessId, Verdict};
use tollgate_core::ports::{Call, Leadership, Nodes, StoreError, StoreResult, Term};
use tollgate_core::retry;
use tollgate_engine::{Stop, Switch};

use super::term::RunningTerm;
use super::{Basis, End, Role, settings};

/// Before a process that could not begin its term tries again; others may be quicker.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// A store that is away is told so long that this process resigns; then its silence tells.
const RESIGN_WITHIN: Duration = Duration::from_secs(2);
/// A beat that is not answered by then is tried again, on another connection.
const BEAT_WITHIN: Duration = Duration::from_secs(1);
const TRIES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_millis(50),
    factor: retry::TWICE,
    longest_pause: Duration::from_millis(500),
};

/// Why a term is over.
enum Over {
    AskedToStop,
    Fenced(String),
    Died(String),
}

pub(super) struct Process {
    basis: Basis,
    /// None where nobody else can open the store.
    among: Option<Arc<dyn Leadership>>,
    settings: String,
    switch: Switch,
    role: watch::Sender<Role>,
    calls: mpsc::Receiver<Call>,
    watch: LeaderWatch,
    /// Times of `watch` are since then.
    began: Instant,
    /// How the settings of the last leader that was seen alive differ from ours.
    other_settings: Option<String>,
    /// Nobody leads, and it was said why this process does not.
    has_said_why: bool,
}

impl Process {
    pub(super) fn new(
        basis: Basis,
        among: Option<Arc<dyn Leadership>>,
        switch: Switch,
        role: watch::Sender<Role>,
        calls: mpsc::Receiver<Call>,
    ) -> Self {
        Self {
            settings: settings::shared(&basis.config),
            basis,
            among,
            switch,
            role,
            calls,
            watch: LeaderWatch::default(),
            began: Instant::now(),
            other_settings: None,
            has_said_why: false,
        }
    }

    /// An error ends the start; later ones are tried again.
    pub(super) async fn first_term(&mut self) -> anyhow::Result<Option<RunningTerm>> {
        let Some(among) = self.among.clone() else {
            let store = Arc::clone(&self.basis.store);
            let epoch = store.take_node().await?;
            let term = RunningTerm::begin(&self.basis, Term { epoch, store }).await?;
            self.announce(&term);
            return Ok(Some(term));
        };
        let term = match self.basis.config.store.leadership {
            tollgate_config::Leadership::TakeOver => among.lead(None, &self.settings).await?,
            tollgate_config::Leadership::Standby => match self.look(&*among).await? {
                (nodes, Verdict::Vacant) => among.lead(Some(nodes.seen), &self.settings).await?,
                (_, Verdict::Led) => None,
            },
        };
        match term {
            Some(term) => self.begin(&*among, term).await.map(Some),
            None => {
                tracing::info!("another process leads, or is about to; standing by");
                Ok(None)
            }
        }
    }

    /// Until told to stop, or until this process must end: then it says why.
    pub(super) async fn run(
        mut self,
        mut first: Option<RunningTerm>,
        mut stop: watch::Receiver<bool>,
    ) -> Option<End> {
        loop {
            let mut term = match first.take() {
                Some(term) => term,
                None => self.stand_by(&mut stop).await?,
            };
            let over = self.lead(&term, &mut stop).await;
            self.switch.set(None);
            match over {
                Over::AskedToStop => {
                    let why = "it is stopping".to_owned();
                    self.role.send_replace(Role::Standby(Some(why)));
                    self.hand_over(&mut term).await;
                    term.end().await;
                    return None;
                }
                Over::Died(why) => {
                    term.cease(&why);
                    term.end().await;
                    return Some(End::Died(why));
                }
                Over::Fenced(why) => {
                    term.cease(&why);
                    if !self.stands_by() {
                        term.end().await;
                        return Some(End::Fenced(why));
                    }
                    self.role.send_replace(Role::Standby(None));
                    tracing::warn!(%why, "another process has taken over; standing by");
                    self.watch = LeaderWatch::default();
                    // Nothing of it can do harm; it ends in its own time.
                    tokio::spawn(term.end());
                }
            }
        }
    }

    fn stands_by(&self) -> bool {
        let is_standby = self.basis.config.store.leadership == tollgate_config::Leadership::Standby;
        self.among.is_some() && is_standby
    }

    fn announce(&mut self, term: &RunningTerm) {
        self.switch.set(Some(term.handle()));
        self.role.send_replace(Role::Leader(term.epoch));
        (self.other_settings, self.has_said_why) = (None, false);
        if self.among.is_some() {
            metrics::counter!("tollgate_leader_changes_total").increment(1);
            tracing::info!(epoch = term.epoch.0, "this process leads");
        }
    }

    /// Beats, and hears who calls, until the term is over.
    async fn lead(&mut self, term: &RunningTerm, stop: &mut watch::Receiver<bool>) -> Over {
        let among = self.among.as_deref();
        let (calls, fed) = (&mut self.calls, &self.basis.fed);
        let hear = async {
            loop {
                tokio::select! {
                    Some(_) = calls.recv() => term.wake(),
                    () = fed.woken() => term.wake(),
                }
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => Over::AskedToStop,
            why = beat_until_fenced(among, term.epoch) => Over::Fenced(why),
            stopped = term.stopped() => match stopped {
                Stop::Shutdown => Over::AskedToStop,
                Stop::Fenced(why) => Over::Fenced(why),
                Stop::Died(why) => Over::Died(why),
            },
            () = hear => Over::AskedToStop,
        }
    }

    /// Beats on while it waits for answers, so that nobody takes over before they are written.
    async fn hand_over(&self, term: &mut RunningTerm) {
        let (began, epoch) = (Instant::now(), term.epoch);
        let among = self.among.as_deref();
        tokio::select! {
            () = term.quiesce() => {}
            why = beat_until_fenced(among, epoch) => {
                tracing::warn!(%why, "another process has taken over");
                return;
            }
        }
        let Some(among) = among else { return };
        if resign(among, epoch).await {
            tracing::info!(epoch = epoch.0, took = ?began.elapsed(), "handed over; this process no longer leads");
        }
    }

    /// Until this process leads; nothing when it is told to stop.
    async fn stand_by(&mut self, stop: &mut watch::Receiver<bool>) -> Option<RunningTerm> {
        let among = self.among.clone()?;
        loop {
            let pause = match self.try_to_lead(&*among).await {
                Ok(Some(term)) => return Some(term),
                Ok(None) => LOOK_EVERY,
                Err(error) => {
                    tracing::error!("this process cannot lead: {error:#}; it stays a standby");
                    PAUSE_AFTER_FAILURE
                }
            };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return None,
                () = sleep(pause) => {}
                () = self.called(&*among) => {}
            }
        }
    }

    /// Until the leader may have changed. Uploads at this process are for the leader to take in.
    async fn called(&mut self, among: &dyn Leadership) {
        loop {
            tokio::select! {
                Some(call) = self.calls.recv() => match call {
                    Call::Leadership => return,
                    Call::Flows | Call::Uploads | Call::Anything => {}
                },
                () = self.basis.fed.woken() => {
                    if let Err(error) = among.call(Call::Uploads).await {
                        tracing::debug!(%error, "the leader could not be notified; it finds the upload by itself");
                    }
                }
            }
        }
    }

    async fn try_to_lead(&mut self, among: &dyn Leadership) -> anyhow::Result<Option<RunningTerm>> {
        let Ok((nodes, verdict)) = self.look(among).await else {
            return Ok(None);
        };
        if verdict == Verdict::Led {
            self.has_said_why = false;
            return Ok(None);
        }
        if !self.may_lead(&nodes, among.process()) {
            return Ok(None);
        }
        let silent_for = self.watch.silent_for(self.began.elapsed());
        // Whatever became of an answer that was lost: the next look shows it.
        let Ok(Some(term)) = among.lead(Some(nodes.seen), &self.settings).await else {
            return Ok(None);
        };
        match silent_for {
            Some(silent) => tracing::warn!(?silent, "the leader is silent; taking over"),
            None => tracing::info!("the leader has resigned; taking over"),
        }
        self.begin(among, term).await.map(Some)
    }

    /// A term that cannot begin is over, and somebody else may lead. One that has begun is announced here and not
    /// in a task: the first request after the start finds an engine.
    async fn begin(&mut self, among: &dyn Leadership, term: Term) -> anyhow::Result<RunningTerm> {
        let epoch = term.epoch;
        let begun = RunningTerm::begin(&self.basis, term).await;
        match &begun {
            Ok(term) => self.announce(term),
            Err(_) => _ = resign(among, epoch).await,
        }
        begun
    }

    async fn look(&mut self, among: &dyn Leadership) -> StoreResult<(Nodes, Verdict)> {
        let began = self.began.elapsed();
        let looked = among.look().await;
        let ended = self.began.elapsed();
        let nodes = looked.inspect_err(|_| self.watch.missed(ended))?;
        let verdict = self.watch.look(began, ended, nodes.seen);
        self.compare(&nodes);
        // A takeover of ours whose answer was lost: nobody does anything under its epoch.
        let is_ours = nodes.seen.leader == Some(among.process());
        Ok((nodes, if is_ours { Verdict::Vacant } else { verdict }))
    }

    /// The settings of a leader that lives say what the settings are.
    fn compare(&mut self, nodes: &Nodes) {
        if nodes.seen.leader.is_none() {
            return;
        }
        if !self.watch.was_alive() {
            return;
        }
        let other = settings::difference(&nodes.settings, &self.settings);
        if other == self.other_settings {
            return;
        }
        match &other {
            Some(difference) => tracing::error!(
                "this process cannot take over: its settings differ from the leader's: {difference}; correct them and restart it"
            ),
            None => {
                tracing::info!(
                    "this process has the same settings as the leader again; it can take over"
                );
            }
        }
        self.role.send_replace(Role::Standby(other.clone()));
        self.other_settings = other;
    }

    /// With settings other than those of the leader it has seen alive, only when every process that had them has
    /// ended in order: so settings are changed by restarting one process after the other.
    fn may_lead(&mut self, nodes: &Nodes, this: ProcessId) -> bool {
        let Some(difference) = &self.other_settings else {
            return true;
        };
        match settings::who_has_the_leaders(nodes, this) {
            None => {
                tracing::warn!(
                    "no process with the last leader's settings is left; taking over with different settings: {difference}"
                );
                true
            }
            Some(other) => {
                if !std::mem::replace(&mut self.has_said_why, true) {
                    tracing::error!(
                        "there is no leader, and this process does not take over: its settings differ from the last leader's ({difference}), and {other} did not shut down cleanly; start a process with the leader's settings, or restart this one"
                    );
                }
                false
            }
        }
    }
}

async fn beat_until_fenced(among: Option<&dyn Leadership>, epoch: Epoch) -> String {
    let Some(among) = among else {
        return std::future::pending().await;
    };
    let mut failures = 0;
    loop {
        let beaten = timeout(BEAT_WITHIN, among.beat(epoch)).await;
        let beaten = beaten.unwrap_or_else(|_| {
            let why = format!("no answer within {BEAT_WITHIN:?}");
            Err(StoreError::Unavailable(why))
        });
        let pause = match beaten {
            Ok(()) => {
                failures = 0;
                BEAT_EVERY
            }
            Err(StoreError::Fenced(why)) => return why,
            Err(error) => {
                if failures == 0 {
                    tracing::warn!(%error, "the leader cannot record its heartbeat; a standby may take over");
                }
                failures += 1;
                TRIES.pause_after(failures)
            }
        };
        sleep(pause).await;
    }
}

/// Whether the store knows it; if not, our silence says the same a little later.
async fn resign(among: &dyn Leadership, epoch: Epoch) -> bool {
    let resigning = async {
        let mut tries = 0;
        while let Err(error) = among.resign(epoch).await {
            tries += 1;
            tracing::warn!(%error, tries, "cannot record in the store that this process no longer leads");
            sleep(TRIES.pause_after(tries)).await;
        }
    };
    timeout(RESIGN_WITHIN, resigning).await.is_ok()
}
