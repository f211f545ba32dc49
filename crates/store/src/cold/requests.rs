//! Requests: what was accepted and is not planned yet. What an admission does with them is in
//! `requests.rs` of each store.

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    Acceptance, ActionResult, Author, LOOK_AFTER, NewRequest, RETRIES, Refusal, RequestState,
    RequestView, Requests, RequestsWanted, StoreError, StoreResult, Unplanned,
};

use super::audit::audit_move;
use crate::sql::{Params, Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> Requests for StoreOn<D> {
    async fn accept(&self, request: NewRequest) -> StoreResult<Acceptance> {
        self.write_alone(Urgency::Normal, move |tx| async move {
            accept(&tx, &request).await
        })
        .await
    }

    async fn request(&self, item: &Item) -> StoreResult<Option<RequestView>> {
        let item = item.clone();
        self.read(move |tx| async move { view(&tx, &item).await })
            .await
    }

    async fn requests_due(
        &self,
        item_type: &ItemType,
        limit: u32,
    ) -> StoreResult<Vec<RequestView>> {
        const DUE: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
                 details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to, ended_at
             FROM request
             WHERE item_type = $1 AND state = 'WAITING' AND due_at <= (SELECT tg_now())
             ORDER BY due_at LIMIT $2";
        let wanted = params![item_type, limit];
        self.read(move |tx| async move {
            let rows = tx.rows(DUE, wanted).await;
            rows.iter().map(view_from).collect()
        })
        .await
    }

    async fn begin_try(&self, item: &Item, tries: u32) -> StoreResult<bool> {
        const BEGIN: &str = "UPDATE request SET tries = tries + 1, due_at = tg_now() + $4
             WHERE item_type = $1 AND item_id = $2 AND tries = $3 AND state = 'WAITING'";
        Ok(self.look(BEGIN, item, tries).await? == 1)
    }

    async fn look_later(&self, item: &Item, tries: u32) -> StoreResult<()> {
        const LATER: &str = "UPDATE request SET due_at = tg_now() + $4
             WHERE item_type = $1 AND item_id = $2 AND tries = $3 AND state = 'WAITING'";
        self.look(LATER, item, tries).await.map(drop)
    }

    async fn try_failed(
        &self,
        item: &Item,
        content_hash: &str,
        why: &str,
    ) -> StoreResult<Option<u32>> {
        let (item, hash, why) = (item.clone(), content_hash.to_owned(), why.to_owned());
        self.write(Urgency::Normal, move |tx| async move {
            failed(&tx, &item, &hash, &why).await
        })
        .await
    }

    async fn refuse(&self, item: &Item, refusal: Refusal) -> StoreResult<()> {
        let item = item.clone();
        self.write_alone(Urgency::Normal, move |tx| async move {
            refuse(&tx, &item, &refusal).await
        })
        .await
    }

    async fn withdraw(&self, item: &Item, author: Author) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            withdraw(&tx, &item, &author).await
        })
        .await
    }

    async fn move_request(
        &self,
        item: &Item,
        to: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            move_to(&tx, &item, to, &author).await
        })
        .await
    }

    async fn requests(&self, wanted: RequestsWanted) -> StoreResult<Vec<RequestView>> {
        self.read(move |tx| async move { page(&tx, &wanted).await })
            .await
    }

    async fn unplanned(&self, item_type: &ItemType) -> StoreResult<Unplanned> {
        let wanted = params![item_type];
        self.read(move |tx| async move {
            let row = tx.one(UNPLANNED, wanted).await?;
            Ok(Unplanned {
                requests: row.get("requests")?,
                since: row.get("since")?,
                lines: row.get("lines")?,
                failing: row.get("failing")?,
            })
        })
        .await
    }
}

/// A bound on what is due, so that SQLite takes the index that has only what waits.
const UNPLANNED: &str = "SELECT count(*) AS requests, min(accepted_at) AS since,
        (SELECT CAST(coalesce(sum(lines - accepted - duplicate - rejected), 0) AS bigint)
         FROM bulk WHERE item_type = $1 AND state = 'RUNNING') AS lines,
        count(*) FILTER (WHERE failed_try = tries)
          + (SELECT count(*) FROM bulk_chunk k JOIN bulk b ON b.bulk_id = k.bulk_id
             WHERE b.item_type = $1 AND b.state = 'RUNNING' AND k.tries > 0) AS failing
     FROM request WHERE item_type = $1 AND state = 'WAITING' AND due_at > 0";

impl<D: Database> StoreOn<D> {
    async fn look(&self, sql: &'static str, item: &Item, tries: u32) -> StoreResult<u64> {
        let looked = params![&item.item_type, &item.id, tries, micros(LOOK_AFTER)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            Ok(tx.execute(sql, looked).await)
        })
        .await
    }
}

