//! Items in doubt: the worklist, and what a person or another service knows about them.

pub(crate) mod evidence;

use async_trait::async_trait;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    AWAITED, ActionResult, AtRisk, Author, ByTime, DoubtOrder, Doubts, IN_DOUBT, ItemInDoubt, Page,
    PageFrom, PageToken, Resolution, Resolved, StoreResult, rows_needed,
};

use super::audit::audit;
use crate::audit::Entry;
use crate::cold::items::operator_actions::move_status;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Doubts for StoreOn<D> {
    async fn in_doubt(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<ItemId>> {
        const IDS: Sql = Sql::each(
            "SELECT item_id FROM item_queue INDEXED BY item_queue_status
             WHERE item_type = $1 AND item_id > $2 AND status = 'IN_DOUBT'
             ORDER BY item_id LIMIT $3",
            "SELECT item_id FROM item_queue
             WHERE item_type = $1 AND item_id > $2 AND status = 'IN_DOUBT'
             ORDER BY item_id LIMIT $3",
        );
        let page = params![item_type, after.map_or("", ItemId::as_str), limit];
        self.read(move |tx| async move {
            let rows = tx.rows(IDS, page).await;
            rows.iter().map(|row| row.get("item_id")).collect()
        })
        .await
    }

    async fn in_doubt_by(
        &self,
        item_type: &ItemType,
        order: DoubtOrder,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<ItemId, PageToken>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move {
            let asked = rows_needed(limit, false);
            let rows = ordered(&tx, &item_type, &order, from.clone(), asked).await?;
            let page = Page::beside(rows, asked, limit, &from, Clone::clone);
            Ok(page.map(|place: PageToken| ItemId::new(place.id)))
        })
        .await
    }

    async fn at_risk(&self, item_type: &ItemType) -> StoreResult<Vec<AtRisk>> {
        const AT_RISK: Sql = Sql::each(
            "SELECT currency, count(*) AS n, sum(amount_minor) AS amount, min(updated_at) AS since
             FROM item_queue INDEXED BY item_queue_status
             WHERE item_type = $1 AND status = 'IN_DOUBT'
             GROUP BY currency ORDER BY currency",
            "SELECT currency, count(*) AS n, sum(amount_minor)::bigint AS amount,
                    min(updated_at) AS since
             FROM item_queue WHERE item_type = $1 AND status = 'IN_DOUBT'
             GROUP BY currency ORDER BY currency",
        );
        let wanted = params![item_type];
        self.read(move |tx| async move {
            let rows = tx.rows(AT_RISK, wanted).await;
            rows.iter().map(at_risk_from).collect()
        })
        .await
    }

    async fn note_done(&self, item: &Item, evidence: Author) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            evidence::note(&tx, &item, &evidence).await
        })
        .await
    }

    async fn resolve(
        &self,
        item: &Item,
        resolution: Resolution,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            resolve(&tx, &item, &resolution, &author).await
        })
        .await
    }
}

/// Each with its place in the order.
async fn ordered(
    tx: &Tx,
    item_type: &ItemType,
    order: &DoubtOrder,
    from: PageFrom<PageToken>,
    asked: u32,
) -> StoreResult<Vec<PageToken>> {
    let rows = match order {
        DoubtOrder::ByTime(order) => {
            let (PageToken { rank, id }, upwards) = from.bounds(*order == ByTime::Oldest);
            let sql = if upwards { NEWER } else { OLDER };
            tx.rows(sql, params![item_type, rank, id, asked]).await
        }
        DoubtOrder::Largest { currency } => {
            let (PageToken { rank, id }, upwards) = from.bounds(false);
            let sql = if upwards { LARGER } else { SMALLER };
            let page = params![item_type, rank, id, asked, currency];
            tx.rows(sql, page).await
        }
    };
    let place = |row: &Row| {
        let id: String = row.get("item_id")?;
        Ok(PageToken::new(row.get("place")?, id))
    };
    rows.iter().map(place).collect()
}

