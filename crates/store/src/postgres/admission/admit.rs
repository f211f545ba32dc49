//! Admission: body and item row of each item, in one transaction.
//!
//! The body is written first, in the order of ids: the transaction that writes it has won the id, and only
//! winners get a slot. So a race for an id costs no slot, fails no batch and never deadlocks.
//!
//! Bodies are written before the lanes are locked (`prepare`). They are most of the work, and while one admission places its
//! items, the next one writes its bodies. An admission that waits for an id holds no lane, and one that holds a lane waits for
//! no id: a body that is written later replaces one that this transaction has written and removed.
//!
//! A request may be accepted for one of the ids until the lanes are locked. It was answered 202, so it comes first: an item
//! with other content is not planned.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use deadpool_postgres::Transaction;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tollgate_core::Timestamp;
use tollgate_core::guard::{Guard, Tally};
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::ports::{Admission, FoundRequest, NewItem, Placed, StoreResult};
use tollgate_core::slot::Place;

use super::bodies::is_storable;
use super::guards;
use super::requests;
use crate::postgres::connection::run::{Params, execute, now};
use crate::postgres::connection::value::Us;
use crate::postgres::lanes::counters::Plan;

/// The new items of one type.
pub(super) struct Batch<'t> {
    pub(super) tx: &'t Transaction<'t>,
    pub(super) item_type: &'t ItemType,
    pub(super) seed: u64,
}

/// Items whose bodies are written.
pub(super) struct Prepared {
    items: Vec<NewItem>,
    /// The requests under their ids that are held until the end.
    held: Found,
    /// The ids that were not known before.
    new: HashSet<ItemId>,
}

/// A new item and where it was put.
pub(super) struct PlacedItem<'i> {
    pub(super) item: &'i NewItem,
    requested: Timestamp,
    place: Place,
    generation: i64,
}

/// What became of the new items: those that were placed, and which guard was against others.
#[derive(Default)]
pub(super) struct Judged<'i> {
    pub(super) won: Vec<PlacedItem<'i>>,
    pub(super) refused: HashMap<&'i ItemId, &'i Guard>,
}

impl PlacedItem<'_> {
    pub(super) fn placed(&self) -> Placed {
        let item = self.item;
        let (lane, flow) = (item.lane.clone(), item.init_flow.clone());
        Placed::new(lane, self.place.scheduled, item.deadline, flow)
    }
}

