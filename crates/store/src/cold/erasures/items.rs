//! What goes of one item: its body and content hash, what finds it by its owner, and every text about it. Judged and
//! written while the item is held.

use std::collections::BTreeMap;

use tollgate_core::Timestamp;
use tollgate_core::account::spellings;
use tollgate_core::erasure::{ERASED, ERASED_HASH, Erasable, EraseBody, ErasureWish, LeftOut};
use tollgate_core::guard::quarter_of;
use tollgate_core::id::{FlowId, Item, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ChunkId, ErasureView, RequestState, StoreResult};

use crate::audit::Entry;
use crate::cold::audit::audit;
use crate::sql::{Params, Row, Sql, Tx, params};

const PAYMENT: &str = "PAYMENT";
const INVOICE: &str = "INVOICE";

/// In the order of types and ids: invoices of the customer, then payments of the account.
pub(super) async fn candidates(
    tx: &Tx,
    wish: &ErasureWish,
    after: Option<&Item>,
    limit: u32,
) -> StoreResult<Vec<Item>> {
    let account = match wish {
        ErasureWish::Account(account) => account,
        ErasureWish::Item(item) => {
            let is_next = after.is_none();
            return Ok(is_next.then(|| item.clone()).into_iter().collect());
        }
    };
    let passed_invoices = after.is_some_and(|item| item.item_type.as_str() != INVOICE);
    let mut found = vec![];
    if !passed_invoices {
        let after = after.map_or("", |item| item.id.as_str());
        let wanted = params![account, after, limit];
        found = named(INVOICE, &tx.rows(INVOICES, wanted).await)?;
    }
    if found.is_empty() {
        let after = after.filter(|_| passed_invoices);
        let after = after.map_or("", |item| item.id.as_str());
        found = payments(tx, account, after, limit).await?;
    }
    Ok(found)
}

/// One look by index for each usual spelling of the account. Any other one would need a scan.
async fn payments(tx: &Tx, account: &str, after: &str, limit: u32) -> StoreResult<Vec<Item>> {
    let mut found = vec![];
    for spelling in spellings(account) {
        let wanted = params![&spelling, after, limit, in_json(&spelling)?];
        found.extend(named(PAYMENT, &tx.rows(PAYMENTS, wanted).await)?);
    }
    // Both stores order ids byte by byte, too.
    found.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    found.dedup();
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

const INVOICES: Sql = Sql::each(
    "SELECT item_id FROM item_queue INDEXED BY item_queue_owner_page
     WHERE by_owner = 1 AND item_type = 'INVOICE' AND owner = $1 AND item_id > $2
     ORDER BY item_id LIMIT $3",
    "SELECT item_id FROM item_queue
     WHERE by_owner AND item_type = 'INVOICE' AND owner = $1 AND item_id > $2
     ORDER BY item_id LIMIT $3",
);

/// Those that wait for their plan, too: they are named as left out.
const PAYMENTS: Sql = Sql::each(
    "SELECT item_id FROM item_body INDEXED BY item_body_debtor
     WHERE item_type = 'PAYMENT' AND json_valid(body)
       AND json_extract(body, '$.debtor.account') = $1 AND item_id > $2
     UNION
     SELECT item_id FROM item_body INDEXED BY item_body_creditor
     WHERE item_type = 'PAYMENT' AND json_valid(body)
       AND json_extract(body, '$.creditor.account') = $1 AND item_id > $2
     UNION
     SELECT item_id FROM request INDEXED BY request_due
     WHERE item_type = 'PAYMENT' AND state = 'WAITING' AND due_at > 0
       AND instr(document, $4) > 0 AND item_id > $2
     ORDER BY item_id LIMIT $3",
    "SELECT item_id FROM item_body
     WHERE item_type = 'PAYMENT' AND tg_json(body) #>> '{debtor,account}' = $1 AND item_id > $2
     UNION
     SELECT item_id FROM item_body
     WHERE item_type = 'PAYMENT' AND tg_json(body) #>> '{creditor,account}' = $1 AND item_id > $2
     UNION
     SELECT item_id FROM request
     WHERE item_type = 'PAYMENT' AND state = 'WAITING' AND due_at > 0
       AND strpos(document, $4) > 0 AND item_id > $2
     ORDER BY item_id LIMIT $3",
);

fn named(kind: &str, rows: &[Row]) -> StoreResult<Vec<Item>> {
    let kind = ItemType::new(kind);
    let one = |row: &Row| Ok(Item::new(&kind, &row.get("item_id")?));
    rows.iter().map(one).collect()
}

/// As the value of a field `account` in a document of ours.
fn in_json(account: &str) -> StoreResult<String> {
    let quoted = super::json(&account)?;
    Ok(format!("\"account\":{quoted}"))
}

/// An item as it is found, with what its erasure needs.
pub(super) struct LookedAt {
    pub(super) erasable: Erasable,
    kept: Kept,
}

enum Kept {
    /// In the queue.
    Item {
        body: Option<String>,
        init_flow: String,
        total: Option<Total>,
    },
    /// Never planned: only its request is there.
    Request(RequestState),
}

/// Where the amount of an item is counted for its owner.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Total {
    owner: String,
    currency: String,
    quarter: Timestamp,
    kind: ItemType,
}