// SQLite keeps no statistics, and would take the index of another question.
const NEWER: Sql = Sql::each(
    "SELECT updated_at AS place, item_id FROM item_queue INDEXED BY item_queue_doubt_age
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND (updated_at, item_id) > ($2, $3)
     ORDER BY updated_at, item_id LIMIT $4",
    "SELECT updated_at AS place, item_id FROM item_queue
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND (updated_at, item_id) > ($2, $3)
     ORDER BY updated_at, item_id LIMIT $4",
);
const OLDER: Sql = Sql::each(
    "SELECT updated_at AS place, item_id FROM item_queue INDEXED BY item_queue_doubt_age
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND (updated_at, item_id) < ($2, $3)
     ORDER BY updated_at DESC, item_id DESC LIMIT $4",
    "SELECT updated_at AS place, item_id FROM item_queue
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND (updated_at, item_id) < ($2, $3)
     ORDER BY updated_at DESC, item_id DESC LIMIT $4",
);
const SMALLER: Sql = Sql::each(
    "SELECT amount_minor AS place, item_id FROM item_queue INDEXED BY item_queue_doubt_amount
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND currency = $5
       AND (amount_minor, item_id) < ($2, $3)
     ORDER BY amount_minor DESC, item_id DESC LIMIT $4",
    "SELECT amount_minor AS place, item_id FROM item_queue
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND currency = $5
       AND (amount_minor, item_id) < ($2, $3)
     ORDER BY amount_minor DESC, item_id DESC LIMIT $4",
);
const LARGER: Sql = Sql::each(
    "SELECT amount_minor AS place, item_id FROM item_queue INDEXED BY item_queue_doubt_amount
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND currency = $5
       AND (amount_minor, item_id) > ($2, $3)
     ORDER BY amount_minor, item_id LIMIT $4",
    "SELECT amount_minor AS place, item_id FROM item_queue
     WHERE item_type = $1 AND status = 'IN_DOUBT' AND currency = $5
       AND (amount_minor, item_id) > ($2, $3)
     ORDER BY amount_minor, item_id LIMIT $4",
);

fn at_risk_from(row: &Row) -> StoreResult<AtRisk> {
    Ok(AtRisk {
        currency: row.get("currency")?,
        count: row.get("n")?,
        amount_minor: row.get("amount")?,
        since: row.get("since")?,
    })
}

/// What is known about an item; nothing if there is none. Its row is held first: a turn checks
/// its owner under the same lock, so no attempt is opened between the look and the word.
pub(super) async fn hold(tx: &Tx, item: &Item) -> StoreResult<Option<ItemInDoubt>> {
    const HOLD: &str = "SELECT status FROM item_queue WHERE item_type = $1 AND item_id = $2";
    let key = params![&item.item_type, &item.id];
    let Some(row) = tx.locked_row(HOLD, key).await else {
        return Ok(None);
    };
    Ok(Some(ItemInDoubt {
        record_status: row.get("status")?,
        history: tx.history(item).await?,
    }))
}

/// Lets go of what a dead sender left open. Why that cannot be: an answer came just now.
pub(super) async fn let_go(tx: &Tx, item: &Item, doubt: &ItemInDoubt) -> Option<ActionResult> {
    const ABANDON: &str = "UPDATE attempt SET state = 'UNKNOWN', settled_at = tg_now(),
                detail = 'the sender ended before an answer was recorded'
         WHERE item_type = $1 AND item_id = $2 AND attempt_id = $3 AND turn_at = $4
           AND state = 'OPEN'";
    let open = doubt.open()?;
    let as_seen = params![&item.item_type, &item.id, open.attempt.0, open.turn_at];
    let was_open = tx.execute(ABANDON, as_seen).await == 1;
    (!was_open).then(|| ActionResult::Refused(AWAITED.to_owned()))
}

async fn resolve(
    tx: &Tx,
    item: &Item,
    resolution: &Resolution,
    author: &Author,
) -> StoreResult<ActionResult> {
    let Some(doubt) = hold(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = doubt.refuses(resolution) {
        return Ok(ActionResult::Refused(why));
    }
    if let Some(too_early) = let_go(tx, item, &doubt).await {
        return Ok(too_early);
    }
    let record = &resolution.record;
    move_status(tx, item, &doubt.record_status, record).await;
    match resolution.resolved {
        Resolved::Done | Resolved::Failed => end(tx, item).await,
        Resolved::NotDone => send_again(tx, item, author).await,
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
    audit(tx, &entry).await;
    Ok(ActionResult::Yes)
}

/// The next run belongs to nobody: whoever still works on the item finds it taken.
async fn end(tx: &Tx, item: &Item) {
    const END: &str = "UPDATE item_queue SET queue_status = 'DISPATCHED', run = run + 1,
                finished_at = coalesce(finished_at, tg_now()),
                dispatched_at = coalesce(dispatched_at, tg_now())
         WHERE item_type = $1 AND item_id = $2";
    tx.execute(END, params![&item.item_type, &item.id]).await;
}

/// What was unknown is known not to have been done, by a person's word.
async fn send_again(tx: &Tx, item: &Item, author: &Author) {
    const KNOWN: &str = "UPDATE attempt SET state = 'RETRY', detail = $3, settled_at = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND state = 'UNKNOWN'";
    const AGAIN: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = tg_now(), finished_at = NULL, claimed_at = NULL,
                dispatched_at = NULL, hold_after = NULL, last_error = $3
         WHERE item_type = $1 AND item_id = $2";
    let word = format!("not done, according to {}: {}", author.actor, author.reason);
    for statement in [KNOWN, AGAIN] {
        let known = params![&item.item_type, &item.id, &word];
        tx.execute(statement, known).await;
    }
}
