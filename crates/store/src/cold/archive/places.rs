//! Where the lines of the archive lie, and how they are read, copied and deleted there: a partition of the day on
//! PostgreSQL, a file of the month on SQLite.

use std::collections::BTreeSet;

use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayStep};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{Archive, DayTroubles, ItemView, KnownAsked, StoreResult};

use super::lines::{ids_json, item_from, line_from, lines};
use super::moving::write_lines;
use super::{days, known};
use crate::sql::{Dialogue, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

/// Lines of a day that are looked at together.
pub(super) const PAGE: u32 = 500;

impl<D: Database> StoreOn<D> {
    /// None if there is nothing of that month.
    pub(super) async fn read_archive<T, F>(
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

    pub(super) async fn write_archive<T, F>(
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
    pub(super) async fn copy_apart(
        &self,
        item_type: &ItemType,
        ids: &[ItemId],
    ) -> StoreResult<Vec<ArchivedItem>> {
        let (kind, ids) = (item_type.clone(), ids_json(ids.iter())?);
        let read = self.read(move |tx| async move { lines(&tx, &kind, &ids).await });
        let items = read.await?;
        let days: BTreeSet<ArchiveDay> = items.iter().map(ArchivedItem::day).collect();
        self.reopen(item_type, &days).await?;
        for day in days {
            let of_day = items.iter().filter(|item| item.day() == day);
            let of_day: Vec<ArchivedItem> = of_day.cloned().collect();
            let copy = move |tx: Tx| async move { write_lines(&tx, &of_day).await };
            self.write_archive(day, copy).await?;
        }
        Ok(items)
    }

    /// Before the first copy: what a crash leaves of it is looked for in open days only.
    async fn reopen(&self, item_type: &ItemType, days: &BTreeSet<ArchiveDay>) -> StoreResult<()> {
        let (kind, asked) = (item_type.clone(), days.clone());
        let ended = self.read(move |tx| async move { days::ended(&tx, &kind, &asked).await });
        let (kind, ended) = (item_type.clone(), ended.await?);
        if ended.is_empty() {
            return Ok(());
        }
        self.write(Urgency::Normal, move |tx| async move {
            days::opened(&tx, &kind, &ended).await;
            Ok(())
        })
        .await
    }

    /// A day that has none because of what a person made in its place is noted, and nothing moves into it.
    pub(super) async fn make_room(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<()> {
        match self.prepare_days(item_type, day, day).await {
            Err(error) if !error.may_pass() => {
                let why = error.to_string();
                let noted = self.note_day_trouble(item_type, day, DayStep::Move, &why);
                noted.await
            }
            made => made.map(drop),
        }
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

    pub(super) async fn day_of(&self, item: &Item) -> StoreResult<Option<ArchiveDay>> {
        let asked = KnownAsked {
            item: item.clone(),
            content_hash: String::new(),
        };
        let known = self.known(vec![asked]).await?.into_iter().next().flatten();
        Ok(known.map(|known| known.day))
    }

    pub(super) async fn line_on(
        &self,
        item: &Item,
        day: ArchiveDay,
    ) -> StoreResult<Option<String>> {
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
    pub(super) async fn line_somewhere(&self, item: &Item) -> StoreResult<Option<String>> {
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
    pub(super) async fn delete_lines(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
    ) -> StoreResult<()> {
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
