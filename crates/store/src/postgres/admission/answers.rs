//! What is said of each new item.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::erasure::is_erased;
use tollgate_core::id::{FlowId, ItemId, LaneName};
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{Admission, NewItem, Placed, StoreResult};

use super::admit::{Batch, Judged, PlacedItem};
use super::bodies::is_storable;
use crate::cold::archive::known;
use crate::postgres::connection::run::all;
use crate::postgres::connection::value::Us;
use crate::postgres::lanes::counters::Plan;

impl Batch<'_> {
    /// In the order of the items. Of an id the one that won is new; all others are judged by what
    /// is stored under it.
    pub(super) async fn answer(
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

    /// What the archive keeps of the contents of these items.
    async fn archived(&self, items: &[&NewItem]) -> StoreResult<HashMap<ItemId, Vec<u8>>> {
        const ARCHIVED: &str = "SELECT n.item_id, k.content
             FROM unnest($1::text[], $2::bytea[]) AS n (item_id, key)
             JOIN tg_known($3::bigint[]) k ON k.key = n.key";
        let items = items.iter().copied().filter(|item| is_storable(item));
        let items: Vec<&NewItem> = items.collect();
        if items.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        let keys = self.keys(&items);
        let (keys, heads): (Vec<&[u8]>, Vec<i64>) =
            keys.iter().map(|key| (&key[..], known::head(key))).unzip();
        let rows = all(self.tx, ARCHIVED, &[&ids, &keys, &heads]).await?;
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

fn is_admissible(item: &NewItem, plans: &BTreeMap<LaneName, Plan>) -> bool {
    plans.contains_key(&item.lane) && is_storable(item)
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
