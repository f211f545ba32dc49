//! Admission: body and item row of each item, in one transaction.
//!
//! The body is written first, in the order of ids: whoever writes it has won the id, and only
//! winners get a slot. So a race for an id costs no slot, fails no batch and never deadlocks.

use std::collections::{BTreeMap, HashMap, HashSet};

use deadpool_postgres::Transaction;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tollgate_core::Timestamp;
use tollgate_core::erasure::is_erased;
use tollgate_core::guard::{Guard, Tally};
use tollgate_core::id::{FlowId, ItemId, ItemType, LaneName};
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{Admission, FoundRequest, NewItem, Placed, StoreResult};
use tollgate_core::slot::Place;

use super::guards;
use super::requests;
use crate::cold::archive::known;
use crate::postgres::connection::error::store_error;
use crate::postgres::connection::run::{Params, all, execute, now};
use crate::postgres::connection::value::Us;
use crate::postgres::lanes::counters::Plan;

/// An id is free if neither the hot tables nor the archive know it. Both are asked in one statement, which sees one
/// moment: an item that is moved leaves the one and enters the other in one commit, so it is always seen in one of them.
///
/// Bodies of ids that nobody else takes at the same moment, which is nearly always so: admissions of a lane go one after
/// the other. It fails if somebody does. `ON CONFLICT` would cost a record in the log for each row.
///
/// Each id is looked for by its key. `NOT EXISTS` would leave the way to the planner, which reads the tables from end to end
/// for each thousand as long as it knows nothing of them: during a first large import, and for minutes.
const UNRACED: &str = "INSERT INTO item_body (item_type, item_id, content_hash, body,
         init_workflow_id, bulk_id)
     SELECT $1, n.item_id, n.content_hash, n.body, n.init_workflow_id, n.bulk_id
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
          AS n (item_id, content_hash, body, init_workflow_id, bulk_id, key)
     WHERE (SELECT 1 FROM item_queue q
          WHERE q.item_type = $1 AND q.item_id = n.item_id) IS NULL
       AND (SELECT 1 FROM known_item k WHERE k.key = n.key::uuid) IS NULL
       AND (SELECT 1 FROM item_body b
          WHERE b.item_type = $1 AND b.item_id = n.item_id) IS NULL
     RETURNING item_id";

/// The same where others take some of the ids: of those, one of both gets each.
const RACED: &str = "INSERT INTO item_body (item_type, item_id, content_hash, body,
         init_workflow_id, bulk_id)
     SELECT $1, n.item_id, n.content_hash, n.body, n.init_workflow_id, n.bulk_id
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
          AS n (item_id, content_hash, body, init_workflow_id, bulk_id, key)
     WHERE (SELECT 1 FROM item_queue q
          WHERE q.item_type = $1 AND q.item_id = n.item_id) IS NULL
       AND (SELECT 1 FROM known_item k WHERE k.key = n.key::uuid) IS NULL
     ON CONFLICT (item_type, item_id) DO NOTHING
     RETURNING item_id";

/// The new items of one type.
pub(super) struct Batch<'t> {
    pub(super) tx: &'t Transaction<'t>,
    pub(super) item_type: &'t ItemType,
    pub(super) seed: u64,
}

/// A new item and where it was put.
struct PlacedItem<'i> {
    item: &'i NewItem,
    requested: Timestamp,
    place: Place,
    generation: i64,
}

/// What became of the new items: those that were placed, and which guard was against others.
#[derive(Default)]
struct Judged<'i> {
    won: Vec<PlacedItem<'i>>,
    refused: HashMap<&'i ItemId, &'i Guard>,
}

impl PlacedItem<'_> {
    fn placed(&self) -> Placed {
        let item = self.item;
        let (lane, flow) = (item.lane.clone(), item.init_flow.clone());
        Placed::new(lane, self.place.scheduled, item.deadline, flow)
    }
}

