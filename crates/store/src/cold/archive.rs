//! The archive: the move into it, its days, and what is known of ids after that (docs/decisions/0062).
//!
//! Where the lines lie is a matter of the database: a table with a partition for each day on PostgreSQL, a file for each
//! month on SQLite. The statements about them are the same.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayState, DayView};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    Archive, ArchiveSizes, ItemView, Known, KnownAsked, MoveWanted, Moved, Old, StoreResult,
};

use super::archive_lines::{ids_json, item_from, line_from, lines};
use super::archive_move::{next, take_out, write_lines};
use super::archive_restore::{check_hot, check_page, put_lines, rewrite_lines};
use super::archive_sizes::sizes;
use super::archive_sums::Accounting;
use super::archive_turns::move_calls;
use super::{archive_days, known, old};
use crate::edges::edge;
use crate::sql::{Dialogue, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

/// Lines of a day that are looked at together.
const PAGE: u32 = 500;

#[async_trait]
impl<D: Database> Archive for StoreOn<D> {
    async fn prepare_days(
        &self,
        item_type: &ItemType,
        from: ArchiveDay,
        to: ArchiveDay,
    ) -> StoreResult<u64> {
        const MAKE: Sql = Sql::each("", "SELECT tg_archive_make($1, $2) AS made");
        if D::ARCHIVE_APART {
            return Ok(0);
        }
        let mut made = 0;
        for day in from.number()..=to.number() {
            let wanted = params![item_type, day];
            // A transaction for each, so that its locks are short.
            let is_new = self.write(Urgency::Normal, move |tx| async move {
                tx.one(MAKE, wanted).await?.get::<bool>("made")
            });
            made += u64::from(is_new.await?);
        }
        Ok(made)
    }

    async fn move_ended(&self, wanted: MoveWanted) -> StoreResult<Moved> {
        let asked = wanted.clone();
        let found = self
            .read(move |tx| async move { next(&tx, &asked).await })
            .await?;
        let (ids, mut said) = (found.ids, found.said);
        if ids.is_empty() {
            return Ok(said);
        }
        let copied = if D::ARCHIVE_APART {
            let copied = self.copy_apart(&wanted.item_type, &ids).await?;
            edge("move-copied");
            Some(copied)
        } else {
            None
        };
        let taken = self.write_as_node(Urgency::Normal, move |tx| async move {
            take_out(&tx, &wanted, &ids, copied.as_deref()).await
        });
        said.moved = taken.await?;
        edge("move-committed");
        Ok(said)
    }

    async fn move_calls(&self, before: Timestamp, at_most: u32) -> StoreResult<u64> {
        self.write_as_node(Urgency::Normal, move |tx| async move {
            move_calls(&tx, before, at_most).await
        })
        .await
    }

    async fn close_days(&self, item_type: &ItemType, before: ArchiveDay) -> StoreResult<u64> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let closed = archive_days::close(&tx, &item_type, before).await;
            if !D::ARCHIVE_APART {
                archive_days::prune(&tx, &item_type, before).await?;
            }
            Ok(closed)
        })
        .await
    }

    async fn known(&self, asked: Vec<KnownAsked>) -> StoreResult<Vec<Option<Known>>> {
        self.read(move |tx| async move {
            let mut answers = Vec::with_capacity(asked.len());
            for asked in &asked {
                answers.push(known::known(&tx, asked).await?);
            }
            Ok(answers)
        })
        .await
    }

    async fn archived_item(&self, item: &Item) -> StoreResult<Option<ArchivedItem>> {
        let line = match self.day_of(item).await? {
            Some(day) => self.line_on(item, day).await?,
            None => self.line_somewhere(item).await?,
        };
        line.as_deref().map(item_from).transpose()
    }

    async fn archived_day(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
    ) -> StoreResult<Option<DayView>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { archive_days::view(&tx, &item_type, day).await })
            .await
    }

    async fn archived_days(
        &self,
        item_type: &ItemType,
        after: Option<ArchiveDay>,
        limit: u32,
    ) -> StoreResult<Vec<DayView>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { archive_days::views(&tx, &item_type, after, limit).await })
            .await
    }

    async fn archived_lines(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<String>> {
        const LINES: &str = "SELECT line FROM archived_item
             WHERE item_type = $1 AND day = $2 AND item_id > $3 ORDER BY item_id LIMIT $4";
        let after = after.map_or("", ItemId::as_str);
        let wanted = params![item_type, day.number(), after, limit];
        let read = self.read_archive(day, move |tx| async move {
            tx.rows(LINES, wanted).await.iter().map(line_from).collect()
        });
        Ok(read.await?.unwrap_or_default())
    }

    async fn mark_exported(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        export: DayExport,
    ) -> StoreResult<bool> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            Ok(archive_days::mark(&tx, &item_type, day, &export).await)
        })
        .await
    }

    async fn drop_day(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<bool> {
        let kind = item_type.clone();
        let dropped = self.write(Urgency::Normal, move |tx| async move {
            drop_day(&tx, &kind, day, D::ARCHIVE_APART).await
        });
        let dropped = dropped.await?;
        if dropped && D::ARCHIVE_APART {
            self.delete_lines(item_type, day).await?;
        }
        Ok(dropped)
    }

    async fn restore_items(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        items: Vec<ArchivedItem>,
        remembered: bool,
    ) -> StoreResult<()> {
        check_page(item_type, day, &items)?;
        self.prepare_days(item_type, day, day).await?;
        let (kind, page) = (item_type.clone(), items.clone());
        self.read(move |tx| async move { check_hot(&tx, &kind, &page).await })
            .await?;
        let page = items.clone();
        self.write_archive(day, move |tx| async move { put_lines(&tx, &page).await })
            .await?;
        let kind = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            archive_days::restoring(&tx, &kind, day).await;
            if remembered {
                known::remember(&tx, &items).await;
            }
            Ok(())
        })
        .await
    }

    async fn complete_day(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        export: Option<DayExport>,
    ) -> StoreResult<()> {
        let mut accounting = Accounting::default();
        let mut after: Option<ItemId> = None;
        loop {
            let page = self.archived_lines(item_type, day, after.as_ref(), PAGE);
            let page = page.await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some(item_from(last)?.id);
            for line in &page {
                accounting.add(&item_from(line)?);
            }
        }
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            archive_days::restoring(&tx, &item_type, day).await;
            archive_days::held(&tx, &item_type, day).await?;
            archive_days::unaccount(&tx, &item_type, day).await;
            accounting.write(&tx, &item_type).await;
            archive_days::restored(&tx, &item_type, day, export.as_ref()).await;
            Ok(())
        })
        .await
    }

    async fn rewrite(&self, items: Vec<ArchivedItem>) -> StoreResult<u64> {
        let mut by_day: BTreeMap<ArchiveDay, Vec<ArchivedItem>> = BTreeMap::new();
        for item in &items {
            by_day.entry(item.day()).or_default().push(item.clone());
        }
        let mut changed = 0;
        for (day, page) in by_day {
            if D::ARCHIVE_APART && !self.0.archive_months()?.contains(&day.month()) {
                continue;
            }
            let rewrite = move |tx: Tx| async move { rewrite_lines(&tx, &page).await };
            changed += self.write_archive(day, rewrite).await?;
        }
        let erased = items.iter().filter(|item| item.content_hash.is_none());
        let erased: Vec<Item> = erased.map(ArchivedItem::item).collect();
        self.write(Urgency::Normal, move |tx| async move {
            known::erase(&tx, &erased).await;
            Ok(())
        })
        .await?;
        Ok(changed)
    }

    async fn forget_known(
        &self,
        item_type: &ItemType,
        before: ArchiveDay,
        at_most: u32,
    ) -> StoreResult<u64> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            if !archive_days::any_before(&tx, &item_type, before).await {
                return Ok(0);
            }
            let forgotten = known::forget(&tx, before, at_most).await;
            if forgotten == 0 {
                archive_days::forget(&tx, &item_type, before).await;
            }
            Ok(forgotten)
        })
        .await
    }

    async fn forget_old(&self, what: Old, before: Timestamp, at_most: u32) -> StoreResult<u64> {
        self.write(Urgency::Normal, move |tx| async move {
            old::forget(&tx, what, before, at_most).await
        })
        .await
    }

    async fn give_back_space(&self) -> StoreResult<bool> {
        if !D::ARCHIVE_APART {
            return Ok(false);
        }
        self.write(
            Urgency::Normal,
            |tx| async move { old::give_back(&tx).await },
        )
        .await
    }

    async fn archive_sizes(&self, item_types: &[ItemType]) -> StoreResult<ArchiveSizes> {
        let types = item_types.to_vec();
        let read = self.read(move |tx| async move { sizes(&tx, &types).await });
        let mut sizes = read.await?;
        if let Some(apart) = self.0.archive_bytes()? {
            sizes.archive_bytes = apart;
            sizes.store_bytes += apart;
        }
        Ok(sizes)
    }
}