/// Every single payment comes through here, so it is one statement: durable with it, without a
/// transaction around.
async fn accept(tx: &Tx, request: &NewRequest) -> StoreResult<Acceptance> {
    const ACCEPT: &str = "INSERT INTO request AS r (item_type, item_id, state, content_hash,
             amount_minor, currency, document, details, correction, tries, failed_try, accepted_at,
             due_at)
         SELECT $1, $2, 'WAITING', $3, $4, $5, $6, '{}', 1, 1, 0, tg_now(), tg_now() + $7
         WHERE NOT EXISTS (SELECT 1 FROM item_queue WHERE item_type = $1 AND item_id = $2)
         ON CONFLICT (item_type, item_id) DO UPDATE SET
             state = 'WAITING', content_hash = excluded.content_hash,
             amount_minor = excluded.amount_minor, currency = excluded.currency,
             document = excluded.document, details = '{}', invalid = false,
             correction = r.correction + 1, tries = 1, failed_try = 0, last_error = NULL,
             init_workflow_id = NULL, moved_to = NULL, ended_at = NULL,
             accepted_at = excluded.accepted_at, due_at = excluded.due_at
         WHERE r.state = 'REFUSED' AND (r.content_hash <> excluded.content_hash OR $8)
         RETURNING item_id, state, content_hash, amount_minor, currency, document, details,
             correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at";
    let (item, money) = (&request.item, request.money);
    let accepted = params![
        &item.item_type,
        &item.id,
        &request.content_hash,
        money.minor,
        money.currency.code(),
        &request.document,
        micros(LOOK_AFTER),
        request.again,
    ];
    if let Some(row) = tx.row(ACCEPT, accepted).await {
        return Ok(Acceptance::New(view_from(&row)?));
    }
    match view(tx, item).await? {
        Some(known) => Ok(Acceptance::Known(known)),
        None => Ok(Acceptance::Planned),
    }
}

async fn view(tx: &Tx, item: &Item) -> StoreResult<Option<RequestView>> {
    const VIEW: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
             details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request WHERE item_type = $1 AND item_id = $2";
    let row = tx.row(VIEW, key(item)).await;
    row.map(|row| view_from(&row)).transpose()
}

fn key(item: &Item) -> Params {
    params![&item.item_type, &item.id]
}

async fn failed(tx: &Tx, item: &Item, content_hash: &str, why: &str) -> StoreResult<Option<u32>> {
    const TRIES: &str = "SELECT tries FROM request WHERE item_type = $1 AND item_id = $2
           AND content_hash = $3 AND state = 'WAITING'";
    const FAILED: &str = "UPDATE request SET failed_try = tries, last_error = $3,
                due_at = tg_now() + $4
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (&item.item_type, &item.id);
    let tries = tx.locked_row(TRIES, params![kind, id, content_hash]).await;
    let Some(row) = tries else {
        return Ok(None);
    };
    let tries = row.get("tries")?;
    let pause = micros(RETRIES.pause_after(tries));
    tx.execute(FAILED, params![kind, id, why, pause]).await;
    Ok(Some(tries))
}

pub(crate) async fn refuse(tx: &Tx, item: &Item, refusal: &Refusal) -> StoreResult<()> {
    const REFUSE: &str = "UPDATE request SET state = 'REFUSED', document = '', details = $4,
                last_error = NULL, init_workflow_id = $5, invalid = $6, ended_at = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND content_hash = $3 AND state = 'WAITING'";
    let details = serde_json::to_string(&refusal.details)
        .map_err(|e| StoreError::Bug(format!("{item}: {e}")))?;
    let refused = params![
        &item.item_type,
        &item.id,
        &refusal.content_hash,
        details,
        &refusal.init_flow,
        refusal.invalid,
    ];
    tx.execute(REFUSE, refused).await;
    Ok(())
}

async fn withdraw(tx: &Tx, item: &Item, author: &Author) -> StoreResult<ActionResult> {
    const WITHDRAW: &str =
        "UPDATE request SET state = 'CANCELLED', document = '', last_error = NULL,
                ended_at = tg_now()
         WHERE item_type = $1 AND item_id = $2";
    if let Some(refused) = hold_waiting(tx, item).await? {
        return Ok(refused);
    }
    tx.execute(WITHDRAW, key(item)).await;
    audit_move(tx, item, "CANCELLED", "INITIALIZING", "CANCELLED", author).await;
    Ok(ActionResult::Yes)
}

async fn move_to(
    tx: &Tx,
    item: &Item,
    to: Timestamp,
    author: &Author,
) -> StoreResult<ActionResult> {
    const MOVE: &str = "UPDATE request SET moved_to = $3 WHERE item_type = $1 AND item_id = $2";
    if let Some(refused) = hold_waiting(tx, item).await? {
        return Ok(refused);
    }
    tx.execute(MOVE, params![&item.item_type, &item.id, to])
        .await;
    let (before, after) = ("INITIALIZING", "INITIALIZING");
    audit_move(tx, item, "RESCHEDULED", before, after, author).await;
    Ok(ActionResult::Yes)
}

