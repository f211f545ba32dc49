//! Requests: accepted, tried until they are planned or refused, or withdrawn.

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Acceptance, Admission, Author, FoundRequest, Intervened, LOOK_AFTER, NewItem, NewRequest,
    RETRIES, Refusal, RequestState, RequestView, Requests, RequestsWanted, StoreResult, Unplanned,
};

use super::SqliteStore;
use super::interventions::audit_move;
use super::value::{Us, word};
use crate::requests::not_waiting;
use crate::urgency::Urgency;
use crate::value::{micros, unknown_word};

#[async_trait]
impl Requests for SqliteStore {
    async fn accept(&self, request: NewRequest) -> StoreResult<Acceptance> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| accept(c, &request, clock.now_us());
        self.writer.write(Urgency::Normal, write).await
    }

    async fn request(&self, item: &Item) -> StoreResult<Option<RequestView>> {
        let item = item.clone();
        self.readers.read(move |c| view(c, &item)).await
    }

    async fn requests_due(
        &self,
        item_type: &ItemType,
        limit: u32,
    ) -> StoreResult<Vec<RequestView>> {
        const DUE: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
                 details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to
             FROM request INDEXED BY request_due
             WHERE item_type = ?1 AND state = 'WAITING' AND due_at <= ?2
             ORDER BY due_at LIMIT ?3";
        let (item_type, now) = (item_type.clone(), self.clock.now_us());
        let read = move |c: &Connection| {
            c.prepare_cached(DUE)?
                .query_map(params![item_type.as_str(), now, limit], view_from)?
                .collect()
        };
        self.readers.read(read).await
    }

    async fn begin_try(&self, item: &Item, tries: u32) -> StoreResult<bool> {
        const BEGIN: &str = "UPDATE request SET tries = tries + 1, due_at = ?4
             WHERE item_type = ?1 AND item_id = ?2 AND tries = ?3 AND state = 'WAITING'";
        Ok(self.look(BEGIN, item, tries).await? == 1)
    }

    async fn look_later(&self, item: &Item, tries: u32) -> StoreResult<()> {
        const LATER: &str = "UPDATE request SET due_at = ?4
             WHERE item_type = ?1 AND item_id = ?2 AND tries = ?3 AND state = 'WAITING'";
        self.look(LATER, item, tries).await.map(drop)
    }

    async fn try_failed(
        &self,
        item: &Item,
        content_hash: &str,
        why: &str,
    ) -> StoreResult<Option<u32>> {
        let (item, hash, why) = (item.clone(), content_hash.to_owned(), why.to_owned());
        let clock = self.clock.clone();
        let write = move |c: &Connection| failed(c, &item, &hash, &why, clock.now_us());
        self.writer.write(Urgency::Normal, write).await
    }

    async fn refuse(&self, item: &Item, refusal: Refusal) -> StoreResult<()> {
        let item = item.clone();
        let write = move |c: &Connection| refuse(c, &item, &refusal);
        self.writer.write(Urgency::Normal, write).await
    }

    async fn withdraw(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| withdraw(c, &item, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn move_request(
        &self,
        item: &Item,
        to: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| move_to(c, &item, Us(to), &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn requests(&self, wanted: RequestsWanted) -> StoreResult<Vec<RequestView>> {
        self.readers.read(move |c| page(c, &wanted)).await
    }

    async fn unplanned(&self, item_type: &ItemType) -> StoreResult<Unplanned> {
        const UNPLANNED: &str = "SELECT count(*), min(accepted_at),
                 (SELECT coalesce(sum(lines - accepted - duplicate - rejected), 0) FROM bulk
                  WHERE item_type = ?1 AND state = 'RUNNING'),
                 count(*) FILTER (WHERE failed_try = tries)
                   + (SELECT count(*) FROM bulk_chunk k JOIN bulk b ON b.bulk_id = k.bulk_id
                      WHERE b.item_type = ?1 AND b.state = 'RUNNING' AND k.tries > 0)
             FROM request INDEXED BY request_due WHERE item_type = ?1 AND state = 'WAITING'";
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(UNPLANNED)?
                .query_row([item_type.as_str()], |row| {
                    Ok(Unplanned {
                        requests: row.get::<_, i64>(0)?.unsigned_abs(),
                        since: row.get::<_, Option<Us>>(1)?.map(|us| us.0),
                        lines: row.get::<_, i64>(2)?.unsigned_abs(),
                        failing: row.get::<_, i64>(3)?.unsigned_abs(),
                    })
                })
        };
        self.readers.read(read).await
    }
}

impl SqliteStore {
    async fn look(&self, sql: &'static str, item: &Item, tries: u32) -> StoreResult<usize> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            let due = clock.now_us().saturating_add(micros(LOOK_AFTER));
            let (kind, id) = (item.item_type.as_str(), item.id.as_str());
            c.prepare_cached(sql)?
                .execute(params![kind, id, tries, due])
        };
        self.writer.write(Urgency::Normal, write).await
    }
}

fn accept(c: &Connection, request: &NewRequest, now: i64) -> rusqlite::Result<Acceptance> {
    const ACCEPT: &str = "INSERT INTO request (item_type, item_id, state, content_hash,
             amount_minor, currency, document, details, correction, tries, failed_try, accepted_at,
             due_at)
         VALUES (?1, ?2, 'WAITING', ?3, ?4, ?5, ?6, '{}', 1, 1, 0, ?7, ?8)
         ON CONFLICT (item_type, item_id) DO UPDATE SET
             state = 'WAITING', content_hash = excluded.content_hash,
             amount_minor = excluded.amount_minor, currency = excluded.currency,
             document = excluded.document, details = '{}', invalid = 0, correction = correction + 1, tries = 1,
             failed_try = 0, last_error = NULL, init_workflow_id = NULL,
             moved_to = NULL,
             accepted_at = excluded.accepted_at, due_at = excluded.due_at
         WHERE state = 'REFUSED' AND (content_hash <> excluded.content_hash OR ?9)";
    let item = &request.item;
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let is_planned = c
        .prepare_cached("SELECT 1 FROM item_queue WHERE item_type = ?1 AND item_id = ?2")?
        .exists(params![kind, id])?;
    if is_planned {
        return Ok(Acceptance::Planned);
    }
    let accepted = c.prepare_cached(ACCEPT)?.execute(params![
        kind,
        id,
        request.content_hash,
        request.money.minor,
        request.money.currency.code(),
        request.document,
        now,
        now.saturating_add(micros(LOOK_AFTER)),
        request.again,
    ])?;
    let view = view(c, item)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(if accepted == 1 {
        Acceptance::New(view)
    } else {
        Acceptance::Known(view)
    })
}