pub(super) async fn look(tx: &Tx, item: &Item) -> StoreResult<Option<LookedAt>> {
    const LOOK: &str = "SELECT q.queue_status, q.status, q.finished_at IS NOT NULL AS has_ended,
             q.currency, q.created_at, q.owner, q.counted,
             coalesce(b.content_hash, '') AS content_hash, b.body,
             coalesce(b.init_workflow_id, '') AS init_workflow_id,
             EXISTS (SELECT 1 FROM flow f
                     WHERE f.flow_id IN (b.init_workflow_id, q.exec_workflow_id)
                       AND f.state IN ('PENDING', 'LIVE')) AS runs
         FROM item_queue q
         LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
         WHERE q.item_type = $1 AND q.item_id = $2";
    let Some(row) = tx.row(LOOK, key(item)).await else {
        return look_at_request(tx, item).await;
    };
    let init: String = row.get("init_workflow_id")?;
    let runs: bool = row.get("runs")?;
    let is_copied = runs || is_in_chunk(tx, &init).await;
    let owner: Option<String> = row.get("owner")?;
    let counted: bool = row.get("counted")?;
    let total = owner.filter(|_| counted).map(|owner| {
        Ok(Total {
            owner,
            currency: row.get("currency")?,
            quarter: quarter_of(row.get("created_at")?),
            kind: item.item_type.clone(),
        })
    });
    Ok(Some(LookedAt {
        erasable: Erasable {
            item: item.clone(),
            queue_status: row.word("queue_status", QueueStatus::parse)?,
            status: row.get("status")?,
            has_ended: row.get("has_ended")?,
            content_hash: row.get("content_hash")?,
            is_copied,
        },
        kept: Kept::Item {
            body: row.get("body")?,
            init_flow: init,
            total: total.transpose()?,
        },
    }))
}

/// Whether the chunk of the import that it came in is still kept.
async fn is_in_chunk(tx: &Tx, init_flow: &str) -> bool {
    const CHUNK: &str = "SELECT 1 AS one FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
    let Some(chunk) = ChunkId::of_flow(&FlowId::new(init_flow)) else {
        return false;
    };
    let chunk = params![&chunk.bulk, chunk.number];
    tx.row(CHUNK, chunk).await.is_some()
}

async fn look_at_request(tx: &Tx, item: &Item) -> StoreResult<Option<LookedAt>> {
    const REQUEST: &str = "SELECT state, content_hash FROM request
         WHERE item_type = $1 AND item_id = $2";
    let Some(row) = tx.row(REQUEST, key(item)).await else {
        return Ok(None);
    };
    let state = row.word("state", RequestState::parse)?;
    let (queue_status, status) = match state {
        RequestState::Waiting => (QueueStatus::Ready, "INITIALIZING"),
        RequestState::Refused => (QueueStatus::Cancelled, "REJECTED"),
        RequestState::Cancelled => (QueueStatus::Cancelled, "CANCELLED"),
    };
    Ok(Some(LookedAt {
        erasable: Erasable {
            item: item.clone(),
            queue_status,
            status: status.to_owned(),
            has_ended: state != RequestState::Waiting,
            content_hash: row.get("content_hash")?,
            is_copied: false,
        },
        kept: Kept::Request(state),
    }))
}

