//! The archive: the move into it, its days, and what is known of ids after that (docs/decisions/0062).
//!
//! Where the lines lie is a matter of the database: a table with a partition for each day on PostgreSQL, a file for each
//! month on SQLite. The statements about them are the same. On PostgreSQL the schema's functions `tg_archive_…` name, make,
//! prune and drop the partitions (`migrations/postgres`).

mod copies;
mod days;
mod found;
pub(crate) mod known;
mod lines;
mod moving;
mod old;
mod places;
mod restore;
mod sizes;
mod sums;
mod troubles;
pub(crate) mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayState, DayView};
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Archive, ArchiveSizes, Era, FoundIn, Known, KnownAsked, MoveWanted, Moved, Old, RestoredFor,
    StoreResult,
};

use crate::edges::edge;
use crate::sql::{Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use lines::{item_from, line_from};
use moving::{Next, may_go, next, take_out};
use places::PAGE;
use restore::{
    begin_rewrite, check_hot, check_known, check_lines, check_page, put_lines, rewrite_lines,
};
use sizes::{parts, sizes};
use sums::Accounting;
use turns::move_calls;

/// Days up to the first without a partition.
const READY: Sql = Sql::each(
    "",
    "SELECT coalesce(min(d.day), CAST($2 AS bigint) + 31) - CAST($2 AS bigint) AS ready
     FROM generate_series(CAST($2 AS bigint), CAST($2 AS bigint) + 30) AS d (day)
     WHERE NOT EXISTS (SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
          WHERE i.inhparent = CAST('archived_item' AS regclass)
            AND c.relname = 'archived_' || lower(CAST($1 AS text)) || '_' || d.day)",
);

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

    async fn days_ready(&self, item_type: &ItemType, from: ArchiveDay) -> StoreResult<Option<u32>> {
        if D::ARCHIVE_APART {
            return Ok(None);
        }
        let wanted = params![item_type, from.number()];
        let ready = self.read(move |tx| async move { tx.one(READY, wanted).await?.get("ready") });
        Ok(Some(ready.await?))
    }

    async fn move_ended(&self, wanted: MoveWanted) -> StoreResult<Moved> {
        let _alone = self.0.alone_in_archive().await;
        let asked = wanted.clone();
        let found = self.read(move |tx| async move {
            let mut found = next(&tx, &asked, D::ARCHIVE_APART).await?;
            if D::ARCHIVE_APART {
                found.ids = may_go(&tx, &asked, &found.ids).await?;
            }
            Ok(found)
        });
        let found = found.await?;
        let Next { ids, mut said, .. } = found;
        if ids.is_empty() {
            return Ok(said);
        }
        for day in found.without_room {
            self.make_room(&wanted.item_type, day).await?;
        }
        let copied: Option<Arc<[ArchivedItem]>> = if D::ARCHIVE_APART {
            let copied = self.copy_apart(&wanted.item_type, &ids).await?;
            edge("move-copied");
            Some(copied.into())
        } else {
            None
        };
        let apart = copied.clone();
        let taken = self.write_as_node(Urgency::Normal, move |tx| async move {
            take_out(&tx, &wanted, &ids, apart.as_deref()).await
        });
        let taken = taken.await?;
        edge("move-committed");
        said.moved = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        if let Some(copied) = copied {
            self.delete_untaken(&copied, &taken).await?;
        }
        Ok(said)
    }

    async fn move_calls(&self, before: Timestamp, at_most: u32) -> StoreResult<u64> {
        self.write_as_node(Urgency::Normal, move |tx| async move {
            move_calls(&tx, before, at_most).await
        })
        .await
    }

    async fn close_days(&self, item_type: &ItemType, before: ArchiveDay) -> StoreResult<u64> {
        let _alone = self.0.alone_in_archive().await;
        if D::ARCHIVE_APART {
            self.delete_left_copies(item_type, before).await?;
        }
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let closed = days::close(&tx, &item_type, before).await;
            if !D::ARCHIVE_APART {
                days::prune(&tx, &item_type, before).await?;
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
        self.read(move |tx| async move { days::view(&tx, &item_type, day).await })
            .await
    }

    async fn archived_days(
        &self,
        item_type: &ItemType,
        after: Option<ArchiveDay>,
        limit: u32,
    ) -> StoreResult<Vec<DayView>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { days::views(&tx, &item_type, after, limit).await })
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

    async fn found_in(
        &self,
        item_type: &ItemType,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> StoreResult<FoundIn> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { found::items(&tx, &item_type, from, to).await })
            .await
    }

    async fn turns_in(
        &self,
        lane: &LaneName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<FoundIn> {
        let lane = lane.clone();
        self.read(move |tx| async move { found::turns(&tx, &lane, from, to).await })
            .await
    }

    async fn mark_exported(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        export: DayExport,
    ) -> StoreResult<bool> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            Ok(days::mark(&tx, &item_type, day, &export).await)
        })
        .await
    }

    async fn outdate_export(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<bool> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            Ok(days::outdate(&tx, &item_type, day).await)
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
            edge("drop-committed");
            self.delete_lines(item_type, day).await?;
            edge("drop-lines");
        }
        Ok(dropped)
    }

    async fn check_restore(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        items: Vec<ArchivedItem>,
        what_for: RestoredFor,
    ) -> StoreResult<()> {
        check_page(item_type, day, &items)?;
        let (kind, page) = (item_type.clone(), items.clone());
        self.read(move |tx| async move {
            check_hot(&tx, &kind, &page).await?;
            check_known(&tx, &page, what_for).await
        })
        .await?;
        self.read_archive(day, move |tx| async move { check_lines(&tx, &items).await })
            .await
            .map(Option::unwrap_or_default)
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
            days::restoring(&tx, &kind, day).await;
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
            days::restoring(&tx, &item_type, day).await;
            days::held(&tx, &item_type, day).await?;
            days::unaccount(&tx, &item_type, day).await;
            accounting.write(&tx, &item_type).await;
            days::restored(&tx, &item_type, day, export.as_ref()).await;
            Ok(())
        })
        .await
    }

    /// The ids first: a line that has its content is found again after a crash, and one that has lost it is not.
    async fn rewrite(&self, items: Vec<ArchivedItem>) -> StoreResult<u64> {
        let begun = self.write(Urgency::Normal, move |tx| async move {
            begin_rewrite(&tx, items).await
        });
        let items = begun.await?;
        edge("erase-known");
        let mut by_day: BTreeMap<ArchiveDay, Vec<ArchivedItem>> = BTreeMap::new();
        for item in items {
            by_day.entry(item.day()).or_default().push(item);
        }
        let mut changed = 0;
        for (day, page) in by_day {
            if D::ARCHIVE_APART && !self.0.archive_months()?.contains(&day.month()) {
                continue;
            }
            let rewrite = move |tx: Tx| async move { rewrite_lines(&tx, &page).await };
            changed += self.write_archive(day, rewrite).await?;
            edge("erase-lines");
        }
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
            if !days::any_before(&tx, &item_type, before).await {
                return Ok(0);
            }
            let forgotten = known::forget(&tx, before, at_most).await;
            if forgotten == 0 {
                days::forget(&tx, &item_type, before).await;
            }
            Ok(forgotten)
        })
        .await
    }

    async fn clock_era(&self) -> StoreResult<Era> {
        const ERA: &str = "SELECT number, since FROM clock_era WHERE one = 1";
        self.read(|tx| async move {
            let era = tx.one(ERA, params![]).await?;
            Ok(Era {
                number: era.get("number")?,
                since: era.get("since")?,
            })
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

    async fn day_states(
        &self,
        item_type: &ItemType,
    ) -> StoreResult<Vec<(DayState, u64, ArchiveDay)>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { days::states(&tx, &item_type).await })
            .await
    }

    async fn store_parts(&self) -> StoreResult<Vec<(String, u64)>> {
        let read = self.read(|tx| async move { parts(&tx).await });
        let mut parts = read.await?;
        if let Some(apart) = self.0.archive_bytes()? {
            parts.push(("archive files".to_owned(), apart));
        }
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        Ok(parts)
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

async fn drop_day(
    tx: &Tx,
    item_type: &ItemType,
    day: ArchiveDay,
    apart: bool,
) -> StoreResult<bool> {
    const DROP: Sql = Sql::each("", "SELECT tg_archive_drop($1, $2) AS dropped");
    let state = days::held(tx, item_type, day).await?;
    if !matches!(state, Some(DayState::Exported | DayState::Dropped)) {
        return Ok(false);
    }
    days::dropped(tx, item_type, day).await;
    if !apart {
        tx.one(DROP, params![item_type, day.number()]).await?;
    }
    Ok(true)
}