fn view(c: &Connection, item: &Item) -> rusqlite::Result<Option<RequestView>> {
    c.prepare_cached(
        "SELECT item_id, state, content_hash, amount_minor, currency, document, details,
                correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to
         FROM request WHERE item_type = ?1 AND item_id = ?2",
    )?
    .query_row(
        params![item.item_type.as_str(), item.id.as_str()],
        view_from,
    )
    .optional()
}

fn failed(
    c: &Connection,
    item: &Item,
    content_hash: &str,
    why: &str,
    now: i64,
) -> rusqlite::Result<Option<u32>> {
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let tries: Option<u32> = c
        .prepare_cached(
            "SELECT tries FROM request WHERE item_type = ?1 AND item_id = ?2
               AND content_hash = ?3 AND state = 'WAITING'",
        )?
        .query_row(params![kind, id, content_hash], |row| row.get(0))
        .optional()?;
    let Some(tries) = tries else {
        return Ok(None);
    };
    let due = now.saturating_add(micros(RETRIES.pause_after(tries)));
    c.prepare_cached(
        "UPDATE request SET failed_try = tries, last_error = ?3, due_at = ?4
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id, why, due])?;
    Ok(Some(tries))
}

fn refuse(c: &Connection, item: &Item, refusal: &Refusal) -> rusqlite::Result<()> {
    let details = serde_json::to_string(&refusal.details)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    c.prepare_cached(
        "UPDATE request SET state = 'REFUSED', document = '', details = ?4, last_error = NULL,
                init_workflow_id = ?5, invalid = ?6
         WHERE item_type = ?1 AND item_id = ?2 AND content_hash = ?3 AND state = 'WAITING'",
    )?
    .execute(params![
        item.item_type.as_str(),
        item.id.as_str(),
        refusal.content_hash,
        details,
        refusal.init_flow.as_str(),
        refusal.invalid
    ])
    .map(drop)
}

fn withdraw(c: &Connection, item: &Item, author: &Author, now: Us) -> rusqlite::Result<Intervened> {
    let Some(found) = view(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if found.state != RequestState::Waiting {
        return Ok(not_waiting(found.state));
    }
    c.prepare_cached(
        "UPDATE request SET state = 'CANCELLED', document = '', last_error = NULL
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str()])?;
    audit_move(
        c,
        item,
        "CANCELLED",
        "INITIALIZING",
        "CANCELLED",
        author,
        now,
    )?;
    Ok(Intervened::Yes)
}

