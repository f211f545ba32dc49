//! The archive: where items go when they have ended and are older than `hot_days`, and what is known of them after
//! that. Each (item type, day of the end) is a day of its own: it fills, is closed, is exported, and is dropped.

use async_trait::async_trait;

use super::{Era, ListKey, StoreResult};
use crate::Timestamp;
use crate::archive::{ArchiveDay, ArchivedItem, DayExport, DayState, DayView};
use crate::id::{Item, ItemId, ItemType, LaneName};

#[async_trait]
pub trait Archive: Send + Sync {
    /// Makes room for items of this type that end on these days (partitions on PostgreSQL, nothing on SQLite).
    /// Returns how many days were made. Repeating it changes nothing. `Invalid` if something that a person has made is in
    /// the way.
    async fn prepare_days(
        &self,
        item_type: &ItemType,
        from: ArchiveDay,
        to: ArchiveDay,
    ) -> StoreResult<u64>;

    /// How many days from this one on have room, without a gap; counted up to a month. None where none is needed.
    async fn days_ready(&self, item_type: &ItemType, from: ArchiveDay) -> StoreResult<Option<u32>>;

    /// Looks at the next items that were accepted before `wanted.ended_before`, oldest first, and moves those that
    /// ended before it into the archive: each is in the hot tables or in the archive, never in neither. Left where
    /// they are: what has not ended, is in doubt, held or dead; what has an open attempt or a flow that runs; what
    /// was refused in a storm that goes on; what another transaction is working on; what ended on a day that was
    /// dropped, or has no room ([`crate::archive::DayStep::Move`] is noted of it). On SQLite, a crash leaves at most copies in the archive file, which the next call writes again or
    /// [`Archive::close_days`] removes.
    async fn move_ended(&self, wanted: MoveWanted) -> StoreResult<Moved>;

    /// Moves turns of calls that belong to no item and are older than this into the send log of the archive. Returns
    /// how many.
    async fn move_calls(&self, before: Timestamp, at_most: u32) -> StoreResult<u64>;

    /// Nothing that ended before this day will be moved into the archive by a usual move: open days before it are
    /// closed. Returns how many.
    async fn close_days(&self, item_type: &ItemType, before: ArchiveDay) -> StoreResult<u64>;

    /// What the archive knows of these items, in their order; none of an item that was never moved. Only types whose
    /// moves were [`MoveWanted::remembered`] are found.
    async fn known(&self, asked: Vec<KnownAsked>) -> StoreResult<Vec<Option<Known>>>;

    /// The item as it was moved; none if the archive does not have it, be it that it was never moved or that its day
    /// was dropped ([`Archive::known`] tells which).
    async fn archived_item(&self, item: &Item) -> StoreResult<Option<ArchivedItem>>;

    /// One day of a type; none if nothing was ever moved into it.
    async fn archived_day(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
    ) -> StoreResult<Option<DayView>>;

    /// The days of a type, oldest first, after a day.
    async fn archived_days(
        &self,
        item_type: &ItemType,
        after: Option<ArchiveDay>,
        limit: u32,
    ) -> StoreResult<Vec<DayView>>;