impl Batch<'_> {
    /// Of two contents of one id, the later is judged, too, if the earlier was refused.
    pub(super) async fn admit(
        &self,
        items: &[NewItem],
        plans: &mut BTreeMap<LaneName, Plan>,
    ) -> StoreResult<Vec<Admission>> {
        let found = requests::found(self.tx, self.item_type, items).await?;
        let moved;
        let items = if found.values().any(|request| request.moved_to.is_some()) {
            moved = items.iter().map(|item| moved_to(item, &found)).collect();
            let moved: &Vec<NewItem> = &moved;
            moved
        } else {
            items
        };
        let mut answers: Vec<Option<Admission>> = vec![None; items.len()];
        let mut left: Vec<usize> = (0..items.len()).collect();
        while !left.is_empty() {
            let asking: Vec<&NewItem> = left.iter().map(|n| &items[*n]).collect();
            let said = self.admit_first(&asking, plans, &found).await?;
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
        requests::end(self.tx, self.item_type, &found, said).await?;
        Ok(answers)
    }

    /// The first of each id that has a lane is judged; what others are told goes by that.
    async fn admit_first(
        &self,
        items: &[&NewItem],
        plans: &mut BTreeMap<LaneName, Plan>,
        requests: &Found,
    ) -> StoreResult<Vec<Admission>> {
        let now = now(self.tx).await?;
        let mut seen = HashSet::new();
        let admissible: Vec<&NewItem> = items
            .iter()
            .copied()
            .filter(|item| requested_answer(item, requests).is_none())
            .filter(|item| is_admissible(item, plans) && seen.insert(&item.id))
            .collect();
        // Before the items are written, so that they do not count themselves.
        let mut tally = guards::tally(self.tx, self.item_type, &admissible, now.0).await?;
        let new = self.write_bodies(&admissible).await?;
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

    /// The ids that were not known before. A body that was lost leaves its id used.
    async fn write_bodies(&self, items: &[&NewItem]) -> StoreResult<HashSet<ItemId>> {
        if items.is_empty() {
            return Ok(HashSet::new());
        }
        let mut sorted = items.to_vec();
        sorted.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let texts = |of: fn(&NewItem) -> &str| sorted.iter().map(|i| of(i)).collect::<Vec<_>>();
        let bulk = |item: &&NewItem| item.bulk().map(|bulk| bulk.to_string());
        let bulks: Vec<Option<String>> = sorted.iter().map(bulk).collect();
        let keys: Vec<String> = sorted.iter().map(|item| self.key(item)).collect();
        let params: Params<'_> = &[
            &self.item_type.as_str(),
            &texts(|i| i.id.as_str()),
            &texts(|i| &i.record.content_hash),
            &texts(|i| &i.body),
            &texts(|i| i.init_flow.as_str()),
            &bulks,
            &keys,
        ];
        let rows = match self.write_unraced(params).await? {
            Some(rows) => rows,
            None => all(self.tx, RACED, params).await?,
        };
        Ok(rows
            .iter()
            .map(|row| ItemId::new(row.get::<_, String>(0)))
            .collect())
    }

    /// Nothing if another transaction has taken one of the ids at the same moment.
    async fn write_unraced(&self, params: Params<'_>) -> StoreResult<Option<Vec<Row>>> {
        // Prepared beforehand, so that what is sent together stays in order.
        let statement = self.tx.prepare_cached(UNRACED).await.map_err(store_error)?;
        let written = futures::try_join!(
            self.tx.batch_execute("SAVEPOINT bodies"),
            self.tx.query(&statement, params)
        );
        match written {
            Ok(((), rows)) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                let back = self.tx.batch_execute("ROLLBACK TO SAVEPOINT bodies");
                back.await.map_err(store_error)?;
                Ok(None)
            }
            Err(error) => Err(store_error(error)),
        }
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

    /// Whoever won an id and got no slot, since a guard was against it or its lane never opens
    /// again, was never here.
    async fn forget_losers(
        &self,
        new: &HashSet<ItemId>,
        won: &[PlacedItem<'_>],
    ) -> StoreResult<()> {
        const FORGET: &str = "DELETE FROM item_body WHERE item_type = $1 AND item_id = ANY($2)";
        let won: HashSet<&ItemId> = won.iter().map(|w| &w.item.id).collect();
        let losers: Vec<&str> = new
            .iter()
            .filter(|id| !won.contains(id))
            .map(ItemId::as_str)
            .collect();
        execute(self.tx, FORGET, &[&self.item_type.as_str(), &losers])
            .await
            .map(drop)
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

    /// In the order of the items. Of an id the one that won is new; all others are judged by what
    /// is stored under it.
    async fn answer(
        &self,
        items: &[&NewItem],
        judged: &Judged<'_>,
        plans: &BTreeMap<LaneName, Plan>,
        now: Timestamp,
    ) -> StoreResult<Vec<Admission>> {
        let new: HashMap<&ItemId, &PlacedItem<'_>> =
            judged.won.iter().map(|w| (&w.item.id, w)).collect();
        let others: Vec<&str> = if new.len() == items.len() {
            vec![]
        } else {
            items.iter().map(|item| item.id.as_str()).collect()
        };
        let known = self.known(&others).await?;
        let unknown = items.iter().copied();
        let unknown =
            unknown.filter(|item| !new.contains_key(&item.id) && !known.contains_key(&item.id));
        let archived = self.archived(&unknown.collect::<Vec<_>>()).await?;
        let winner = |item: &NewItem| new.get(&item.id).filter(|w| std::ptr::eq(w.item, item));
        let answers = items.iter().map(|&item| match winner(item) {
            Some(won) => Admission::New(won.placed()),
            None => match known.get(&item.id) {
                Some(known) if known.content_hash == item.record.content_hash => {
                    Admission::Repeat(known.placed.clone())
                }
                Some(known) if is_erased(&known.content_hash) => Admission::Erased,
                Some(_) => Admission::Conflict,
                None if archived.contains_key(&item.id) => {
                    known::admission(&archived[&item.id], &item.record.content_hash)
                }
                None => match judged.refused.get(&item.id) {
                    Some(guard) if is_admissible(item, plans) => Admission::RefusedBy {
                        rule: guard.rule.clone(),
                        message: guard.message.clone(),
                    },
                    _ => Admission::Refused(refusal(item, plans, now)),
                },
            },
        });
        Ok(answers.collect())
    }

    fn key(&self, item: &NewItem) -> String {
        use std::fmt::Write;
        let key = known::key(self.item_type, &item.id);
        key.iter().fold(String::with_capacity(32), |mut hex, byte| {
            // Writing to memory does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }

    /// What the archive keeps of the contents of these items.
    async fn archived(&self, items: &[&NewItem]) -> StoreResult<HashMap<ItemId, Vec<u8>>> {
        const ARCHIVED: &str = "SELECT n.item_id, uuid_send(k.content)
             FROM unnest($1::text[], $2::text[]) AS n (item_id, key)
             JOIN known_item k ON k.key = n.key::uuid";
        let items = items.iter().filter(|item| is_storable(item));
        let (ids, keys): (Vec<&str>, Vec<String>) =
            items.map(|item| (item.id.as_str(), self.key(item))).unzip();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = all(self.tx, ARCHIVED, &[&ids, &keys]).await?;
        let kept = |row: &Row| (ItemId::new(row.get::<_, String>(0)), row.get(1));
        Ok(rows.iter().map(kept).collect())
    }

    async fn known(&self, ids: &[&str]) -> StoreResult<HashMap<ItemId, Known>> {
        const KNOWN: &str =
            "SELECT q.item_id, coalesce(b.content_hash, ''), q.lane, q.scheduled_time, q.deadline,
                    coalesce(b.init_workflow_id, '')
             FROM item_queue q
             LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
             WHERE q.item_type = $1 AND q.item_id = ANY($2)";
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = all(self.tx, KNOWN, &[&self.item_type.as_str(), &ids]).await?;
        Ok(rows.iter().map(known_from).collect())
    }
}

struct Known {
    content_hash: String,
    placed: Placed,
}

fn known_from(row: &Row) -> (ItemId, Known) {
    let known = Known {
        content_hash: row.get(1),
        placed: Placed::new(
            LaneName::new(row.get::<_, String>(2)),
            row.get::<_, Us>(3).0,
            row.get::<_, Option<Us>>(4).map(|us| us.0),
            FlowId::new(row.get::<_, String>(5)),
        ),
    };
    (ItemId::new(row.get::<_, String>(0)), known)
}

/// The requests that were found under the items' ids.
type Found = HashMap<ItemId, FoundRequest>;

/// The item with the time that a person gave its request.
fn moved_to(item: &NewItem, requests: &Found) -> NewItem {
    let mut item = item.clone();
    if let Some(request) = requests.get(&item.id) {
        item.requested = request.requested(&item);
    }
    item
}

/// The answer for an item that is not to be judged, because of a request.
fn requested_answer(item: &NewItem, requests: &Found) -> Option<Admission> {
    requests.get(&item.id)?.answer(item)
}

fn is_admissible(item: &NewItem, plans: &BTreeMap<LaneName, Plan>) -> bool {
    plans.contains_key(&item.lane) && is_storable(item)
}

/// One bad item harms no other: PostgreSQL would refuse the whole statement.
pub(super) fn is_storable(item: &NewItem) -> bool {
    let record = &item.record;
    let texts = [
        item.id.as_str(),
        &record.owner,
        &record.status,
        &record.content_hash,
        &item.body,
        item.init_flow.as_str(),
    ];
    !texts.iter().any(|text| text.contains('\0'))
}

fn refusal(item: &NewItem, plans: &BTreeMap<LaneName, Plan>, now: Timestamp) -> String {
    if !is_storable(item) {
        return "a text with a NUL character cannot be stored; remove it".to_owned();
    }
    if plans.contains_key(&item.lane) {
        never_opens(&item.lane, item.requested.unwrap_or(now))
    } else {
        no_such_lane(&item.lane)
    }
}
