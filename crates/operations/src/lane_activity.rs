//! What every lane does right now, for those who watch: taken at most once a second, however many
//! watch, and at the cost of the sends since the last look.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tollgate_core::id::LaneName;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{AtRisk, Store, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::{Forecaster, LaneForecast, Late};
use tollgate_domains::{invoices, payments};

/// How far back the rate is told.
pub const HISTORY: SignedDuration = SignedDuration::from_mins(3);
/// A look is good for so long.
const FRESH: Duration = Duration::from_millis(900);
/// What is in doubt is counted so often.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// A turn is logged before it is used, and may be logged late: the last seconds are read again.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// All lanes at one moment.
#[derive(Debug)]
pub struct Sample {
    pub now: Timestamp,
    pub lanes: Vec<LaneActivity>,
    pub doubt: InDoubt,
}

/// What is in doubt, by currency.
#[derive(Debug, Clone, Default)]
pub struct InDoubt {
    pub payments: Vec<AtRisk>,
    pub invoices: Vec<AtRisk>,
}

#[derive(Debug)]
pub struct LaneActivity {
    pub lane: LaneInForce,
    /// What is foreseen for it; not older than a second.
    pub forecast: Arc<LaneForecast>,
    pub late: Late,
    /// Seconds in which something was sent, with the number of sends, in order.
    pub seconds: Vec<(Timestamp, u32)>,
    /// The most sends in any sliding second that was seen.
    pub worst_second: u32,
}

pub struct Activity {
    store: Arc<dyn Store>,
    forecaster: Arc<Forecaster>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Arc<Sample>)>,
    lanes: HashMap<LaneName, Seen>,
    doubt: Option<(Instant, InDoubt)>,
}

/// What is remembered of a lane between two looks.
#[derive(Default)]
struct Seen {
    until: Option<Timestamp>,
    seconds: BTreeMap<i64, (u32, u32)>,
}

impl Activity {
    pub fn new(store: &Arc<dyn Store>, forecaster: &Arc<Forecaster>) -> Self {
        Self {
            store: Arc::clone(store),
            forecaster: Arc::clone(forecaster),
            state: Mutex::default(),
        }
    }

    /// The last look if it is fresh, else a new one. Whoever comes meanwhile waits for it.
    pub async fn now(&self) -> StoreResult<Arc<Sample>> {
        let mut state = self.state.lock().await;
        if let Some((at, sample)) = &state.last
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(sample));
        }
        let began = Instant::now();
        let sample = Arc::new(self.look(&mut state).await?);
        state.last = Some((began, Arc::clone(&sample)));
        Ok(sample)
    }

    async fn look(&self, state: &mut State) -> StoreResult<Sample> {
        let now = self.store.now().await?;
        let mut lanes = vec![];
        for lane in self.store.lanes().await? {
            let seen = state.lanes.entry(lane.name.clone()).or_default();
            self.read_sends(&lane, seen, now).await?;
            let Some(forecast) = self.forecaster.lane_as_in(&lane).await? else {
                continue;
            };
            let late = self.forecaster.late(&lane.name).await?;
            lanes.push(activity_of(lane, forecast, late, seen, now));
        }
        let doubt = self.doubt(&mut state.doubt).await?;
        Ok(Sample { now, lanes, doubt })
    }

    async fn doubt(&self, known: &mut Option<(Instant, InDoubt)>) -> StoreResult<InDoubt> {
        if let Some((at, doubt)) = known
            && at.elapsed() < COUNT_EVERY
        {
            return Ok(doubt.clone());
        }
        let doubt = InDoubt {
            payments: self.store.at_risk(&payments::item_type()).await?,
            invoices: self.store.at_risk(&invoices::item_type()).await?,
        };
        *known = Some((Instant::now(), doubt.clone()));
        Ok(doubt)
    }

    async fn read_sends(
        &self,
        lane: &LaneInForce,
        seen: &mut Seen,
        now: Timestamp,
    ) -> StoreResult<()> {
        let oldest = now - HISTORY;
        // A clock that was set back begins anew.
        let known = seen.until.filter(|until| (oldest..=now).contains(until));
        if known.is_none() {
            seen.seconds.clear();
        }
        let from = known.map_or(oldest, |until| until - AGAIN).as_second();
        let from_time = Timestamp::from_second(from).unwrap_or(oldest);
        let proof = self.store.certificate(&lane.name, from_time, now).await?;
        seen.seconds
            .retain(|second, _| (oldest.as_second()..from).contains(second));
        for part in proof.parts {
            let sends = (part.sends, part.worst_second);
            seen.seconds.insert(part.start.as_second(), sends);
        }
        seen.until = Some(now);
        Ok(())
    }
}

fn activity_of(
    lane: LaneInForce,
    forecast: Arc<LaneForecast>,
    deadlines: Late,
    seen: &Seen,
    now: Timestamp,
) -> LaneActivity {
    let at = |second: &i64| Timestamp::from_second(*second).unwrap_or(now);
    let seconds = seen.seconds.iter();
    LaneActivity {
        lane,
        forecast,
        late: deadlines,
        worst_second: seconds
            .clone()
            .map(|(_, (_, worst))| *worst)
            .max()
            .unwrap_or(0),
        seconds: seconds
            .map(|(second, (sends, _))| (at(second), *sends))
            .collect(),
    }
}