impl<D: Database> StoreOn<D> {
    /// None if there is nothing of that month.
    async fn read_archive<T, F>(
        &self,
        day: ArchiveDay,
        use_case: impl FnOnce(Tx) -> F,
    ) -> StoreResult<Option<T>>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.0
            .read_archive(day.month(), Dialogue::with(use_case))
            .await
    }

    async fn write_archive<T, F>(
        &self,
        day: ArchiveDay,
        use_case: impl FnOnce(Tx) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.0
            .write_archive(day.month(), Dialogue::with(use_case))
            .await
    }

    /// Copies items into the files of their months. They stay where they are.
    async fn copy_apart(
        &self,
        item_type: &ItemType,
        ids: &[ItemId],
    ) -> StoreResult<Vec<ArchivedItem>> {
        let (kind, ids) = (item_type.clone(), ids_json(ids.iter())?);
        let read = self.read(move |tx| async move { lines(&tx, &kind, &ids).await });
        let items = read.await?;
        let days: BTreeSet<ArchiveDay> = items.iter().map(ArchivedItem::day).collect();
        for day in days {
            let of_day = items.iter().filter(|item| item.day() == day);
            let of_day: Vec<ArchivedItem> = of_day.cloned().collect();
            let copy = move |tx: Tx| async move { write_lines(&tx, &of_day).await };
            self.write_archive(day, copy).await?;
        }
        Ok(items)
    }

    /// An item of the archive whose id is remembered.
    pub(crate) async fn remembered(&self, item: &Item) -> StoreResult<Option<ItemView>> {
        let Some(day) = self.day_of(item).await? else {
            return Ok(None);
        };
        let Some(line) = self.line_on(item, day).await? else {
            return Ok(None);
        };
        item_from(&line).and_then(ItemView::of_archived).map(Some)
    }

    async fn day_of(&self, item: &Item) -> StoreResult<Option<ArchiveDay>> {
        let asked = KnownAsked {
            item: item.clone(),
            content_hash: String::new(),
        };
        let known = self.known(vec![asked]).await?.into_iter().next().flatten();
        Ok(known.map(|known| known.day))
    }

    async fn line_on(&self, item: &Item, day: ArchiveDay) -> StoreResult<Option<String>> {
        const LINE: &str = "SELECT line FROM archived_item
             WHERE item_type = $1 AND day = $2 AND item_id = $3";
        let wanted = params![&item.item_type, day.number(), &item.id];
        let read = self.read_archive(day, move |tx| async move {
            tx.row(LINE, wanted)
                .await
                .as_ref()
                .map(line_from)
                .transpose()
        });
        Ok(read.await?.flatten())
    }

    /// For types of which no row stays: day by day, the newest first.
    async fn line_somewhere(&self, item: &Item) -> StoreResult<Option<String>> {
        const DAYS: &str = "SELECT day FROM archived_day
             WHERE item_type = $1 AND state <> 'DROPPED' ORDER BY day DESC";
        let wanted = params![&item.item_type];
        let days = self.read(move |tx| async move {
            let rows = tx.rows(DAYS, wanted).await;
            rows.iter()
                .map(|row| known::day_from(row, "day"))
                .collect::<StoreResult<Vec<_>>>()
        });
        for day in days.await? {
            if let Some(line) = self.line_on(item, day).await? {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// A few at a time, and the file goes with its last line.
    async fn delete_lines(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<()> {
        // PostgreSQL drops the whole partition.
        const DELETE: Sql = Sql::each(
            "DELETE FROM archived_item WHERE rowid IN (SELECT rowid FROM archived_item
                 WHERE item_type = $1 AND day = $2 LIMIT $3)",
            "",
        );
        if !self.0.archive_months()?.contains(&day.month()) {
            return Ok(());
        }
        loop {
            let wanted = params![item_type, day.number(), PAGE];
            let delete = move |tx: Tx| async move { Ok(tx.execute(DELETE, wanted).await) };
            if self.write_archive(day, delete).await? < u64::from(PAGE) {
                break;
            }
        }
        self.0.give_back_archive(day.month()).await
    }
}

async fn drop_day(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
    apart: bool,
) -> StoreResult<bool> {
    const DROP: Sql = Sql::each("", "SELECT tg_archive_drop($1, $2) AS dropped");
    let state = archive_days::held(tx, item_type, day).await?;
    if !matches!(state, Some(DayState::Exported | DayState::Dropped)) {
        return Ok(false);
    }
    archive_days::dropped(tx, item_type, day).await;
    if !apart {
        tx.one(DROP, params![item_type, day.number()]).await?;
    }
    Ok(true)
}
