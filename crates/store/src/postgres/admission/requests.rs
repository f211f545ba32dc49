//! Requests, as the admission of their items meets them.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::details::Details;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType};
use tollgate_core::ports::{
    Admission, FoundRequest, NewItem, Refusal, RequestState, StoreError, StoreResult,
};

use crate::cold::requests::refuse;
use crate::postgres::connection::perform::perform;
use crate::postgres::connection::run::{all, execute};
use crate::postgres::connection::value::{Us, word};
use crate::sql::Dialogue;

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
    read(tx, FOUND, item_type, ids.collect()).await
}

/// Requests that were accepted after [`found`] had looked, read once the lanes are locked. From then on no request is withdrawn or
/// moved until this admission ends: that needs all lanes (`cold/requests.rs`). They are not held, since who withdraws one
/// holds it while it waits for our lanes; their own tries end them.
pub(super) async fn since_found(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    ids: &HashSet<ItemId>,
    found: &HashMap<ItemId, FoundRequest>,
) -> StoreResult<HashMap<ItemId, FoundRequest>> {
    const SEEN: &str = "SELECT item_id, state, content_hash, init_workflow_id, details, moved_to
         FROM request WHERE item_type = $1 AND item_id = ANY($2)";
    let ids = ids.iter().filter(|id| !found.contains_key(*id));
    read(tx, SEEN, item_type, ids.map(ItemId::as_str).collect()).await
}

async fn read(
    tx: &Transaction<'_>,
    sql: &str,
    item_type: &ItemType,
    ids: Vec<&str>,
) -> StoreResult<HashMap<ItemId, FoundRequest>> {
    let ids: Vec<&str> = ids.into_iter().filter(|id| !id.contains('\0')).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = all(tx, sql, &[&item_type.as_str(), &ids]).await?;
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

/// Ends the requests that are held as the admission of their items went.
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
        let item = Item::new(item_type, &item.id);
        let refuse = Dialogue::with(move |tx| async move { refuse(&tx, &item, &refusal).await });
        perform(tx, refuse).await?;
    }
    if planned.is_empty() {
        return Ok(());
    }
    execute(tx, END, &[&item_type.as_str(), &planned])
        .await
        .map(drop)
}

fn details(json: &str) -> StoreResult<Details> {
    serde_json::from_str(json).map_err(|e| StoreError::Bug(format!("details of a request: {e}")))
}
