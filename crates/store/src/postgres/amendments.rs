//! Amendments: body, amount, status and place in the queue, together.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tollgate_core::id::Item;
use tollgate_core::ports::{
    Amendment, Amendments, Author, CHANGED_MEANWHILE, Intervened, StoreResult,
};

use super::PostgresStore;
use super::interventions::{audit_move, give_back, hold_plan_and_row};
use super::records::move_status;
use super::run::execute;
use crate::urgency::Urgency;

#[async_trait]
impl Amendments for PostgresStore {
    async fn amend(
        &self,
        item: &Item,
        amendment: Amendment,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, margin) = (item.clone(), self.gate_margin);
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { amend(tx, &item, &amendment, &author, margin).await })
            })
            .await
    }
}

async fn amend(
    tx: &Transaction<'_>,
    item: &Item,
    amendment: &Amendment,
    author: &Author,
    margin: Decimal,
) -> StoreResult<Intervened> {
    const WRITE: &str = "WITH written AS (
             UPDATE item_body SET body = $4 WHERE item_type = $1 AND item_id = $2 AND body = $3
             RETURNING item_type, item_id
         )
         UPDATE item_queue q SET updated_at = tg_now(), amount_minor = coalesce($5, q.amount_minor)
         FROM written WHERE q.item_type = written.item_type AND q.item_id = written.item_id";
    let Some((found, _)) = hold_plan_and_row(tx, item, margin).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = amendment.refusal(&found) {
        return Ok(Intervened::Refused(why));
    }
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let Amendment {
        was,
        body,
        amount_minor,
        ..
    } = amendment;
    let written = execute(tx, WRITE, &[&kind, &id, was, body, amount_minor]).await?;
    if written == 0 {
        return Ok(Intervened::Refused(CHANGED_MEANWHILE.to_owned()));
    }
    if let Some(status) = amendment.record() {
        move_status(tx, item, &status).await?;
    }
    if !found.has_ended {
        move_row(tx, item, amendment).await?;
    }
    let after = amendment.after(&found).as_str();
    audit_move(tx, item, amendment.action, &found, after, author).await?;
    Ok(Intervened::Yes)
}

/// Another run, so that one under way finds it taken.
async fn move_row(tx: &Transaction<'_>, item: &Item, amendment: &Amendment) -> StoreResult<()> {
    const END: &str = "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = tg_now(),
                run = run + 1
         WHERE item_type = $1 AND item_id = $2";
    const AGAIN: &str = "UPDATE item_queue SET run = run + 1, claimed_at = NULL,
                dispatched_at = NULL,
                queue_status = CASE WHEN queue_status IN ('CLAIMED', 'DISPATCHED') THEN 'READY'
                                    ELSE queue_status END
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    if amendment.ends_as.is_some() {
        execute(tx, END, &[&kind, &id]).await?;
        return give_back(tx, item).await;
    }
    execute(tx, AGAIN, &[&kind, &id]).await.map(drop)
}
