//! Requests, as the admission of their items meets them.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::id::{FlowId, Item, ItemType};
use tollgate_core::ports::{Admission, FoundRequest, NewItem, Refusal, RequestState};

use crate::cold::requests::refuse;
use crate::sql::Dialogue;
use crate::sqlite::connection::perform::perform;
use crate::sqlite::connection::value::{Us, word};

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
        let item = item.clone();
        let refuse = Dialogue::with(move |tx| async move { refuse(&tx, &item, &refusal).await });
        // It asks for no time.
        return Ok(perform(c, &|| Timestamp::MIN, refuse)?);
    }
    c.prepare_cached("DELETE FROM request WHERE item_type = ?1 AND item_id = ?2")?
        .execute(params![item.item_type.as_str(), item.id.as_str()])
        .map(drop)
}

fn details(row: &Row<'_>, column: usize) -> rusqlite::Result<Details> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, e.into()))
}
