//! The forecaster: when something runs, and what will be late. It keeps one timetable per lane, a moment old
//! at most, for all who ask: intake, items, lanes, metrics. The arithmetic is the timetable's.

mod late;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rust_decimal::Decimal;
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{LaneInForce, no_such_lane};
use tollgate_core::ports::{
    AttemptView, Far, ItemView, RecordLine, Store, StoreResult, Unsent, UnsentOnLane,
};
use tollgate_core::timetable::{Load, Outset, Timetable, Untold, UntoldCode, way};

use crate::dispatching::item_types::{SwitchedOff, switched_off};

pub use late::{Late, LateInBulk};

/// A timetable is good for so long, unless its lane changes.
const FRESH: Duration = Duration::from_secs(1);
/// The way to a turn changes slowly.
const WAY_FRESH: Duration = Duration::from_secs(10);
/// The way is measured by so many sends.
const MEASURED: u32 = 1000;
/// So many items are looked at one by one; what is behind them is counted by window.
pub(crate) const NEAR: u32 = 10_000;

/// The way to a turn takes at least so long on an engine within the process.
pub const LEAST_WAY: Duration = Duration::from_millis(20);
/// And on Temporal.
pub const LEAST_WAY_ON_TEMPORAL: Duration = Duration::from_secs(1);

pub struct Forecaster {
    store: Arc<dyn Store>,
    item_types: Vec<ItemType>,
    margin: Decimal,
    least_way: Duration,
    lanes: Mutex<HashMap<LaneName, Arc<tokio::sync::Mutex<Kept>>>>,
}

impl std::fmt::Debug for Forecaster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forecaster")
            .field("item_types", &self.item_types)
            .finish_non_exhaustive()
    }
}

/// What is known of a lane.
#[derive(Default)]
struct Kept {
    /// With the moment at which its look began.
    forecast: Option<(Instant, Arc<LaneForecast>)>,
    late: late::Counted,
    way: Option<(Instant, Duration)>,
}

/// A lane's timetable, and which types of items it is good for.
#[derive(Debug)]
pub struct LaneForecast {
    pub lane: LaneInForce,
    pub table: Timetable,
    /// Not sent yet, whatever is under way included.
    pub waiting: u64,
    /// Of these, what was due before now.
    pub overdue: u64,
    /// When the last of what waits is sent; `None` in it if nothing waits.
    pub drained: Result<Option<Timestamp>, Untold>,
    /// Types that are not dispatched.
    off: HashMap<ItemType, Untold>,
}

/// What is foreseen for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemForecast {
    /// When it is sent, or why nobody can say.
    pub sent: Result<Timestamp, Untold>,
    pub tolerance: Duration,
    pub as_of: Timestamp,
    /// `None` without a deadline, and if no time can be told.
    pub meets_deadline: Option<bool>,
}

impl ItemForecast {
    pub fn untold(why: Untold, as_of: Timestamp) -> Self {
        Self {
            sent: Err(why),
            tolerance: Duration::ZERO,
            as_of,
            meets_deadline: None,
        }
    }
}

impl LaneForecast {
    /// For an item that is not claimed yet.
    pub fn ready(
        &self,
        item_type: &ItemType,
        due: Timestamp,
        deadline: Option<Timestamp>,
    ) -> ItemForecast {
        match self.off.get(item_type) {
            Some(off) => ItemForecast::untold(off.clone(), self.table.as_of),
            None => self.under_way(due, deadline),
        }
    }

    /// For one that is: whether its type is dispatched matters no more.
    pub fn under_way(&self, due: Timestamp, deadline: Option<Timestamp>) -> ItemForecast {
        let meets = deadline.map(|deadline| self.table.meets(due, deadline));
        ItemForecast {
            sent: self.table.at(due).map_err(Untold::clone),
            tolerance: self.table.tolerance,
            as_of: self.table.as_of,
            meets_deadline: meets.and_then(Result::ok),
        }
    }
}

impl Forecaster {
    pub fn new(
        store: Arc<dyn Store>,
        item_types: Vec<ItemType>,
        margin: Decimal,
        least_way: Duration,
    ) -> Self {
        Self {
            store,
            item_types,
            margin,
            least_way,
            lanes: Mutex::default(),
        }
    }

    /// The forecast of a lane; `None` if there is no such lane.
    pub async fn lane(&self, name: &LaneName) -> StoreResult<Option<Arc<LaneForecast>>> {
        let kept = self.kept(name);
        let mut kept = kept.lock().await;
        self.forecast(name, &mut kept, None).await
    }

