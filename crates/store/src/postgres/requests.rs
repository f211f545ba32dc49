//! Requests: accepted, tried until they are planned or refused, or withdrawn.

use std::collections::HashMap;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Acceptance, Admission, Author, FoundRequest, Intervened, LOOK_AFTER, NewItem, NewRequest,
    RETRIES, Refusal, RequestState, RequestView, Requests, RequestsWanted, StoreError, StoreResult,
    Unplanned,
};

use super::PostgresStore;
use super::accounts::audit;
use super::run::{Params, all, execute, one, optional};
use super::value::{Count, Us, storable, word};
use crate::audit::Entry;
use crate::requests::not_waiting;
use crate::urgency::Urgency;
use crate::value::{micros, unknown_word};

const VIEW: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
            correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
            moved_to
     FROM request WHERE item_type = $1 AND item_id = $2";

#[async_trait]
impl Requests for PostgresStore {
    async fn accept(&self, request: NewRequest) -> StoreResult<Acceptance> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { accept(&*c, &request).await })
            })
            .await
    }

    async fn request(&self, item: &Item) -> StoreResult<Option<RequestView>> {
        let item = item.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { view(&*c, &item).await })
            })
            .await
    }

    async fn requests_due(
        &self,
        item_type: &ItemType,
        limit: u32,
    ) -> StoreResult<Vec<RequestView>> {
        const DUE: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
                 details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to
             FROM request
             WHERE item_type = $1 AND state = 'WAITING' AND due_at <= (SELECT tg_now())
             ORDER BY due_at LIMIT $2";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, DUE, &[&item_type.as_str(), &i64::from(limit)]).await?;
                    rows.iter().map(view_from).collect()
                })
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
        let (item, hash) = (item.clone(), content_hash.to_owned());
        let why = storable(why).into_owned();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { failed(tx, &item, &hash, &why).await })
            })
            .await
    }

    async fn refuse(&self, item: &Item, refusal: Refusal) -> StoreResult<()> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { refuse(tx, &item, &refusal).await })
            })
            .await
    }

    async fn withdraw(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { withdraw(tx, &item, &author).await })
            })
            .await
    }

    async fn move_request(
        &self,
        item: &Item,
        to: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { move_to(tx, &item, Us(to), &author).await })
            })
            .await
    }

    async fn requests(&self, wanted: RequestsWanted) -> StoreResult<Vec<RequestView>> {
        const PAGE: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
                 details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to
             FROM request
             WHERE item_type = $1 AND item_id > $2 AND state <> 'REFUSED'
               AND ($3::text IS NULL OR state = $3)
             ORDER BY item_id LIMIT $4";
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
                    let state = wanted.state.map(RequestState::as_str);
                    let (kind, limit) = (wanted.item_type.as_str(), i64::from(wanted.limit));
                    let params: Params<'_> = &[&kind, &after, &state, &limit];
                    let rows = all(c, PAGE, params).await?;
                    rows.iter().map(view_from).collect()
                })
            })
            .await
    }

    async fn unplanned(&self, item_type: &ItemType) -> StoreResult<Unplanned> {
        const UNPLANNED: &str = "SELECT count(*), min(accepted_at),
                 (SELECT coalesce(sum(lines - accepted - duplicate - rejected), 0)::bigint
                  FROM bulk WHERE item_type = $1 AND state = 'RUNNING'),
                 count(*) FILTER (WHERE failed_try = tries)
                   + (SELECT count(*) FROM bulk_chunk k JOIN bulk b ON b.bulk_id = k.bulk_id
                      WHERE b.item_type = $1 AND b.state = 'RUNNING' AND k.tries > 0)
             FROM request WHERE item_type = $1 AND state = 'WAITING'";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = one(c, UNPLANNED, &[&item_type.as_str()]).await?;
                    Ok(Unplanned {
                        requests: row.get::<_, i64>(0).unsigned_abs(),
                        since: row.get::<_, Option<Us>>(1).map(|us| us.0),
                        lines: row.get::<_, i64>(2).unsigned_abs(),
                        failing: row.get::<_, i64>(3).unsigned_abs(),
                    })
                })
            })
            .await
    }
}

impl PostgresStore {
    async fn look(&self, sql: &'static str, item: &Item, tries: u32) -> StoreResult<u64> {
        let item = item.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
                    let (tries, pause) = (i64::from(tries), micros(LOOK_AFTER));
                    execute(c, sql, &[&kind, &id, &tries, &pause]).await
                })
            })
            .await
    }
}

