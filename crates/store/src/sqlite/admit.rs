//! Admission: record, slot, context and queue row of each item, in the caller's transaction.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, ItemType, LaneName};
use tollgate_core::lane::Lane;
use tollgate_core::ports::{Admission, NewItem, Placed, StoreResult};
use tollgate_core::slot::{Counter, Counters, Place, assign};
use tollgate_core::window::Windows;

use super::error::store_error;
use super::lanes;
use super::value::Us;

pub(super) struct Batch<'c> {
    pub(super) c: &'c Connection,
    pub(super) item_type: &'c ItemType,
    pub(super) margin: rust_decimal::Decimal,
    pub(super) seed: u64,
    pub(super) now: Timestamp,
}

impl Batch<'_> {
    pub(super) fn admit(&self, items: Vec<NewItem>) -> StoreResult<Vec<Admission>> {
        let mut random =
            SmallRng::seed_from_u64(self.seed ^ self.now.as_microsecond().unsigned_abs());
        let mut plans: HashMap<LaneName, Option<Plan<'_>>> = HashMap::new();
        let mut admissions = Vec::with_capacity(items.len());
        for item in items {
            if let Some(known) = self.known(&item).map_err(store_error)? {
                admissions.push(known);
                continue;
            }
            if !plans.contains_key(&item.lane) {
                plans.insert(item.lane.clone(), self.plan(&item.lane)?);
            }
            let Some(Some(plan)) = plans.get_mut(&item.lane) else {
                admissions.push(Admission::Refused(format!(
                    "lane \"{}\" does not exist; create it with POST /admin/rate-limit/config",
                    item.lane
                )));
                continue;
            };
            let requested = item.requested.unwrap_or(self.now);
            let place = plan
                .assign(requested.max(self.now), random.next_u32())
                .map_err(store_error)?;
            self.insert(&item, requested, place).map_err(store_error)?;
            admissions.push(Admission::New(placed(
                item.lane,
                place.scheduled,
                item.deadline,
                item.init_flow,
            )));
        }
        for plan in plans.into_values().flatten() {
            plan.counters.write_back().map_err(store_error)?;
        }
        Ok(admissions)
    }

    /// The answer for an id that is known already.
    fn known(&self, item: &NewItem) -> rusqlite::Result<Option<Admission>> {
        self.c
            .prepare_cached(
                "SELECT r.content_hash, s.lane, s.scheduled_time, s.deadline, q.init_workflow_id
                 FROM record r
                 JOIN slot s ON s.item_type = r.item_type AND s.item_id = r.item_id
                 JOIN item_queue q ON q.item_type = r.item_type AND q.item_id = r.item_id
                 WHERE r.item_type = ?1 AND r.item_id = ?2",
            )?
            .query_row(params![self.item_type.as_str(), item.id.as_str()], |row| {
                if row.get::<_, String>(0)? != item.record.content_hash {
                    return Ok(Admission::Conflict);
                }
                Ok(Admission::Repeat(placed(
                    LaneName::new(row.get::<_, String>(1)?),
                    row.get::<_, Us>(2)?.0,
                    row.get::<_, Option<Us>>(3)?.map(|us| us.0),
                    FlowId::new(row.get::<_, String>(4)?),
                )))
            })
            .optional()
    }

    fn plan(&self, name: &LaneName) -> StoreResult<Option<Plan<'_>>> {
        let lane = lanes::lane(self.c, name)?;
        Ok(lane.map(|lane| Plan {
            windows: Windows::of(&lane, self.margin),
            lane,
            counters: StoredCounters {
                c: self.c,
                name: name.clone(),
                touched: HashMap::new(),
            },
        }))
    }

    fn insert(&self, item: &NewItem, requested: Timestamp, place: Place) -> rusqlite::Result<()> {
        let (kind, id, now) = (self.item_type.as_str(), item.id.as_str(), Us(self.now));
        let record = &item.record;
        self.c
            .prepare_cached(
                "INSERT INTO record (item_type, item_id, owner, status, amount_minor, currency,
                                     content_hash, document, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
            )?
            .execute(params![
                kind,
                id,
                record.owner,
                record.status,
                record.money.minor,
                record.money.currency.code(),
                record.content_hash,
                record.document,
                now
            ])?;
        self.c
            .prepare_cached(
                "INSERT INTO slot (item_type, item_id, lane, window_start, scheduled_time,
                                   requested_time, deadline)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                kind,
                id,
                item.lane.as_str(),
                Us(place.window),
                Us(place.scheduled),
                Us(requested),
                item.deadline.map(Us)
            ])?;
        self.c
            .prepare_cached(
                "INSERT INTO item_context (item_type, item_id, context_json) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![kind, id, item.context_json])?;
        self.c
            .prepare_cached(
                "INSERT INTO item_queue (item_type, item_id, lane, queue_status,
                     scheduled_exec_time, run, fence, retry_count, init_workflow_id, created_at)
                 VALUES (?1, ?2, ?3, 'READY', ?4, 1, 0, 0, ?5, ?6)",
            )?
            .execute(params![
                kind,
                id,
                item.lane.as_str(),
                Us(place.scheduled),
                item.init_flow.as_str(),
                now
            ])?;
        Ok(())
    }
}

fn placed(
    lane: LaneName,
    scheduled: Timestamp,
    deadline: Option<Timestamp>,
    init_flow: FlowId,
) -> Placed {
    Placed {
        lane,
        scheduled,
        meets_deadline: deadline.map(|d| scheduled <= d),
        init_flow,
    }
}

/// One lane during one batch.
struct Plan<'c> {
    lane: Lane,
    windows: Windows,
    counters: StoredCounters<'c>,
}

impl Plan<'_> {
    fn assign(&mut self, from: Timestamp, random: u32) -> rusqlite::Result<Place> {
        assign(
            &self.windows,
            self.lane.spread,
            from,
            random,
            &mut self.counters,
        )
    }
}

/// Counters read from the table when first needed and written back once, at the end of the batch.
struct StoredCounters<'c> {
    c: &'c Connection,
    name: LaneName,
    touched: HashMap<Timestamp, (Counter, bool)>,
}

impl Counters for StoredCounters<'_> {
    type Error = rusqlite::Error;

    fn get(&mut self, window: Timestamp) -> rusqlite::Result<Counter> {
        if let Some((counter, _)) = self.touched.get(&window) {
            return Ok(*counter);
        }
        let stored = self
            .c
            .prepare_cached(
                "SELECT used, next_open FROM lane_window WHERE lane = ?1 AND window_start = ?2",
            )?
            .query_row(params![self.name.as_str(), Us(window)], |row| {
                let next_open = row.get::<_, Option<Us>>(1)?.map(|us| us.0);
                Ok(Counter {
                    used: row.get(0)?,
                    next_open,
                })
            })
            .optional()?
            .unwrap_or_default();
        self.touched.insert(window, (stored, false));
        Ok(stored)
    }

    fn set(&mut self, window: Timestamp, counter: Counter) {
        self.touched.insert(window, (counter, true));
    }
}

impl StoredCounters<'_> {
    fn write_back(self) -> rusqlite::Result<()> {
        let mut upsert = self.c.prepare_cached(
            "INSERT INTO lane_window (lane, window_start, used, next_open) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (lane, window_start)
             DO UPDATE SET used = excluded.used, next_open = excluded.next_open",
        )?;
        for (window, (counter, changed)) in self.touched {
            if changed {
                let next_open = counter.next_open.map(Us);
                upsert.execute(params![
                    self.name.as_str(),
                    Us(window),
                    counter.used,
                    next_open
                ])?;
            }
        }
        Ok(())
    }
}