    /// The same for somebody who has just read the lane: not older than the lane's last change.
    pub async fn lane_as_in(&self, lane: &LaneInForce) -> StoreResult<Option<Arc<LaneForecast>>> {
        let kept = self.kept(&lane.name);
        let mut kept = kept.lock().await;
        self.forecast(&lane.name, &mut kept, Some(lane)).await
    }

    /// What would be foreseen if the lane were this one.
    pub async fn imagined(&self, lane: &LaneInForce) -> StoreResult<Option<LaneForecast>> {
        let Some(now) = self.lane(&lane.name).await? else {
            return Ok(None);
        };
        let found = self
            .store
            .unsent(&lane.name, &self.item_types, NEAR)
            .await?;
        Ok(found.map(|found| {
            let lane = lane.clone();
            let found = UnsentOnLane { lane, ..found };
            foreseen(found, self.margin, now.table.way, now.off.clone())
        }))
    }

    /// Whoever has changed something about a lane, or an item type, forgets what was foreseen before.
    pub fn forget(&self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.clear();
    }

    fn kept(&self, name: &LaneName) -> Arc<tokio::sync::Mutex<Kept>> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lanes.entry(name.clone()).or_default())
    }

    async fn forecast(
        &self,
        name: &LaneName,
        kept: &mut Kept,
        lane: Option<&LaneInForce>,
    ) -> StoreResult<Option<Arc<LaneForecast>>> {
        if let Some((at, forecast)) = &kept.forecast
            && at.elapsed() < FRESH
            && lane.is_none_or(|lane| forecast.lane == *lane)
        {
            return Ok(Some(Arc::clone(forecast)));
        }
        let began = Instant::now();
        let found = self.store.unsent(name, &self.item_types, NEAR).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        let way = self.way(&found.lane, kept).await?;
        let mut off = HashMap::new();
        for item_type in &self.item_types {
            if let Some(why) = switched_off(&*self.store, item_type).await? {
                off.insert(item_type.clone(), off_reason(item_type, &why));
            }
        }
        let forecast = Arc::new(foreseen(found, self.margin, way, off));
        kept.forecast = Some((began, Arc::clone(&forecast)));
        Ok(Some(forecast))
    }

    async fn way(&self, lane: &LaneInForce, kept: &mut Kept) -> StoreResult<Duration> {
        if let Some((at, way)) = kept.way
            && at.elapsed() < WAY_FRESH
        {
            return Ok(way);
        }
        let sends = self.store.sent_on_slots(&lane.name, MEASURED).await?;
        let spacing = lane.lane.pace(self.margin).spacing();
        let way = way(&sends, spacing, self.least_way);
        kept.way = Some((Instant::now(), way));
        Ok(way)
    }
}

/// When everything on a lane would be sent if the lane were this one.
pub(crate) fn drained_under(
    lane: &LaneInForce,
    found: &UnsentOnLane,
    margin: Decimal,
) -> Option<Timestamp> {
    let found = UnsentOnLane {
        lane: lane.clone(),
        ..found.clone()
    };
    let forecast = foreseen(found, margin, LEAST_WAY, HashMap::new());
    forecast.drained.ok().flatten()
}

fn foreseen(
    found: UnsentOnLane,
    margin: Decimal,
    way: Duration,
    off: HashMap<ItemType, Untold>,
) -> LaneForecast {
    let UnsentOnLane {
        now,
        lane,
        last_turn,
        near,
        far,
    } = found;
    let far_count = far.as_ref().map_or(0, far_count);
    let waiting = near.len() as u64 + far_count;
    let overdue = near.iter().filter(|it| it.due < now).count() as u64;
    let far_overdue = far.as_ref().filter(|far| far.from < now);
    let overdue = overdue + far_overdue.map_or(0, |far| far.count);
    let runs = |it: &&Unsent| !it.is_ready || !off.contains_key(&it.item_type);
    let items = near.iter().filter(runs);
    let mut loads: Vec<Load> = items.map(|it| Load::item(it.due, it.hold_after)).collect();
    if let Some(far) = far {
        let count = u32::try_from(far.count).unwrap_or(u32::MAX);
        loads.push(Load::spread(far.from, far.windows_from, count));
        let windows = far.windows.iter();
        loads.extend(windows.map(|window| Load::window(&lane.lane, window.start, window.used)));
    }
    let table = Timetable::of(Outset {
        lane: &lane,
        margin,
        now,
        last_turn,
        way,
        loads,
    });
    let mut ready = near.iter().filter(|it| it.is_ready);
    let drained = match ready.find_map(|it| off.get(&it.item_type)) {
        Some(off) => Err(off.clone()),
        None => table.drained().map_err(Untold::clone),
    };
    LaneForecast {
        lane,
        table,
        waiting,
        overdue,
        drained,
        off,
    }
}

