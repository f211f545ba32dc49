//! What is held, as a bucket of its own in the control totals.

use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{IN_DOUBT, StoreResult, Total};

use crate::sql::{Params, Sql, Tx};

/// Takes what is held out of the buckets of its statuses, unless it is in doubt, and puts it into one of its own: as
/// many as before are counted, and each once. Wanted are an item type and a stretch of time, as for the totals.
pub(crate) async fn held_apart(
    tx: &Tx,
    wanted: Params,
    mut totals: Vec<Total>,
) -> StoreResult<Vec<Total>> {
    const HELD: Sql = Sql::each(
        "SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount
         FROM item_queue INDEXED BY item_queue_held_due
         WHERE item_type = $1 AND queue_status = 'HELD'
           AND created_at >= $2 AND created_at < $3
         GROUP BY status, currency",
        "SELECT status, currency, count(*) AS n, sum(amount_minor)::bigint AS amount
         FROM item_queue
         WHERE item_type = $1 AND queue_part = 'H'
           AND created_at >= $2 AND created_at < $3
         GROUP BY status, currency",
    );
    for row in tx.rows(HELD, wanted).await {
        let part = Total {
            status: row.get("status")?,
            currency: row.get("currency")?,
            count: row.get("n")?,
            amount_minor: row.get("amount")?,
        };
        if part.status != IN_DOUBT {
            move_to_held(&mut totals, &part);
        }
    }
    totals.retain(|total| total.count > 0);
    totals.sort_by(|a, b| (&a.status, &a.currency).cmp(&(&b.status, &b.currency)));
    Ok(totals)
}

/// What was released since its status was counted stays where it was.
fn move_to_held(totals: &mut Vec<Total>, part: &Total) {
    let counted = totals
        .iter_mut()
        .find(|it| it.status == part.status && it.currency == part.currency);
    let Some(from) = counted.filter(|it| it.count >= part.count) else {
        return;
    };
    from.count -= part.count;
    from.amount_minor -= part.amount_minor;
    let held = QueueStatus::Held.as_str();
    let known = totals
        .iter_mut()
        .find(|it| it.status == held && it.currency == part.currency);
    match known {
        Some(known) => {
            known.count += part.count;
            known.amount_minor += part.amount_minor;
        }
        None => totals.push(Total {
            status: held.to_owned(),
            ..part.clone()
        }),
    }
}
