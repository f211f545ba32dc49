//! Days of the archive that are not in order.

use async_trait::async_trait;
use tollgate_core::archive::{ArchiveDay, DayStep, DayTrouble};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{DayTroubles, StoreResult};

use super::known::day_from;
use crate::sql::{Row, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> DayTroubles for StoreOn<D> {
    async fn note_day_trouble(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        step: DayStep,
        why: &str,
    ) -> StoreResult<()> {
        const NOTE: &str = "INSERT INTO archive_trouble (item_type, day, step, why, since)
             VALUES ($1, $2, $3, $4, tg_now())
             ON CONFLICT (item_type, day, step) DO UPDATE SET why = excluded.why";
        let (item_type, why) = (item_type.clone(), why.to_owned());
        self.write(Urgency::Normal, move |tx| async move {
            let others = step.ends().iter().filter(|other| **other != step);
            end(&tx, &item_type, day, others.copied().collect()).await;
            let noted = params![&item_type, day.number(), step.as_str(), why];
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn end_day_trouble(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        step: DayStep,
    ) -> StoreResult<bool> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            Ok(end(&tx, &item_type, day, step.ends().to_vec()).await > 0)
        })
        .await
    }

    async fn day_troubles(&self, limit: u32) -> StoreResult<Vec<DayTrouble>> {
        const TROUBLES: &str = "SELECT item_type, day, step, why, since FROM archive_trouble
             ORDER BY day, item_type, step LIMIT $1";
        let wanted = params![limit];
        self.read(move |tx| async move {
            let rows = tx.rows(TROUBLES, wanted).await;
            rows.iter().map(trouble_from).collect()
        })
        .await
    }
}

async fn end(tx: &Tx, item_type: &ItemType, day: ArchiveDay, steps: Vec<DayStep>) -> u64 {
    const END: &str = "DELETE FROM archive_trouble WHERE item_type = $1 AND day = $2 AND step = $3";
    let ended = |step: DayStep| params![item_type, day.number(), step.as_str()];
    tx.execute_each(END, steps.into_iter().map(ended).collect())
        .await
}

fn trouble_from(row: &Row) -> StoreResult<DayTrouble> {
    Ok(DayTrouble {
        item_type: row.get("item_type")?,
        day: day_from(row, "day")?,
        step: row.word("step", DayStep::parse)?,
        why: row.get("why")?,
        since: row.get("since")?,
    })
}