fn move_to(
    c: &Connection,
    item: &Item,
    to: Us,
    author: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(found) = view(c, item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if found.state != RequestState::Waiting {
        return Ok(not_waiting(found.state));
    }
    c.prepare_cached("UPDATE request SET moved_to = ?3 WHERE item_type = ?1 AND item_id = ?2")?
        .execute(params![item.item_type.as_str(), item.id.as_str(), to])?;
    let (before, after) = ("INITIALIZING", "INITIALIZING");
    audit_move(c, item, "RESCHEDULED", before, after, author, now)?;
    Ok(Intervened::Yes)
}

fn page(c: &Connection, wanted: &RequestsWanted) -> rusqlite::Result<Vec<RequestView>> {
    const PAGE: &str = "SELECT item_id, state, content_hash, amount_minor, currency, document,
             details, correction, tries, failed_try, last_error, accepted_at, due_at, invalid,
                 moved_to
         FROM request INDEXED BY request_shown
         WHERE item_type = ?1 AND item_id > ?2 AND state <> 'REFUSED' AND (?3 IS NULL OR state = ?3)
         ORDER BY item_id LIMIT ?4";
    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
    let state = wanted.state.map(RequestState::as_str);
    c.prepare_cached(PAGE)?
        .query_map(
            params![wanted.item_type.as_str(), after, state, wanted.limit],
            view_from,
        )?
        .collect()
}

fn view_from(row: &Row<'_>) -> rusqlite::Result<RequestView> {
    let code: String = row.get(4)?;
    let currency = Currency::from_code(&code).ok_or_else(|| {
        let why = unknown_word("currency", &code);
        rusqlite::Error::FromSqlConversionFailure(4, Type::Text, why.into())
    })?;
    Ok(RequestView {
        id: ItemId::new(row.get::<_, String>(0)?),
        state: word(row, 1, RequestState::parse)?,
        content_hash: row.get(2)?,
        money: Money {
            minor: row.get(3)?,
            currency,
        },
        document: row.get(5)?,
        details: details(row, 6)?,
        invalid: row.get(13)?,
        correction: row.get(7)?,
        tries: row.get(8)?,
        failed_try: row.get(9)?,
        last_error: row.get(10)?,
        accepted_at: row.get::<_, Us>(11)?.0,
        due: row.get::<_, Us>(12)?.0,
        moved_to: row.get::<_, Option<Us>>(14)?.map(|us| us.0),
    })
}

fn details(row: &Row<'_>, column: usize) -> rusqlite::Result<Details> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, e.into()))
}

/// Whether any request is there at all; most batches meet none.
pub(super) fn any(c: &Connection, item_type: &ItemType) -> rusqlite::Result<bool> {
    c.prepare_cached("SELECT 1 FROM request WHERE item_type = ?1 LIMIT 1")?
        .exists([item_type.as_str()])
}

/// The request that the admission of an item finds under its id.
pub(super) fn found(
    c: &Connection,
    item_type: &ItemType,
    item: &NewItem,
) -> rusqlite::Result<Option<FoundRequest>> {
    c.prepare_cached(
        "SELECT state, content_hash, init_workflow_id, details, moved_to
         FROM request WHERE item_type = ?1 AND item_id = ?2",
    )?
    .query_row(params![item_type.as_str(), item.id.as_str()], |row| {
        Ok(FoundRequest {
            state: word(row, 0, RequestState::parse)?,
            content_hash: row.get(1)?,
            init_flow: row.get::<_, Option<String>>(2)?.map(FlowId::new),
            details: details(row, 3)?,
            moved_to: row.get::<_, Option<Us>>(4)?.map(|us| us.0),
        })
    })
    .optional()
}

/// Ends an item's request as its admission went.
pub(super) fn end(
    c: &Connection,
    item: &Item,
    new: &NewItem,
    said: &Admission,
) -> rusqlite::Result<()> {
    if let Some(details) = said.refusal() {
        let (content_hash, init_flow) = (new.record.content_hash.clone(), new.init_flow.clone());
        let refusal = Refusal {
            content_hash,
            init_flow,
            details,
            invalid: false,
        };
        return refuse(c, item, &refusal);
    }
    c.prepare_cached("DELETE FROM request WHERE item_type = ?1 AND item_id = ?2")?
        .execute(params![item.item_type.as_str(), item.id.as_str()])
        .map(drop)
}
