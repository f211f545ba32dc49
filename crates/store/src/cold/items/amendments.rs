//! Items that people put right: another body, another amount, or an end.

use async_trait::async_trait;
use tollgate_core::id::Item;
use tollgate_core::ports::{
    ActionResult, Amendment, Amendments, Author, CHANGED_MEANWHILE, StoreResult,
};

use super::operator_actions::{give_back, hold_plan_and_row, move_status};
use crate::cold::audit::audit_move;
use crate::sql::{Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Amendments for StoreOn<D> {
    async fn amend(
        &self,
        item: &Item,
        amendment: Amendment,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            amend(&tx, &item, &amendment, &author).await
        })
        .await
    }
}

async fn amend(
    tx: &Tx,
    item: &Item,
    amendment: &Amendment,
    author: &Author,
) -> StoreResult<ActionResult> {
    const BODY: &str = "UPDATE item_body SET body = $4
         WHERE item_type = $1 AND item_id = $2 AND body = $3";
    const AMOUNT: &str = "UPDATE item_queue SET updated_at = tg_now(),
                amount_minor = coalesce($3, amount_minor)
         WHERE item_type = $1 AND item_id = $2";
    let Some(found) = hold_plan_and_row(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = amendment.refusal(&found) {
        return Ok(ActionResult::Refused(why));
    }
    let (kind, id) = (&item.item_type, &item.id);
    let body = params![kind, id, &amendment.was, &amendment.body];
    if tx.execute(BODY, body).await == 0 {
        return Ok(ActionResult::Refused(CHANGED_MEANWHILE.to_owned()));
    }
    tx.execute(AMOUNT, params![kind, id, amendment.amount_minor])
        .await;
    if !found.has_ended {
        move_row(tx, item, amendment).await?;
    } else if let Some(status) = amendment.record() {
        move_status(tx, item, &found.record_status, &status).await;
    }
    let (before, after) = (
        found.queue_status.as_str(),
        amendment.after(&found).as_str(),
    );
    audit_move(tx, item, amendment.action, before, after, author).await;
    Ok(ActionResult::Yes)
}

/// Another run, so that one under way finds it taken. An end and its status are one statement: one event.
async fn move_row(tx: &Tx, item: &Item, amendment: &Amendment) -> StoreResult<()> {
    const END: &str = "UPDATE item_queue SET queue_status = 'CANCELLED', status = $4,
                finished_at = $3, run = run + 1
         WHERE item_type = $1 AND item_id = $2";
    const AGAIN: &str = "UPDATE item_queue SET run = run + 1, claimed_at = NULL,
                dispatched_at = NULL,
                queue_status = CASE WHEN queue_status IN ('CLAIMED', 'DISPATCHED') THEN 'READY'
                                    ELSE queue_status END
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (&item.item_type, &item.id);
    if let Some(ends_as) = &amendment.ends_as {
        let now = tx.now().await?;
        tx.execute(END, params![kind, id, now, ends_as]).await;
        return give_back(tx, item, now).await;
    }
    tx.execute(AGAIN, params![kind, id]).await;
    Ok(())
}
