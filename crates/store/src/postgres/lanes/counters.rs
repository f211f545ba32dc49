//! A lane's window counters during one batch. `core` asks for them one by one and cannot wait,
//! so what is missing is loaded, many windows at once, and the question is asked again.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::GenericClient;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::StoreResult;
use tollgate_core::slot::{Counter, Counters, Place, assign};
use tollgate_core::window::Windows;

use crate::postgres::connection::run::{all, execute};
use crate::postgres::connection::value::{Count, Us};
use crate::telemetry;

/// The first stretch of windows to load beyond those that were asked for; each further one is
/// twice as long, so that a walk over very many full windows takes few questions.
const FIRST_STRETCH: i64 = 64;
const LONGEST_STRETCH: i64 = 8192;

/// One lane during one batch; its plan is locked.
#[derive(Debug)]
pub(crate) struct Plan {
    lane: Lane,
    pub(crate) generation: i64,
    windows: Windows,
    counters: Loaded,
    stretch: i64,
}

impl Plan {
    pub(crate) fn new(lane: LaneInForce, generation: i64, margin: Decimal) -> Self {
        Self {
            windows: lane.windows(margin),
            lane: lane.lane,
            generation,
            counters: Loaded::default(),
            stretch: FIRST_STRETCH,
        }
    }

    pub(crate) async fn place(
        &mut self,
        tx: &impl GenericClient,
        name: &LaneName,
        from: Timestamp,
        random: u32,
    ) -> StoreResult<Option<Place>> {
        loop {
            let spread = self.lane.spread;
            match assign(&self.windows, spread, from, random, &mut self.counters) {
                Ok(place) => {
                    telemetry::placed(&self.windows, from, place.as_ref());
                    return Ok(place);
                }
                Err(NotLoaded(window)) => self.load_from(tx, name, window).await?,
            }
        }
    }

    /// Loads the windows that items ask for and those they point to, in one question: a lookup for
    /// each, since the planner takes a thousand windows for a good part of the table.
    pub(crate) async fn load_for(
        &mut self,
        tx: &impl GenericClient,
        name: &LaneName,
        wanted: impl Iterator<Item = Timestamp>,
    ) -> StoreResult<()> {
        const WANTED: &str = "WITH wanted AS MATERIALIZED (
                 SELECT w.* FROM unnest($2::bigint[]) AS s (start)
                 CROSS JOIN LATERAL (SELECT window_start, used, next_open FROM lane_window
                      WHERE lane = $1 AND generation = $3 AND window_start = s.start LIMIT 1) w
             )
             SELECT * FROM wanted
             UNION ALL
             SELECT n.* FROM wanted
             CROSS JOIN LATERAL (SELECT window_start, used, next_open FROM lane_window
                  WHERE lane = $1 AND generation = $3 AND window_start = wanted.next_open LIMIT 1) n";
        let mut starts: Vec<Us> = wanted.map(|time| Us(self.windows.start_of(time))).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.is_empty() {
            return Ok(());
        }
        let rows = all(tx, WANTED, &[&name.as_str(), &starts, &self.generation]).await?;
        for start in starts {
            self.counters.windows.entry(start.0).or_default();
        }
        self.counters.add(&rows);
        Ok(())
    }

    async fn load_from(
        &mut self,
        tx: &impl GenericClient,
        name: &LaneName,
        window: Timestamp,
    ) -> StoreResult<()> {
        const STRETCH: &str = "SELECT window_start, used, next_open FROM lane_window
             WHERE lane = $1 AND generation = $4 AND window_start >= $2 AND window_start < $3";
        let size = i64::from(self.lane.window_size_secs) * 1_000_000;
        let from = window.as_microsecond();
        let to = from.saturating_add(size.saturating_mul(self.stretch));
        let rows = all(tx, STRETCH, &[&name.as_str(), &from, &to, &self.generation]).await?;
        self.counters.stretches.push((from, to));
        self.counters.add(&rows);
        self.stretch = (self.stretch * 2).min(LONGEST_STRETCH);
        Ok(())
    }
}

/// Locks the plans of lanes in the order of their names, then reads the lanes as they are once
/// nobody else can change them.
pub(crate) async fn lock_plans(
    tx: &impl GenericClient,
    names: &[&str],
    margin: Decimal,
) -> StoreResult<BTreeMap<LaneName, Plan>> {
    const LOCK: &str = "SELECT lane, generation FROM lane_plan
         WHERE lane = ANY($1) ORDER BY lane FOR UPDATE";
    let mut plans = BTreeMap::new();
    for row in all(tx, LOCK, &[&names]).await? {
        let name = LaneName::new(row.get::<_, String>(0));
        if let Some(lane) = super::lane(tx, &name).await? {
            plans.insert(name, Plan::new(lane, row.get(1), margin));
        }
    }
    Ok(plans)
}

/// Writes the counters that have changed, of all lanes of a batch.
pub(crate) async fn write_back(
    tx: &impl GenericClient,
    plans: impl Iterator<Item = (&LaneName, &Plan)>,
) -> StoreResult<()> {
    const UPSERT: &str = "INSERT INTO lane_window (lane, generation, window_start, used, next_open)
         SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         ON CONFLICT (lane, generation, window_start)
         DO UPDATE SET used = excluded.used, next_open = excluded.next_open";
    let (mut lanes, mut generations) = (vec![], vec![]);
    let (mut starts, mut used, mut next) = (vec![], vec![], vec![]);
    for (name, plan) in plans {
        for (start, window) in &plan.counters.windows {
            if window.changed {
                lanes.push(name.as_str());
                generations.push(plan.generation);
                starts.push(Us(*start));
                used.push(i64::from(window.counter.used));
                next.push(window.counter.next_open.map(Us));
            }
        }
    }
    if lanes.is_empty() {
        return Ok(());
    }
    execute(tx, UPSERT, &[&lanes, &generations, &starts, &used, &next])
        .await
        .map(drop)
}

/// What is known of a lane's windows.
#[derive(Debug, Default)]
struct Loaded {
    windows: HashMap<Timestamp, Window>,
    /// Within these, a window without a row is empty.
    stretches: Vec<(i64, i64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    counter: Counter,
    changed: bool,
}

struct NotLoaded(Timestamp);

impl Loaded {
    /// What this batch has changed is newer than what was stored.
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let window = self.windows.entry(row.get::<_, Us>(0).0).or_default();
            if !window.changed {
                window.counter = Counter {
                    used: row.get::<_, Count>(1).0,
                    next_open: row.get::<_, Option<Us>>(2).map(|us| us.0),
                };
            }
        }
    }
}

impl Counters for Loaded {
    type Error = NotLoaded;

    fn get(&mut self, window: Timestamp) -> Result<Counter, NotLoaded> {
        if let Some(known) = self.windows.get(&window) {
            return Ok(known.counter);
        }
        let us = window.as_microsecond();
        let empty = self
            .stretches
            .iter()
            .any(|(from, to)| (*from..*to).contains(&us));
        if empty {
            Ok(Counter::default())
        } else {
            Err(NotLoaded(window))
        }
    }

    fn set(&mut self, window: Timestamp, counter: Counter) {
        let changed = true;
        self.windows.insert(window, Window { counter, changed });
    }
}
