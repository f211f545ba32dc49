//! Notifications about erased payments. No index knows which payment one is about, so they are read in pages.

use tollgate_core::erasure::EraseBody;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{ErasureView, StoreResult};

use super::items::{erase_about, erase_flows};
use super::json;
use crate::cold::archive::known::erased_in_archive;
use crate::sql::{Row, Sql, Tx, params};

pub(super) struct Page {
    pub(super) erased: u64,
    /// Where the next one begins; none at the end.
    pub(super) last: Option<String>,
}

pub(super) async fn page(
    tx: &Tx,
    erasure: &ErasureView,
    limit: u32,
    body: EraseBody,
) -> StoreResult<Page> {
    const PAGE: &str = "SELECT b.item_id, b.body, q.finished_at IS NOT NULL AS has_ended
         FROM item_body b
         JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id
         WHERE b.item_type = 'NOTIFICATION' AND b.item_id > $1 ORDER BY b.item_id LIMIT $2";
    let rows = tx.rows(PAGE, params![&erasure.after, limit]).await;
    let about = |row: &Row| Ok(payment_in(&row.get::<String>("body")?).unwrap_or_default());
    let about = rows
        .iter()
        .map(about)
        .collect::<StoreResult<Vec<String>>>()?;
    let payment = ItemType::new("PAYMENT");
    let erased_payments = erased_among(tx, &payment, &about).await?;
    let mut erased = 0;
    for (row, payment) in rows.iter().zip(&about) {
        if !erased_payments.contains(payment) {
            continue;
        }
        let item = Item::new(&ItemType::new("NOTIFICATION"), &row.get("item_id")?);
        let was: String = row.get("body")?;
        erased += u64::from(erase(tx, &item, &was, row.get("has_ended")?, body).await);
    }
    let last = rows.last().map(|row| row.get("item_id")).transpose()?;
    Ok(Page { erased, last })
}

/// One that is still to be delivered keeps what delivers it, and is delivered without what goes. Its hash is of ids.
async fn erase(tx: &Tx, item: &Item, was: &str, has_ended: bool, body: EraseBody) -> bool {
    const BODY: &str = "UPDATE item_body SET body = $3
         WHERE item_type = $1 AND item_id = $2 AND body <> $3";
    const ROW: &str = "UPDATE item_queue SET last_error = NULL
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (&item.item_type, &item.id);
    let written = params![kind, id, body(kind, was)];
    let is_new = tx.execute(BODY, written).await > 0;
    if has_ended && is_new {
        tx.execute(ROW, params![kind, id]).await;
        erase_about(tx, item).await;
        erase_flows(tx, item).await;
    }
    is_new
}

/// The id of the payment that a notification is about, in the message that it posts.
fn payment_in(body: &str) -> Option<String> {
    let context: serde_json::Value = serde_json::from_str(body).ok()?;
    let message = context["body"].as_str()?;
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message["data"]["paymentId"].as_str().map(str::to_owned)
}

/// Which of these were erased, be they hot or in the archive.
pub(super) async fn erased_among(
    tx: &Tx,
    item_type: &ItemType,
    ids: &[String],
) -> StoreResult<Vec<String>> {
    const ERASED: Sql = Sql::each(
        "SELECT b.item_id FROM json_each($2) w
         CROSS JOIN item_body b ON b.item_type = $1 AND b.item_id = w.value
         WHERE b.content_hash = 'erased'",
        "SELECT b.item_id FROM json_array_elements_text(CAST(CAST($2 AS text) AS json)) AS w (item_id)
         JOIN item_body b ON b.item_type = $1 AND b.item_id = w.item_id
         WHERE b.content_hash = 'erased'",
    );
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let rows = tx.rows(ERASED, params![item_type, json(&ids)?]).await;
    let id = |row: &Row| row.get::<ItemId>("item_id").map(|id| id.to_string());
    let hot = rows.iter().map(id).collect::<StoreResult<Vec<String>>>()?;
    Ok([hot, erased_in_archive(tx, item_type, ids).await?].concat())
}