    /// The lines of a day in the order of their ids, after an id: each the JSON text of an [`ArchivedItem`].
    async fn archived_lines(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<String>>;

    /// Where items of a type are that were accepted in `[from, to)`; without a bound, at any time. Exact to a quarter of an
    /// hour for the archive.
    async fn found_in(
        &self,
        item_type: &ItemType,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> StoreResult<FoundIn>;

    /// Where the turns of a lane in `[from, to)` are. Exact to an hour for the archive.
    async fn turns_in(
        &self,
        lane: &LaneName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<FoundIn>;

    /// Says that a closed day is in a file. False if it is not closed or exported: something was moved into it, or it
    /// was dropped.
    async fn mark_exported(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        export: DayExport,
    ) -> StoreResult<bool>;

    /// Says that the file of an exported day is not what the database has any more. The day is closed again, so that the
    /// next round writes it again, and keeps the name of the file until then. False if it is not exported.
    async fn outdate_export(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<bool>;

    /// Removes the items of an exported day from the database; sums, turns and what is known of the items stay.
    /// False if the day is not exported. A crash inside leaves a day that is exported or dropped; repeating a drop of a
    /// dropped day removes what is left of it and says true.
    async fn drop_day(&self, item_type: &ItemType, day: ArchiveDay) -> StoreResult<bool>;

    /// For a restore: whether these items of one day may be put back; changes nothing. Refused (`Invalid`) as
    /// [`Archive::restore_items`] refuses, and if the store knows one of the ids from another day, with other content, or,
    /// unless it is restored to be erased, as erased where the item is not.
    async fn check_restore(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        items: Vec<ArchivedItem>,
        what_for: RestoredFor,
    ) -> StoreResult<()>;

    /// For a restore: puts items of one day back into the archive, as a page of it. What is there already stays as it
    /// is, so repeating it changes nothing. Refused (`Invalid`) while the hot tables have one of the ids, or while the
    /// archive has the id with another line.
    async fn restore_items(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        items: Vec<ArchivedItem>,
        remembered: bool,
    ) -> StoreResult<()>;

    /// Ends a restore: sums and turns of the day are made from its lines, and it is closed or, with an export, exported.
    async fn complete_day(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        export: Option<DayExport>,
    ) -> StoreResult<()>;

    /// For an erasure: writes these items over the lines that the archive has of them. What has no content hash any
    /// more is known as erased from then on. An exported day is closed first, as by [`Archive::outdate_export`], so that it
    /// is not dropped while its file has more than its lines. Items of a day that was dropped stay as they are. Returns how
    /// many lines were changed.
    async fn rewrite(&self, items: Vec<ArchivedItem>) -> StoreResult<u64>;

    /// Forgets ids whose items ended before this day, a limited number at a time, and at last the sums and turns of such days
    /// of this type. All of a day stays while the database has its items. Returns how many rows of ids; 0 at the end.
    async fn forget_known(
        &self,
        item_type: &ItemType,
        before: ArchiveDay,
        at_most: u32,
    ) -> StoreResult<u64>;

    /// The era of the shared clock. What goes by its age goes only while the era is old enough: `now` may be wrong.
    async fn clock_era(&self) -> StoreResult<Era>;

    /// Removes what is not an item and ended before this, a limited number of rows at a time. Returns how many; 0 at
    /// the end.
    async fn forget_old(&self, what: Old, before: Timestamp, at_most: u32) -> StoreResult<u64>;

    /// Gives some space of deleted rows back to the disk (SQLite; PostgreSQL reuses it). False if there is no more.
    async fn give_back_space(&self) -> StoreResult<bool>;

    /// How many days of a type are in each state that has any, and the oldest of them.
    async fn day_states(
        &self,
        item_type: &ItemType,
    ) -> StoreResult<Vec<(DayState, u64, ArchiveDay)>>;

    /// What takes up space, the largest first: tables with their indexes on PostgreSQL, files on SQLite. Cheap.
    async fn store_parts(&self) -> StoreResult<Vec<(String, u64)>>;

    /// How large things are, for the metrics.
    async fn archive_sizes(&self, item_types: &[ItemType]) -> StoreResult<ArchiveSizes>;
}

#[derive(Debug, Clone)]
pub struct MoveWanted {
    pub item_type: ItemType,
    /// The start of the first day that stays in the hot tables.
    pub ended_before: Timestamp,
    /// Where the last call stopped; from the oldest on without it.
    pub after: Option<ListKey>,
    /// At most this many items are looked at.
    pub at_most: u32,
    /// Whether ids must never be taken again: a row stays of each.
    pub remembered: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    pub moved: u64,
    pub looked_at: u64,
    /// Where to go on; none at the end.
    pub next: Option<ListKey>,
    /// Days that are in files only and on which some of them ended: these stay until their day is restored.
    pub in_files: Vec<ArchiveDay>,
}

/// Why a day is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredFor {
    /// To be read.
    Reading,
    /// To be erased: a file may have what the store knows as erased.
    Erasing,
}

/// An id, and the content that somebody asks about.
#[derive(Debug, Clone)]
pub struct KnownAsked {
    pub item: Item,
    /// Of the canonical request, as in [`super::NewRecord`]; empty if it does not matter.
    pub content_hash: String,
}

/// What stays of an item for years: enough to never pay it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub day: ArchiveDay,
    /// The status that it ended with; empty for a word that this release does not know.
    pub status: String,
    pub content: KnownContent,
    pub state: DayState,
    /// Where the day is, if it was exported.
    pub export: Option<DayExport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownContent {
    /// It was taken in with the content that was asked about.
    Same,
    Other,
    /// What it was taken in with was erased.
    Erased,
}

/// Where an answer would come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoundIn {
    /// The hot tables have some of it.
    pub hot: bool,
    /// The first and the last day of the archive with some of it.
    pub archive: Option<(ArchiveDay, ArchiveDay)>,
}

/// What has an age of its own beside items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// Sums that rules about daily totals count; only today's matter.
    OwnerTotals,
    /// Verdicts on requests that were refused. Their ids are free.
    RefusedRequests,
    /// Imports that are done, with their rejected lines; of feeds, rejected lines that need no answer any more.
    Imports,
    /// Jobs that have ended, with their results.
    Jobs,
    /// Workflows that have ended. An item that is archived takes its own along; others have no item, or had a later one.
    Flows,
}

impl Old {
    pub const ALL: [Self; 5] = [
        Self::OwnerTotals,
        Self::RefusedRequests,
        Self::Imports,
        Self::Jobs,
        Self::Flows,
    ];
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArchiveSizes {
    /// Bytes of the whole store, the archive included; 0 if it cannot be told.
    pub store_bytes: u64,
    /// Of that, bytes of the archive.
    pub archive_bytes: u64,
    /// Acceptance of the oldest item in the hot tables, by type.
    pub oldest_hot: Vec<(ItemType, Timestamp)>,
}
