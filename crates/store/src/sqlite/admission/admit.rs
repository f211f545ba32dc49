//! Admission: body and item row of each item, in the caller's transaction.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::erasure::is_erased;
use tollgate_core::guard::Tally;
use tollgate_core::id::{BulkId, FlowId, Item, ItemType, LaneName};
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{Admission, FoundRequest, NewItem, Placed};
use tollgate_core::slot::Place;

use super::guards;
use super::requests;
use crate::cold::archive::known;
use crate::sqlite::connection::value::Us;
use crate::sqlite::lanes;
use crate::sqlite::lanes::counters::Plan;

pub(crate) struct Batch<'c> {
    pub(crate) c: &'c Connection,
    pub(crate) item_type: &'c ItemType,
    pub(crate) margin: rust_decimal::Decimal,
    pub(crate) seed: u64,
    pub(crate) now: Timestamp,
}

type Plans<'c> = HashMap<LaneName, Option<Plan<'c>>>;

/// What the items of a batch are judged by, one after the other.
struct Judge<'j, 'c> {
    plans: &'j mut Plans<'c>,
    tally: &'j mut Tally,
    random: &'j mut SmallRng,
}

impl Batch<'_> {
    pub(crate) fn admit(&self, items: Vec<NewItem>) -> rusqlite::Result<Vec<Admission>> {
        let mut random =
            SmallRng::seed_from_u64(self.seed ^ self.now.as_microsecond().unsigned_abs());
        let mut tally = guards::tally(self.c, self.item_type, &items, self.now)?;
        let mut plans: Plans<'_> = HashMap::new();
        let any_request = requests::any(self.c, self.item_type)?;
        let mut admissions = Vec::with_capacity(items.len());
        for mut item in items {
            let request = if any_request {
                requests::found(self.c, self.item_type, &item)?
            } else {
                None
            };
            if let Some(request) = &request {
                item.requested = request.requested(&item);
            }
            let judge = Judge {
                plans: &mut plans,
                tally: &mut tally,
                random: &mut random,
            };
            let said = self.admit_one(&item, request.as_ref(), judge)?;
            if request.is_some_and(|request| request.is_for(&item)) {
                let name = Item::new(self.item_type, &item.id);
                requests::end(self.c, &name, &item, &said)?;
            }
            admissions.push(said);
        }
        for plan in plans.into_values().flatten() {
            plan.write_back()?;
        }
        Ok(admissions)
    }

    fn admit_one<'s>(
        &'s self,
        item: &NewItem,
        request: Option<&FoundRequest>,
        judge: Judge<'_, 's>,
    ) -> rusqlite::Result<Admission> {
        let Judge {
            plans,
            tally,
            random,
        } = judge;
        if let Some(known) = self.known(item)? {
            return Ok(known);
        }
        if let Some(known) = self.archived(item)? {
            return Ok(known);
        }
        if let Some(said) = request.and_then(|request| request.answer(item)) {
            return Ok(said);
        }
        if !plans.contains_key(&item.lane) {
            plans.insert(item.lane.clone(), self.plan(&item.lane)?);
        }
        let Some(Some(plan)) = plans.get_mut(&item.lane) else {
            return Ok(Admission::Refused(no_such_lane(&item.lane)));
        };
        if let Some(guard) = tally.refusal(item) {
            let (rule, message) = (guard.rule.clone(), guard.message.clone());
            return Ok(Admission::RefusedBy { rule, message });
        }
        let requested = item.requested.unwrap_or(self.now);
        let Some(place) = plan.place(requested.max(self.now), random.next_u32())? else {
            return Ok(Admission::Refused(never_opens(&item.lane, requested)));
        };
        self.insert(item, requested, place, plan.generation())?;
        guards::count(self.c, self.item_type, item, self.now)?;
        tally.count(item);
        Ok(Admission::New(Placed::new(
            item.lane.clone(),
            place.scheduled,
            item.deadline,
            item.init_flow.clone(),
        )))
    }

    /// The answer for an id that is known already.
    fn known(&self, item: &NewItem) -> rusqlite::Result<Option<Admission>> {
        self.c
            .prepare_cached(
                "SELECT coalesce(b.content_hash, ''), q.lane, q.scheduled_time, q.deadline,
                        coalesce(b.init_workflow_id, '')
                 FROM item_queue q
                 LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
                 WHERE q.item_type = ?1 AND q.item_id = ?2",
            )?
            .query_row(params![self.item_type.as_str(), item.id.as_str()], |row| {
                let content_hash: String = row.get(0)?;
                if is_erased(&content_hash) {
                    return Ok(Admission::Erased);
                }
                if content_hash != item.record.content_hash {
                    return Ok(Admission::Conflict);
                }
                Ok(Admission::Repeat(Placed::new(
                    LaneName::new(row.get::<_, String>(1)?),
                    row.get::<_, Us>(2)?.0,
                    row.get::<_, Option<Us>>(3)?.map(|us| us.0),
                    FlowId::new(row.get::<_, String>(4)?),
                )))
            })
            .optional()
    }

    /// The answer for an id that is known from the archive.
    fn archived(&self, item: &NewItem) -> rusqlite::Result<Option<Admission>> {
        let key = known::key(self.item_type, &item.id);
        self.c
            .prepare_cached("SELECT content FROM known_item WHERE key = ?1")?
            .query_row([key.as_slice()], |row| {
                let kept: Vec<u8> = row.get(0)?;
                Ok(known::admission(&kept, &item.record.content_hash))
            })
            .optional()
    }

    fn plan(&self, name: &LaneName) -> rusqlite::Result<Option<Plan<'_>>> {
        let lane = lanes::in_force(self.c, name)?;
        lane.map(|lane| Plan::of(self.c, &lane, self.margin))
            .transpose()
    }

    fn insert(
        &self,
        item: &NewItem,
        requested: Timestamp,
        place: Place,
        generation: i64,
    ) -> rusqlite::Result<()> {
        let (kind, id, now) = (self.item_type.as_str(), item.id.as_str(), Us(self.now));
        let record = &item.record;
        self.c
            .prepare_cached(
                "INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id,
                                        bulk_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                kind,
                id,
                record.content_hash,
                item.body,
                item.init_flow.as_str(),
                item.bulk().as_ref().map(BulkId::as_str)
            ])?;
        // The owner only where somebody looks for it.
        self.c
            .prepare_cached(
                "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor,
                     created_at, requested_time, window_start, scheduled_time, generation, deadline,
                     hold_after, duplicate_key, owner, counted, by_owner, queue_status, status,
                     updated_at, scheduled_exec_time, run, fence, retry_count)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                         'READY', ?17, ?6, ?9, 1, 0, 0)",
            )?
            .execute(params![
                kind,
                id,
                item.lane.as_str(),
                record.money.currency.code(),
                record.money.minor,
                now,
                Us(requested),
                Us(place.window),
                Us(place.scheduled),
                generation,
                item.deadline.map(Us),
                item.deadline.filter(|_| item.hold_if_late).map(Us),
                item.duplicate_key(),
                item.sought_owner(),
                item.is_counted(),
                record.by_owner,
                record.status
            ])?;
        Ok(())
    }
}