/// One statement: durable with it, without a transaction around.
async fn accept(c: &impl GenericClient, request: &NewRequest) -> StoreResult<Acceptance> {
    const ACCEPT: &str = "INSERT INTO request AS r (item_type, item_id, state, content_hash,
             amount_minor, currency, document, details, correction, tries, failed_try, accepted_at,
             due_at)
         SELECT $1, $2, 'WAITING', $3, $4, $5, $6, '{}', 1, 1, 0, t.at, t.at + $7
         FROM (SELECT tg_now()) t (at)
         WHERE NOT EXISTS (SELECT 1 FROM item_queue WHERE item_type = $1 AND item_id = $2)
         ON CONFLICT (item_type, item_id) DO UPDATE SET
             state = 'WAITING', content_hash = excluded.content_hash,
             amount_minor = excluded.amount_minor, currency = excluded.currency,
             document = excluded.document, details = '{}', invalid = false, correction = r.correction + 1,
             tries = 1, failed_try = 0, last_error = NULL, init_workflow_id = NULL, moved_to = NULL,
             accepted_at = excluded.accepted_at, due_at = excluded.due_at
         WHERE r.state = 'REFUSED' AND (r.content_hash <> excluded.content_hash OR $8)
         RETURNING item_id, state, content_hash, amount_minor, currency, document, details,
             correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
             moved_to";
    let (item, money) = (&request.item, request.money);
    let params: Params<'_> = &[
        &item.item_type.as_str(),
        &item.id.as_str(),
        &request.content_hash,
        &money.minor,
        &money.currency.code(),
        &request.document,
        &micros(LOOK_AFTER),
        &request.again,
    ];
    if let Some(row) = optional(c, ACCEPT, params).await? {
        return Ok(Acceptance::New(view_from(&row)?));
    }
    match view(c, item).await? {
        Some(known) => Ok(Acceptance::Known(known)),
        None => Ok(Acceptance::Planned),
    }
}

async fn view(c: &impl GenericClient, item: &Item) -> StoreResult<Option<RequestView>> {
    let row = optional(c, VIEW, &[&item.item_type.as_str(), &item.id.as_str()]).await?;
    row.map(|row| view_from(&row)).transpose()
}

async fn failed(
    tx: &Transaction<'_>,
    item: &Item,
    content_hash: &str,
    why: &str,
) -> StoreResult<Option<u32>> {
    const TRIES: &str = "SELECT tries FROM request WHERE item_type = $1 AND item_id = $2
           AND content_hash = $3 AND state = 'WAITING' FOR UPDATE";
    const FAILED: &str = "UPDATE request SET failed_try = tries, last_error = $3,
                due_at = tg_now() + $4
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let Some(row) = optional(tx, TRIES, &[&kind, &id, &content_hash]).await? else {
        return Ok(None);
    };
    let Count(tries) = row.get(0);
    let pause = micros(RETRIES.pause_after(tries));
    execute(tx, FAILED, &[&kind, &id, &why, &pause]).await?;
    Ok(Some(tries))
}

async fn refuse(c: &impl GenericClient, item: &Item, refusal: &Refusal) -> StoreResult<()> {
    const REFUSE: &str = "UPDATE request SET state = 'REFUSED', document = '', details = $4,
                last_error = NULL, init_workflow_id = $5, invalid = $6
         WHERE item_type = $1 AND item_id = $2 AND content_hash = $3 AND state = 'WAITING'";
    let details = serde_json::to_string(&refusal.details)
        .map_err(|e| StoreError::Bug(format!("{item}: {e}")))?;
    let params: Params<'_> = &[
        &item.item_type.as_str(),
        &item.id.as_str(),
        &refusal.content_hash,
        &details,
        &refusal.init_flow.as_str(),
        &refusal.invalid,
    ];
    execute(c, REFUSE, params).await.map(drop)
}