fn key(item: &Item) -> Params {
    params![&item.item_type, &item.id]
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) erased: u64,
    pub(super) left_out: Vec<LeftOut>,
}

pub(super) async fn erase_all(
    tx: &Tx,
    erasure: &ErasureView,
    items: &[Item],
    body: EraseBody,
) -> StoreResult<Found> {
    const LOCK: &str = "SELECT 1 AS one FROM item_queue WHERE item_type = $1 AND item_id = $2";
    let mut found = Found::default();
    let mut totals: BTreeMap<Total, i64> = BTreeMap::new();
    for item in items {
        tx.locked_row(LOCK, key(item)).await;
        let Some(looked_at) = look(tx, item).await? else {
            continue;
        };
        if let Some(reason) = looked_at.erasable.refusal() {
            let item = item.clone();
            found.left_out.push(LeftOut { item, reason });
            continue;
        }
        match looked_at.kept {
            Kept::Request(state) => erase_request(tx, item, state).await,
            Kept::Item {
                body: was,
                init_flow,
                total,
            } => {
                erase_body(tx, item, was.as_deref(), body).await;
                let minor = erase_row(tx, item).await?;
                if let Some(total) = total {
                    *totals.entry(total).or_default() += minor;
                }
                erase_about(tx, item).await;
                erase_flows(tx, item).await;
                let hash = &looked_at.erasable.content_hash;
                erase_hash(tx, &init_flow, hash).await;
            }
        }
        erase_settings(tx, item).await;
        note(tx, item, erasure).await;
        found.erased += 1;
    }
    move_totals(tx, totals).await;
    Ok(found)
}

pub(super) async fn erase_body(tx: &Tx, item: &Item, was: Option<&str>, body: EraseBody) {
    const BODY: &str = "UPDATE item_body SET body = $3, content_hash = $4
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (&item.item_type, &item.id);
    let erased = body(kind, was.unwrap_or_default());
    tx.execute(BODY, params![kind, id, erased, ERASED_HASH])
        .await;
}

/// Returns its amount. An owner that it is counted or listed by becomes the empty one, which no item has.
async fn erase_row(tx: &Tx, item: &Item) -> StoreResult<i64> {
    const ROW: &str = "UPDATE item_queue SET duplicate_key = NULL, last_error = NULL,
                owner = CASE WHEN counted OR by_owner THEN '' END
         WHERE item_type = $1 AND item_id = $2
         RETURNING amount_minor";
    tx.one(ROW, key(item)).await?.get("amount_minor")
}

/// What was said and written about it.
pub(super) async fn erase_about(tx: &Tx, item: &Item) {
    const ATTEMPTS: &str = "UPDATE attempt SET detail = $3
         WHERE item_type = $1 AND item_id = $2 AND detail <> ''";
    const AUDIT: &str = "UPDATE audit_log SET detail = $3
         WHERE item_type = $1 AND item_id = $2 AND detail <> ''";
    let (kind, id) = (&item.item_type, &item.id);
    tx.execute(ATTEMPTS, params![kind, id, ERASED]).await;
    tx.execute(AUDIT, params![kind, id, ERASED]).await;
}

/// The results of its own flows, of all tries and runs: `~` stands in no id. What a flow was given is gone since its end.
pub(super) async fn erase_flows(tx: &Tx, item: &Item) {
    const ONE: &str = "UPDATE flow SET result = '', progress = NULL
         WHERE flow_id = $1 AND state IN ('DONE', 'FAILED')";
    const TRIES: &str = "UPDATE flow SET result = '', progress = NULL
         WHERE flow_id > $1 AND flow_id < $2 AND state IN ('DONE', 'FAILED')";
    let kind = item.item_type.as_str().to_ascii_lowercase();
    let own = ["init", "exec"].map(|what| format!("{what}-{kind}-{}", item.id));
    let each = own.iter().map(|flow| params![flow]);
    tx.execute_each(ONE, each.collect()).await;
    let tries = |flow: &String| params![format!("{flow}~"), format!("{flow}~~")];
    tx.execute_each(TRIES, own.iter().map(tries).collect())
        .await;
}

