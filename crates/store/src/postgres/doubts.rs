//! What is in doubt, and what people decide about it.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    AWAITED, AtRisk, Author, Bookmark, DoubtOrder, Doubts, IN_DOUBT, Intervened, ItemInDoubt, Page,
    Resolution, Resolved, StoreResult, rows_needed,
};

use super::PostgresStore;
use super::accounts::audit;
use super::attempts::{abandon, history};
use super::evidence;
use super::records::move_status;
use super::run::{Params, all, execute, optional};
use super::value::{Us, storable};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Doubts for PostgresStore {
    async fn in_doubt(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<ItemId>> {
        const PAGE: &str = "SELECT item_id FROM item_queue
             WHERE item_type = $1 AND item_id > $2 AND status = 'IN_DOUBT'
             ORDER BY item_id LIMIT $3";
        let (item_type, limit) = (item_type.clone(), i64::from(limit));
        let after = after.map_or(String::new(), ToString::to_string);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let params: Params<'_> = &[&item_type.as_str(), &after, &limit];
                    let rows = all(c, PAGE, params).await?;
                    let id = |row: &Row| ItemId::new(row.get::<_, String>(0));
                    Ok(rows.iter().map(id).collect())
                })
            })
            .await
    }

    async fn in_doubt_by(
        &self,
        item_type: &ItemType,
        order: DoubtOrder,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<ItemId, Bookmark>> {
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let asked = rows_needed(limit, false);
                    let rows = ordered(&*c, &item_type, &order, after, asked).await?;
                    let page = Page::of(rows, asked, limit, |_| true, Clone::clone);
                    Ok(page.map(|place: Bookmark| ItemId::new(place.id)))
                })
            })
            .await
    }

    async fn at_risk(&self, item_type: &ItemType) -> StoreResult<Vec<AtRisk>> {
        const AT_RISK: &str =
            "SELECT currency, count(*), sum(amount_minor)::bigint, min(updated_at)
             FROM item_queue WHERE item_type = $1 AND status = 'IN_DOUBT'
             GROUP BY currency ORDER BY currency";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, AT_RISK, &[&item_type.as_str()]).await?;
                    Ok(rows.iter().map(at_risk_from).collect())
                })
            })
            .await
    }

    async fn note_done(&self, item: &Item, evidence: Author) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { evidence::note(tx, &item, &evidence).await })
            })
            .await
    }

    async fn resolve(
        &self,
        item: &Item,
        resolution: Resolution,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { resolve(tx, &item, &resolution, &author).await })
            })
            .await
    }
}

/// Each with its place in the order.
async fn ordered(
    c: &impl GenericClient,
    item_type: &ItemType,
    order: &DoubtOrder,
    after: Option<Bookmark>,
    asked: u32,
) -> StoreResult<Vec<Bookmark>> {
    const OLDEST: &str = "SELECT updated_at, item_id FROM item_queue
         WHERE item_type = $1 AND status = 'IN_DOUBT' AND (updated_at, item_id) > ($2, $3)
         ORDER BY updated_at, item_id LIMIT $4";
    const LARGEST: &str = "SELECT amount_minor, item_id FROM item_queue
         WHERE item_type = $1 AND status = 'IN_DOUBT' AND currency = $5
           AND (amount_minor, item_id) < ($2, $3)
         ORDER BY amount_minor DESC, item_id DESC LIMIT $4";
    let (kind, asked) = (item_type.as_str(), i64::from(asked));
    let rows = match order {
        DoubtOrder::Oldest => {
            let Bookmark { rank, id } = after.unwrap_or(Bookmark::BELOW_ALL);
            all(c, OLDEST, &[&kind, &rank, &id, &asked]).await?
        }
        DoubtOrder::Largest { currency } => {
            let Bookmark { rank, id } = after.unwrap_or(Bookmark::ABOVE_ALL);
            all(c, LARGEST, &[&kind, &rank, &id, &asked, currency]).await?
        }
    };
    let place = |row: &Row| Bookmark::new(row.get(0), row.get::<_, String>(1));
    Ok(rows.iter().map(place).collect())
}

fn at_risk_from(row: &Row) -> AtRisk {
    AtRisk {
        currency: row.get(0),
        count: row.get::<_, i64>(1).unsigned_abs(),
        amount_minor: row.get(2),
        since: row.get::<_, Us>(3).0,
    }
}

/// What is known about an item; nothing if there is none. The queue row is held first: a turn checks
/// its owner under the same lock, so no attempt is opened between the look and the word.
pub(super) async fn hold(tx: &Transaction<'_>, item: &Item) -> StoreResult<Option<ItemInDoubt>> {
    const HOLD: &str =
        "SELECT status FROM item_queue WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let key: Params<'_> = &[&kind, &id];
    let Some(row) = optional(tx, HOLD, key).await? else {
        return Ok(None);
    };
    Ok(Some(ItemInDoubt {
        record_status: row.get(0),
        history: history(tx, item, Duration::ZERO).await?,
    }))
}

/// Lets go of what a dead sender left open. Why that cannot be: an answer came just now.
pub(super) async fn let_go(
    tx: &Transaction<'_>,
    item: &Item,
    doubt: &ItemInDoubt,
) -> StoreResult<Option<Intervened>> {
    match doubt.open() {
        Some(open) if !abandon(tx, item, open).await? => {
            Ok(Some(Intervened::Refused(AWAITED.to_owned())))
        }
        _ => Ok(None),
    }
}

async fn resolve(
    tx: &Transaction<'_>,
    item: &Item,
    resolution: &Resolution,
    author: &Author,
) -> StoreResult<Intervened> {
    let Some(doubt) = hold(tx, item).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = doubt.refuses(resolution) {
        return Ok(Intervened::Refused(why));
    }
    if let Some(too_early) = let_go(tx, item, &doubt).await? {
        return Ok(too_early);
    }
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let record = &resolution.record;
    move_status(tx, item, record).await?;
    match resolution.resolved {
        Resolved::Done | Resolved::Failed => end(tx, &[&kind, &id]).await?,
        Resolved::NotDone => send_again(tx, item, author).await?,
    }
    let detail = format!("{}: {}", resolution.resolved.as_str(), author.reason);
    let entry = Entry {
        item: Some(item),
        action: "RESOLVED",
        before: Some(IN_DOUBT),
        after: Some(&record.to),
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}

/// The next run belongs to nobody: whoever still works on the item finds it taken.
async fn end(tx: &Transaction<'_>, key: Params<'_>) -> StoreResult<()> {
    const END: &str = "UPDATE item_queue SET queue_status = 'DISPATCHED', run = run + 1,
                finished_at = coalesce(finished_at, tg_now()),
                dispatched_at = coalesce(dispatched_at, tg_now())
         WHERE item_type = $1 AND item_id = $2";
    execute(tx, END, key).await.map(drop)
}

/// What was unknown is known not to have been done, by a person's word.
async fn send_again(tx: &Transaction<'_>, item: &Item, author: &Author) -> StoreResult<()> {
    const KNOWN: &str = "UPDATE attempt SET state = 'RETRY', detail = $3, settled_at = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND state = 'UNKNOWN'";
    const AGAIN: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = tg_now(), finished_at = NULL, claimed_at = NULL,
                dispatched_at = NULL, hold_after = NULL, last_error = $3
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let word = format!("not done, says {}: {}", author.actor, author.reason);
    let word = storable(&word);
    execute(tx, KNOWN, &[&kind, &id, &&*word]).await?;
    execute(tx, AGAIN, &[&kind, &id, &&*word]).await.map(drop)
}