async fn withdraw(tx: &Transaction<'_>, item: &Item, author: &Author) -> StoreResult<Intervened> {
    const FOUND: &str =
        "SELECT state FROM request WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    const WITHDRAW: &str =
        "UPDATE request SET state = 'CANCELLED', document = '', last_error = NULL
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let Some(row) = optional(tx, FOUND, &[&kind, &id]).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    let state = word(&row, 0, RequestState::parse)?;
    if state != RequestState::Waiting {
        return Ok(not_waiting(state));
    }
    execute(tx, WITHDRAW, &[&kind, &id]).await?;
    let entry = Entry {
        item: Some(item),
        action: "CANCELLED",
        before: Some("INITIALIZING"),
        after: Some("CANCELLED"),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}

async fn move_to(
    tx: &Transaction<'_>,
    item: &Item,
    to: Us,
    author: &Author,
) -> StoreResult<Intervened> {
    const FOUND: &str =
        "SELECT state FROM request WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    const MOVE: &str = "UPDATE request SET moved_to = $3 WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let Some(row) = optional(tx, FOUND, &[&kind, &id]).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    let state = word(&row, 0, RequestState::parse)?;
    if state != RequestState::Waiting {
        return Ok(not_waiting(state));
    }
    execute(tx, MOVE, &[&kind, &id, &to]).await?;
    let entry = Entry {
        item: Some(item),
        action: "RESCHEDULED",
        before: Some("INITIALIZING"),
        after: Some("INITIALIZING"),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}

fn view_from(row: &Row) -> StoreResult<RequestView> {
    let code: &str = row.get(4);
    let currency =
        Currency::from_code(code).ok_or_else(|| StoreError::Bug(unknown_word("currency", code)))?;
    let minor = row.get(3);
    Ok(RequestView {
        id: ItemId::new(row.get::<_, String>(0)),
        state: word(row, 1, RequestState::parse)?,
        content_hash: row.get(2),
        money: Money { minor, currency },
        document: row.get(5),
        details: details(row.get(6))?,
        invalid: row.get(13),
        correction: row.get::<_, Count>(7).0,
        tries: row.get::<_, Count>(8).0,
        failed_try: row.get::<_, Count>(9).0,
        last_error: row.get(10),
        accepted_at: row.get::<_, Us>(11).0,
        due: row.get::<_, Us>(12).0,
        moved_to: row.get::<_, Option<Us>>(14).map(|us| us.0),
    })
}

fn details(json: &str) -> StoreResult<Details> {
    serde_json::from_str(json).map_err(|e| StoreError::Bug(format!("details of a request: {e}")))
}

/// The requests that the admission of items finds under their ids. Held until it ends, in the order of ids: nobody
/// withdraws what is being planned.
pub(super) async fn found(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    items: &[NewItem],
) -> StoreResult<HashMap<ItemId, FoundRequest>> {
    const FOUND: &str = "SELECT item_id, state, content_hash, init_workflow_id, details, moved_to
         FROM request WHERE item_type = $1 AND item_id = ANY($2) ORDER BY item_id FOR UPDATE";
    let ids = items.iter().map(|item| item.id.as_str());
    let ids: Vec<&str> = ids.filter(|id| !id.contains('\0')).collect();
    let rows = all(tx, FOUND, &[&item_type.as_str(), &ids]).await?;
    let one = |row: &Row| {
        let found = FoundRequest {
            state: word(row, 1, RequestState::parse)?,
            content_hash: row.get(2),
            init_flow: row.get::<_, Option<String>>(3).map(FlowId::new),
            details: details(row.get(4))?,
            moved_to: row.get::<_, Option<Us>>(5).map(|us| us.0),
        };
        Ok((ItemId::new(row.get::<_, String>(0)), found))
    };
    rows.iter().map(one).collect()
}

/// Ends the requests of items as their admission went.
pub(super) async fn end(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    found: &HashMap<ItemId, FoundRequest>,
    said: impl Iterator<Item = (&NewItem, &Admission)>,
) -> StoreResult<()> {
    const END: &str = "DELETE FROM request
         WHERE item_type = $1 AND item_id = ANY($2) AND state = 'WAITING'";
    if found.is_empty() {
        return Ok(());
    }
    let mut planned: Vec<&str> = vec![];
    for (item, said) in said {
        let is_its_own = |found: &FoundRequest| found.is_for(item);
        if !found.get(&item.id).is_some_and(is_its_own) {
            continue;
        }
        let Some(details) = said.refusal() else {
            planned.push(item.id.as_str());
            continue;
        };
        let refusal = Refusal {
            content_hash: item.record.content_hash.clone(),
            init_flow: item.init_flow.clone(),
            details,
            invalid: false,
        };
        refuse(tx, &Item::new(item_type, &item.id), &refusal).await?;
    }
    if planned.is_empty() {
        return Ok(());
    }
    execute(tx, END, &[&item_type.as_str(), &planned])
        .await
        .map(drop)
}
