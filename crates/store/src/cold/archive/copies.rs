//! Copies that a move has left in the file of a month without taking their items out of the hot tables: what changed
//! between the two, and what a crash left. They would count as items of their day that were neither exported nor restored.
//!
//! They are in open days only: a day that was closed is opened again before anything is copied into it. Each is deleted only
//! as it was written, and never beside a move (`Database::alone_in_archive`). PostgreSQL has no copies.

use std::collections::{BTreeMap, HashSet};

use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::{ItemId, ItemType};
use tollgate_core::ports::{Archive, StoreResult};

use super::known;
use super::lines::{ids_json, item_from, packed};
use super::places::PAGE;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};

impl<D: Database> StoreOn<D> {
    /// What was copied and not taken.
    pub(super) async fn delete_untaken(
        &self,
        copied: &[ArchivedItem],
        taken: &[ArchivedItem],
    ) -> StoreResult<()> {
        let taken: HashSet<&ItemId> = taken.iter().map(|item| &item.id).collect();
        let left = copied.iter().filter(|item| !taken.contains(&item.id));
        self.delete_copies(left.cloned().collect()).await
    }

    /// Of open days before this one: lines whose items are hot, or known from another day.
    pub(super) async fn delete_left_copies(
        &self,
        item_type: &ItemType,
        before: ArchiveDay,
    ) -> StoreResult<()> {
        let kind = item_type.clone();
        let open = self.read(move |tx| async move { open_days(&tx, &kind, before).await });
        for (day, items) in open.await? {
            // Nearly always these are as many, and nothing is to be read.
            if self.count_lines(item_type, day).await? > items {
                self.delete_left_on(item_type, day).await?;
            }
        }
        Ok(())
    }

    async fn count_lines(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<u64> {
        const COUNT: Sql = Sql::each(
            "SELECT count(*) AS n FROM archived_item
             WHERE item_type = $1 AND day = $2",
            "",
        );
        let wanted = params![item_type, day.number()];
        let counted = self.read_archive(day, move |tx| async move {
            tx.one(COUNT, wanted).await?.get("n")
        });
        Ok(counted.await?.unwrap_or_default())
    }

    async fn delete_left_on(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<()> {
        let mut after: Option<ItemId> = None;
        loop {
            let lines = self.archived_lines(item_type, day, after.as_ref(), PAGE);
            let items = lines.await?;
            let items = items.iter().map(|line| item_from(line));
            let items = items.collect::<StoreResult<Vec<ArchivedItem>>>()?;
            let Some(last) = items.last() else {
                return Ok(());
            };
            after = Some(last.id.clone());
            let left = self.read(move |tx| async move { left_behind(&tx, items).await });
            self.delete_copies(left.await?).await?;
        }
    }

    async fn delete_copies(&self, items: Vec<ArchivedItem>) -> StoreResult<()> {
        const DELETE: Sql = Sql::each(
            "DELETE FROM archived_item
             WHERE item_type = $1 AND day = $2 AND item_id = $3 AND line = $4",
            "",
        );
        let mut by_day: BTreeMap<ArchiveDay, Vec<ArchivedItem>> = BTreeMap::new();
        for item in items {
            by_day.entry(item.day()).or_default().push(item);
        }
        for (day, items) in by_day {
            let delete = move |tx: Tx| async move {
                let mut rows = vec![];
                for item in &items {
                    let day = item.day().number();
                    rows.push(params![&item.item_type, day, &item.id, packed(item)?]);
                }
                Ok(tx.execute_each(DELETE, rows).await)
            };
            self.write_archive(day, delete).await?;
            self.0.give_back_archive(day.month()).await?;
        }
        Ok(())
    }
}

/// How many items were moved into each.
async fn open_days(
    tx: &Tx,
    item_type: &ItemType,
    before: ArchiveDay,
) -> StoreResult<Vec<(ArchiveDay, u64)>> {
    const OPEN: Sql = Sql::each(
        "SELECT d.day, coalesce((SELECT sum(s.items) FROM archived_sum s
              WHERE s.item_type = d.item_type AND s.day = d.day), 0) AS items
         FROM archived_day d WHERE d.item_type = $1 AND d.day < $2 AND d.state = 'OPEN'",
        "",
    );
    let rows = tx.rows(OPEN, params![item_type, before.number()]).await;
    let open = |row: &Row| Ok((known::day_from(row, "day")?, row.get("items")?));
    rows.iter().map(open).collect()
}

/// Which of these lines of one type are no items of their day.
async fn left_behind(tx: &Tx, items: Vec<ArchivedItem>) -> StoreResult<Vec<ArchivedItem>> {
    const HOT: Sql = Sql::each(
        "SELECT q.item_id FROM json_each($2) w
         CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value",
        "",
    );
    let Some(first) = items.first() else {
        return Ok(items);
    };
    let asked = params![&first.item_type, ids_json(items.iter().map(|it| &it.id))?];
    let hot = tx.rows(HOT, asked).await;
    let hot = hot.iter().map(|row| row.get("item_id"));
    let hot: HashSet<ItemId> = hot.collect::<StoreResult<_>>()?;
    let known = known::of_page(tx, &items).await?;
    let is_left = |item: &ArchivedItem| {
        let known = known.get(&known::key(&item.item_type, &item.id)[..]);
        hot.contains(&item.id) || known.is_some_and(|(_, day)| *day != item.day())
    };
    Ok(items.into_iter().filter(is_left).collect())
}