/// Holds a request; why it cannot be changed, if it does not wait.
async fn hold_waiting(tx: &Tx, item: &Item) -> StoreResult<Option<ActionResult>> {
    const FOUND: &str = "SELECT state FROM request WHERE item_type = $1 AND item_id = $2";
    let Some(row) = tx.locked_row(FOUND, key(item)).await else {
        return Ok(Some(ActionResult::NoSuchItem));
    };
    let state = row.word("state", RequestState::parse)?;
    if state != RequestState::Waiting {
        return Ok(Some(not_waiting(state)));
    }
    Ok(is_planned(tx, item)
        .await
        .then_some(ActionResult::NoSuchItem))
}

/// Whether an item has this id. On PostgreSQL an admission that met no request under the id, since it came with a file, say,
/// may be placing its item, which no other transaction sees yet. Those that get their lanes later look at the requests then, so they
/// see what is done to this one.
async fn is_planned(tx: &Tx, item: &Item) -> bool {
    const ITEM: &str = "SELECT item_id FROM item_queue WHERE item_type = $1 AND item_id = $2";
    tx.hold_up_admissions().await;
    tx.row(ITEM, key(item)).await.is_some()
}

fn not_waiting(state: RequestState) -> ActionResult {
    match state {
        // It was never taken in, and its id is free.
        RequestState::Refused => ActionResult::Refused("it was refused at intake".to_owned()),
        RequestState::Waiting | RequestState::Cancelled => {
            ActionResult::Refused(format!("it is {} already", state.as_str()))
        }
    }
}

async fn page(tx: &Tx, wanted: &RequestsWanted) -> StoreResult<Vec<RequestView>> {
    // SQLite would take the primary key, which has the refused ones too.
    const PAGE: Sql = Sql::each(
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request INDEXED BY request_shown
         WHERE item_type = $1 AND item_id > $2 AND state <> 'REFUSED'
           AND (CAST($3 AS text) IS NULL OR state = $3)
         ORDER BY item_id LIMIT $4",
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request
         WHERE item_type = $1 AND item_id > $2 AND state <> 'REFUSED'
           AND (CAST($3 AS text) IS NULL OR state = $3)
         ORDER BY item_id LIMIT $4",
    );
    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
    let state = wanted.state.map(RequestState::as_str);
    let page = params![&wanted.item_type, after, state, wanted.limit];
    let rows = tx.rows(PAGE, page).await;
    rows.iter().map(view_from).collect()
}

/// Beside a place in the order of acceptance. Wanted are what `lists::beside` makes.
pub(super) async fn beside(
    tx: &Tx,
    newer: bool,
    wanted: Params,
    state: Option<RequestState>,
) -> StoreResult<Vec<RequestView>> {
    const OLDER: Sql = Sql::each(
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request INDEXED BY request_accepted
         WHERE item_type = $1 AND state <> 'REFUSED' AND (accepted_at, item_id) < ($2, $3)
           AND accepted_at >= $4 AND (CAST($6 AS text) IS NULL OR state = $6)
         ORDER BY accepted_at DESC, item_id DESC LIMIT $5",
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request
         WHERE item_type = $1 AND state <> 'REFUSED' AND (accepted_at, item_id) < ($2, $3)
           AND accepted_at >= $4 AND (CAST($6 AS text) IS NULL OR state = $6)
         ORDER BY accepted_at DESC, item_id DESC LIMIT $5",
    );
    const NEWER: Sql = Sql::each(
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request INDEXED BY request_accepted
         WHERE item_type = $1 AND state <> 'REFUSED' AND (accepted_at, item_id) > ($2, $3)
           AND accepted_at < $4 AND (CAST($6 AS text) IS NULL OR state = $6)
         ORDER BY accepted_at, item_id LIMIT $5",
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to, ended_at
         FROM request
         WHERE item_type = $1 AND state <> 'REFUSED' AND (accepted_at, item_id) > ($2, $3)
           AND accepted_at < $4 AND (CAST($6 AS text) IS NULL OR state = $6)
         ORDER BY accepted_at, item_id LIMIT $5",
    );
    let sql = if newer { NEWER } else { OLDER };
    let mut wanted = wanted;
    wanted.extend(params![state.map(RequestState::as_str)]);
    let rows = tx.rows(sql, wanted).await;
    rows.iter().map(view_from).collect()
}

fn view_from(row: &Row) -> StoreResult<RequestView> {
    Ok(RequestView {
        id: row.get("item_id")?,
        state: row.word("state", RequestState::parse)?,
        content_hash: row.get("content_hash")?,
        money: row.money()?,
        document: row.get("document")?,
        details: row.json("details")?,
        invalid: row.get("invalid")?,
        correction: row.get("correction")?,
        tries: row.get("tries")?,
        failed_try: row.get("failed_try")?,
        last_error: row.get("last_error")?,
        accepted_at: row.get("accepted_at")?,
        due: row.get("due_at")?,
        moved_to: row.get("moved_to")?,
        ended_at: row.get("ended_at")?,
    })
}