impl Batch<'_> {
    /// What can be done before the lanes are locked: the requests under the items' ids are held, and the bodies are written.
    pub(super) async fn prepare(
        &self,
        mut items: Vec<NewItem>,
        lanes: &BTreeSet<LaneName>,
    ) -> StoreResult<Prepared> {
        let held = requests::found(self.tx, self.item_type, &items).await?;
        plan_as_requested(&mut items, &held);
        let asking: Vec<&NewItem> = items.iter().collect();
        let new = self
            .write_bodies(&to_judge(&asking, &held, |lane| lanes.contains(lane)))
            .await?;
        Ok(Prepared { items, held, new })
    }

    /// Of two contents of one id, the later is judged, too, if the earlier was refused.
    pub(super) async fn admit(
        &self,
        prepared: Prepared,
        plans: &mut BTreeMap<LaneName, Plan>,
    ) -> StoreResult<Vec<Admission>> {
        let Prepared {
            mut items,
            held,
            new,
        } = prepared;
        let late = requests::since_found(self.tx, self.item_type, &new, &held).await?;
        plan_as_requested(&mut items, &late);
        let found: Found = late.into_iter().chain(held.clone()).collect();
        let mut written = Some((new, &held));
        let mut answers: Vec<Option<Admission>> = vec![None; items.len()];
        let mut left: Vec<usize> = (0..items.len()).collect();
        while !left.is_empty() {
            let asking: Vec<&NewItem> = left.iter().map(|n| &items[*n]).collect();
            let new = written.take();
            let said = self.admit_first(&asking, plans, &found, new).await?;
            let mut first: HashMap<&ItemId, &str> = HashMap::new();
            let mut later = vec![];
            for (n, said) in left.into_iter().zip(said) {
                let content = items[n].record.content_hash.as_str();
                let judged = *first.entry(&items[n].id).or_insert(content) == content;
                if judged || !said.is_refusal() {
                    answers[n] = Some(said);
                } else {
                    later.push(n);
                }
            }
            left = later;
        }
        let answers: Vec<Admission> = answers.into_iter().flatten().collect();
        let said = items.iter().zip(&answers);
        requests::end(self.tx, self.item_type, &held, said).await?;
        Ok(answers)
    }

    /// The first of each id that has a lane is judged; what others are told goes by that. `written` are the ids whose bodies
    /// are written and the requests by which these items were chosen: of two contents of an id the same one is chosen again, and a
    /// request that came later can only leave it out.
    async fn admit_first(
        &self,
        items: &[&NewItem],
        plans: &mut BTreeMap<LaneName, Plan>,
        requests: &Found,
        written: Option<(HashSet<ItemId>, &Found)>,
    ) -> StoreResult<Vec<Admission>> {
        let now = now(self.tx).await?;
        let chosen_by = written.as_ref().map_or(requests, |(_, held)| held);
        let mut admissible = to_judge(items, chosen_by, |lane| plans.contains_key(lane));
        admissible.retain(|item| requested_answer(item, requests).is_none());
        // Before the items are written, so that they do not count themselves.
        let mut tally = guards::tally(self.tx, self.item_type, &admissible, now.0).await?;
        let new = match written {
            Some((new, _)) => new,
            None => self.write_bodies(&admissible).await?,
        };
        let judged = self
            .place(&admissible, &new, plans, &mut tally, now.0)
            .await?;
        if !judged.won.is_empty() {
            self.write_items(&judged.won, now).await?;
            let items: Vec<&NewItem> = judged.won.iter().map(|won| won.item).collect();
            guards::count(self.tx, self.item_type, items.into_iter(), now.0).await?;
        }
        if judged.won.len() < new.len() {
            self.forget_losers(&new, &judged.won).await?;
        }
        let mut answers = self.answer(items, &judged, plans, now.0).await?;
        for (item, said) in items.iter().zip(&mut answers) {
            if said.is_refusal()
                && let Some(instead) = requested_answer(item, requests)
            {
                *said = instead;
            }
        }
        Ok(answers)
    }

    async fn place<'i>(
        &self,
        items: &[&'i NewItem],
        new: &HashSet<ItemId>,
        plans: &mut BTreeMap<LaneName, Plan>,
        tally: &mut Tally,
        now: Timestamp,
    ) -> StoreResult<Judged<'i>> {
        let mut random = SmallRng::seed_from_u64(self.seed ^ now.as_microsecond().unsigned_abs());
        let new: Vec<&'i NewItem> = items
            .iter()
            .copied()
            .filter(|i| new.contains(&i.id))
            .collect();
        let start = |item: &NewItem| item.requested.unwrap_or(now).max(now);
        for (name, plan) in plans.iter_mut() {
            let here = new.iter().filter(|item| item.lane == *name);
            plan.load_for(self.tx, name, here.map(|item| start(item)))
                .await?;
        }
        let mut judged = Judged::default();
        for item in new {
            if let Some(guard) = tally.refusal(item) {
                judged.refused.insert(&item.id, guard);
                continue;
            }
            let Some(plan) = plans.get_mut(&item.lane) else {
                continue;
            };
            let from = start(item);
            let place = plan.place(self.tx, &item.lane, from, random.next_u32());
            let Some(place) = place.await? else {
                continue;
            };
            tally.count(item);
            judged.won.push(PlacedItem {
                item,
                requested: item.requested.unwrap_or(now),
                place,
                generation: plan.generation,
            });
        }
        Ok(judged)
    }

    /// The owner only where somebody looks for it.
    async fn write_items(&self, won: &[PlacedItem<'_>], now: Us) -> StoreResult<()> {
        const ITEMS: &str = "INSERT INTO item_queue (item_type, item_id, lane, currency,
                 amount_minor, created_at, requested_time, window_start, scheduled_time, generation,
                 deadline, hold_after, duplicate_key, owner, counted, by_owner, queue_status,
                 status, updated_at, scheduled_exec_time, run, fence, retry_count)
             SELECT $1, n.item_id, n.lane, n.currency, n.amount_minor, $2, n.requested_time,
                    n.window_start, n.scheduled_time, n.generation, n.deadline, n.hold_after,
                    n.duplicate_key, n.owner, n.counted, n.by_owner, 'READY', n.status, $2,
                    n.scheduled_time, 1, 0, 0
             FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
                         $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
                         $13::text[], $14::text[], $15::boolean[], $16::boolean[], $17::text[])
                  AS n (item_id, lane, currency, amount_minor, requested_time, window_start,
                        scheduled_time, generation, deadline, hold_after, duplicate_key, owner,
                        counted, by_owner, status)";
        let texts = |of: fn(&NewItem) -> &str| won.iter().map(|w| of(w.item)).collect::<Vec<_>>();
        let flags = |of: fn(&NewItem) -> bool| won.iter().map(|w| of(w.item)).collect::<Vec<_>>();
        let times = |of: fn(&PlacedItem<'_>) -> Timestamp| {
            won.iter().map(|w| Us(of(w))).collect::<Vec<_>>()
        };
        let amounts: Vec<i64> = won.iter().map(|w| w.item.record.money.minor).collect();
        let generations: Vec<i64> = won.iter().map(|w| w.generation).collect();
        let deadlines: Vec<Option<Us>> = won.iter().map(|w| w.item.deadline.map(Us)).collect();
        let hold_after =
            |w: &PlacedItem<'_>| w.item.deadline.filter(|_| w.item.hold_if_late).map(Us);
        let holds: Vec<Option<Us>> = won.iter().map(hold_after).collect();
        let duplicates: Vec<Option<&str>> = won.iter().map(|w| w.item.duplicate_key()).collect();
        let owners: Vec<Option<&str>> = won.iter().map(|w| w.item.sought_owner()).collect();
        let params: Params<'_> = &[
            &self.item_type.as_str(),
            &now,
            &texts(|i| i.id.as_str()),
            &texts(|i| i.lane.as_str()),
            &texts(|i| i.record.money.currency.code()),
            &amounts,
            &times(|w| w.requested),
            &times(|w| w.place.window),
            &times(|w| w.place.scheduled),
            &generations,
            &deadlines,
            &holds,
            &duplicates,
            &owners,
            &flags(NewItem::is_counted),
            &flags(|i| i.record.by_owner),
            &texts(|i| &i.record.status),
        ];
        execute(self.tx, ITEMS, params).await.map(drop)
    }
}

/// The requests that were found under the items' ids.
type Found = HashMap<ItemId, FoundRequest>;

/// A person may have given a request another time than its own.
fn plan_as_requested(items: &mut [NewItem], requests: &Found) {
    for item in items {
        if let Some(request) = requests.get(&item.id) {
            item.requested = request.requested(item);
        }
    }
}

/// The first of each id that has a lane, unless its request says otherwise.
fn to_judge<'i>(
    items: &[&'i NewItem],
    requests: &Found,
    has_lane: impl Fn(&LaneName) -> bool,
) -> Vec<&'i NewItem> {
    let mut seen = HashSet::new();
    items
        .iter()
        .copied()
        .filter(|item| requested_answer(item, requests).is_none())
        .filter(|item| has_lane(&item.lane) && is_storable(item) && seen.insert(&item.id))
        .collect()
}

/// The answer for an item that is not to be judged, because of a request.
fn requested_answer(item: &NewItem, requests: &Found) -> Option<Admission> {
    requests.get(&item.id)?.answer(item)
}