/// A flow that has taken in several items has the content hash of each in its result.
async fn erase_hash(tx: &Tx, init_flow: &str, content_hash: &str) {
    const HASH: &str = "UPDATE flow SET result = replace(result, $2, $3)
         WHERE flow_id = $1 AND state IN ('DONE', 'FAILED') AND result IS NOT NULL";
    if !content_hash.is_empty() {
        tx.execute(HASH, params![init_flow, content_hash, ERASED_HASH])
            .await;
    }
}

/// A cancelled one keeps its id used. A refused one was never taken in: its id is free.
async fn erase_request(tx: &Tx, item: &Item, state: RequestState) {
    const KEEP: &str = "UPDATE request SET content_hash = $3, document = '', details = '{}',
                last_error = NULL
         WHERE item_type = $1 AND item_id = $2";
    const FORGET: &str = "DELETE FROM request WHERE item_type = $1 AND item_id = $2";
    match state {
        RequestState::Refused => {
            tx.execute(FORGET, key(item)).await;
        }
        RequestState::Cancelled | RequestState::Waiting => {
            let kept = params![&item.item_type, &item.id, ERASED_HASH];
            tx.execute(KEEP, kept).await;
        }
    }
    erase_about(tx, item).await;
    erase_flows(tx, item).await;
}

/// Settings about this item alone: what a first person had said about it, for a second one, and the retry schedule of an
/// invoice.
pub(crate) async fn erase_settings(tx: &Tx, item: &Item) {
    erase_setting(tx, "proposal", &item.to_string()).await;
    if item.item_type.as_str() == INVOICE {
        erase_setting(tx, "schedule", &format!("invoice/{}", item.id)).await;
    }
}

/// All versions of a setting, and what the audit log repeats of them in entries that belong to no item. How many versions. No
/// index knows these entries, so they are looked for only if there was a setting. The name is compared letter by letter,
/// whatever `%` and `_` it has.
pub(super) async fn erase_setting(tx: &Tx, kind: &str, name: &str) -> u64 {
    const SETTING: &str = "DELETE FROM setting WHERE kind = $1 AND name = $2";
    const AUDIT: &str = "UPDATE audit_log SET detail = $2
         WHERE action = 'SETTING_CHANGED' AND item_id IS NULL
           AND substr(detail, 1, length(CAST($1 AS text))) = CAST($1 AS text)";
    let deleted = tx.execute(SETTING, params![kind, name]).await;
    if deleted > 0 {
        let begins = format!("{kind} {name} version ");
        tx.execute(AUDIT, params![begins, ERASED]).await;
    }
    deleted
}

async fn note(tx: &Tx, item: &Item, erasure: &ErasureView) {
    let detail = format!("{}: {}", erasure.id, erasure.author.reason);
    let entry = Entry {
        item: Some(item),
        action: "ERASED",
        actor: &erasure.author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
}

/// From their owners to nobody, so that the sums stay. In their order, as admissions take them.
async fn move_totals(tx: &Tx, totals: BTreeMap<Total, i64>) {
    const TAKE: &str = "UPDATE owner_total SET amount_minor = amount_minor - $5
         WHERE item_type = $1 AND owner = $2 AND currency = $3 AND quarter = $4";
    const FORGET: &str = "DELETE FROM owner_total
         WHERE item_type = $1 AND owner = $2 AND currency = $3 AND quarter = $4
           AND amount_minor <= 0";
    const GIVE: &str =
        "INSERT INTO owner_total AS t (item_type, owner, currency, quarter, amount_minor)
         VALUES ($1, '', $2, $3, $4)
         ON CONFLICT (item_type, owner, currency, quarter)
         DO UPDATE SET amount_minor = t.amount_minor + excluded.amount_minor";
    for (total, minor) in totals {
        let Total {
            owner,
            currency,
            quarter,
            kind,
        } = total;
        let taken = params![&kind, &owner, &currency, quarter, minor];
        tx.execute(TAKE, taken).await;
        let forgotten = params![&kind, &owner, &currency, quarter];
        tx.execute(FORGET, forgotten).await;
        tx.execute(GIVE, params![&kind, &currency, quarter, minor])
            .await;
    }
}