fn far_count(far: &Far) -> u64 {
    let windows = far.windows.iter().map(|window| u64::from(window.used));
    far.count + windows.sum::<u64>()
}

fn off_reason(item_type: &ItemType, off: &SwitchedOff) -> Untold {
    Untold {
        code: UntoldCode::DispatchOff,
        reason: off.sentence(item_type),
        since: off.since,
    }
}

/// The last exchange of an item's present run.
pub(crate) fn exchange(item: &ItemView) -> Option<&AttemptView> {
    let mut attempts = item.attempts.iter().rev();
    attempts.find(|attempt| attempt.run == item.run)
}

/// Whether what was sent, or ended without, was in time.
fn was_in_time(item: &ItemView) -> Option<bool> {
    let sends = item.attempts.iter().map(|attempt| attempt.turn_at);
    let deadline = item.deadline?;
    Some(sends.max().is_some_and(|sent| sent <= deadline))
}

/// What is foreseen for an item as it is now; what was sent, or has ended, has no estimate.
pub fn foresee(
    item: &ItemView,
    lane: Option<&LaneForecast>,
    off: Option<&SwitchedOff>,
    now: Timestamp,
) -> Option<ItemForecast> {
    let waits = |since: Timestamp| Untold {
        code: UntoldCode::WaitsForPerson,
        reason: format!("it is {} and needs a decision", item.queue_status),
        since,
    };
    let Some(lane) = lane else {
        return (item.finished_at.is_none()).then(|| without_lane(&item.lane, now));
    };
    let (due, deadline) = (item.due, item.deadline);
    match item.queue_status {
        QueueStatus::Cancelled => None,
        QueueStatus::Dispatched if item.finished_at.is_some() || exchange(item).is_some() => None,
        QueueStatus::Claimed | QueueStatus::Dispatched => Some(lane.under_way(due, deadline)),
        QueueStatus::Held => {
            let since = item.deadline.unwrap_or(item.due);
            Some(ItemForecast::untold(waits(since), now))
        }
        QueueStatus::Dead => {
            let since = item.dispatched_at.or(item.claimed_at);
            let since = since.unwrap_or(item.created_at);
            Some(ItemForecast::untold(waits(since), now))
        }
        QueueStatus::Ready => Some(match off {
            Some(off) => ItemForecast::untold(off_reason(&item.item.item_type, off), now),
            None => lane.ready(&item.item.item_type, due, deadline),
        }),
    }
}

/// The same for a line of a list, and whether it meets its deadline.
pub fn foresee_line(
    record: &RecordLine,
    item_type: &ItemType,
    lane: Option<&LaneForecast>,
    now: Timestamp,
) -> (Option<ItemForecast>, Option<bool>) {
    let waits = |since| {
        let reason = format!("it is {} and needs a decision", record.queue_status);
        let code = UntoldCode::WaitsForPerson;
        let untold = Untold {
            code,
            reason,
            since,
        };
        Some(ItemForecast::untold(untold, now))
    };
    let foreseen = match (record.queue_status, lane) {
        (QueueStatus::Cancelled, _) => None,
        (QueueStatus::Dispatched, _) if record.has_ended || record.was_sent => None,
        (QueueStatus::Held, _) => waits(record.deadline.unwrap_or(record.due)),
        (QueueStatus::Dead, _) => waits(record.created_at),
        (_, None) => Some(without_lane(&record.lane, now)),
        (QueueStatus::Ready, Some(lane)) => {
            Some(lane.ready(item_type, record.due, record.deadline))
        }
        (QueueStatus::Claimed | QueueStatus::Dispatched, Some(lane)) => {
            Some(lane.under_way(record.due, record.deadline))
        }
    };
    let meets = match (&foreseen, record.deadline) {
        (Some(foreseen), _) => foreseen.meets_deadline,
        (None, Some(deadline)) => Some(record.last_turn.is_some_and(|sent| sent <= deadline)),
        (None, None) => None,
    };
    (foreseen, meets)
}

/// Whether an item meets its deadline: as it was sent, or as it is foreseen. `None` without a deadline, and if
/// nobody can say.
pub fn meets_deadline(item: &ItemView, foreseen: Option<&ItemForecast>) -> Option<bool> {
    match foreseen {
        Some(foreseen) => foreseen.meets_deadline,
        None => was_in_time(item),
    }
}

/// What is foreseen for an item whose lane does not exist.
pub fn without_lane(name: &LaneName, now: Timestamp) -> ItemForecast {
    let why = Untold {
        code: UntoldCode::NoLane,
        reason: no_such_lane(name),
        since: now,
    };
    ItemForecast::untold(why, now)
}
