//! Moves items that have ended long enough ago into the archive, a few at a time, and forgets what has an age of its own.
//!
//! Each step is a short transaction of its own with a rest after it, so gate and claims hardly notice. A crash between two
//! steps loses nothing: the next round walks from the oldest item on. Several processes may do this at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};
use rust_decimal::prelude::ToPrimitive;
use tokio::sync::watch;
use tollgate_core::archive::{ArchiveDay, DayState, DayStep};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{ListKey, MoveWanted, Old, Store, StoreError, StoreResult};
use tollgate_core::retention::Ages;
use tollgate_core::{SignedDuration, Timestamp};

use super::retention::ages_in_force;
use crate::every::Every;
use crate::gate::node_clock::{Sample, Verdict, judge};

/// How often it looks.
const PAUSE: Duration = Duration::from_mins(10);
/// So many items are looked at in one step, and so long it rests after it.
const BATCH: u32 = 50;
const REST: Duration = Duration::from_millis(40);
/// Room for days is made so many days before it is needed.
const DAYS_AHEAD: u32 = 3;
/// More days without room than anybody looks at.
const MOST_TROUBLES: u32 = 1000;
/// Rows that are not items are removed so many at a time.
const ROWS: u32 = 500;
/// A clock that may have jumped destroys nothing before it has run evenly for so long: time for people to set it right. Less
/// than a day, or a machine that starts every night would forget nothing.
const STEADY: SignedDuration = SignedDuration::from_hours(12);
/// Totals of owners are asked for within a day of any time zone.
const OWNER_TOTALS_KEPT: SignedDuration = SignedDuration::from_hours(72);

/// A type of items, and how it is archived.
#[derive(Debug, Clone)]
pub struct ArchivedType {
    pub item_type: ItemType,
    /// What the configuration says.
    pub ages: Ages,
    /// Whether its ids are never taken again.
    pub remembered: bool,
}

/// How long what is not an item is kept, after its end.
#[derive(Debug, Clone, Copy)]
pub struct OldAges {
    pub refused: Duration,
    pub imports: Duration,
    pub jobs: Duration,
}

pub struct Archiver {
    store: Arc<dyn Store>,
    types: Vec<ArchivedType>,
    old: OldAges,
    /// Types whose last round has failed.
    failed: Mutex<BTreeSet<ItemType>>,
    /// This process's last look at the clock.
    clock: Mutex<Option<Sample>>,
}

impl std::fmt::Debug for Archiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archiver")
            .field("types", &self.types)
            .finish_non_exhaustive()
    }
}

impl Archiver {
    pub fn new(store: Arc<dyn Store>, types: Vec<ArchivedType>, old: OldAges) -> Self {
        Self {
            store,
            types,
            old,
            failed: Mutex::default(),
            clock: Mutex::default(),
        }
    }

    /// Once at the start, then every ten minutes, until told to stop.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        // The alert counts from here if not one round succeeds.
        self.note_time().await;
        let mut every = Every::new(PAUSE, stop);
        while every.once(self.round_or_warn()).await {}
    }

    async fn note_time(&self) {
        if let Ok(now) = self.store.now().await {
            gauge!("tollgate_archive_last_round_timestamp_seconds")
                .set(now.as_second().to_f64().unwrap_or(0.0));
        }
    }

    async fn round_or_warn(&self) {
        match self.round(REST).await {
            Ok(moved) => {
                self.note_time().await;
                if moved > 0 {
                    tracing::info!(moved, "ended items were archived");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "ended items could not be archived; the next round continues");
            }
        }
    }

    /// Everything that is due, with a rest after each step. Returns how many items were moved.
    pub async fn round(&self, rest: Duration) -> StoreResult<u64> {
        let moved = self.archive_all(rest).await;
        // What is short is seen whether or not anything could be moved.
        self.measure().await?;
        moved
    }

    async fn archive_all(&self, rest: Duration) -> StoreResult<u64> {
        let (mut moved, mut failed) = (0, None);
        for of in &self.types {
            match self.archive_or_note(of, rest).await {
                Ok(some) => moved += some,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Err(error) = self.forget(rest).await {
            failed = failed.or(Some(error));
        }
        while moved > 0 && self.store.give_back_space().await? {
            tokio::time::sleep(rest).await;
        }
        failed.map_or(Ok(moved), Err)
    }

    /// A failure keeps neither the other types nor what is forgotten. One that does not pass by itself, or not until the next
    /// round, is shown to people until a round of this type goes well.
    async fn archive_or_note(&self, of: &ArchivedType, rest: Duration) -> StoreResult<u64> {
        let (store, item_type) = (&self.store, &of.item_type);
        let archived = self.archive(of, rest).await;
        let has_failed_before = self.has_failed(item_type, archived.is_err());
        let why = match &archived {
            Err(StoreError::Fenced(_)) => return archived,
            Err(error) if error.may_pass() && !has_failed_before => return archived,
            Err(error) => Some(error.to_string()),
            Ok(_) => None,
        };
        let first = match self.oldest_hot(item_type).await? {
            Some(first) => first,
            None => ArchiveDay::of(store.now().await?),
        };
        for day in self.noted(item_type, DayStep::Archive).await? {
            if why.is_none() || day != first {
                let ended = store.end_day_trouble(item_type, day, DayStep::Archive);
                ended.await?;
            }
        }
        if let Some(why) = why {
            tracing::warn!(why, %item_type, day = %first, "items of this type could not be archived");
            let noted = store.note_day_trouble(item_type, first, DayStep::Archive, &why);
            noted.await?;
        }
        archived
    }

    /// Whether the round before this one has failed.
    fn has_failed(&self, item_type: &ItemType, now_fails: bool) -> bool {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if now_fails {
            !failed.insert(item_type.clone())
        } else {
            failed.remove(item_type)
        }
    }

    /// The day on which the oldest item in the hot tables was accepted.
    async fn oldest_hot(&self, item_type: &ItemType) -> StoreResult<Option<ArchiveDay>> {
        let sizes = self.store.archive_sizes(std::slice::from_ref(item_type));
        let oldest = sizes.await?.oldest_hot.into_iter().next();
        Ok(oldest.map(|(_, at)| ArchiveDay::of(at)))
    }

    async fn archive(&self, of: &ArchivedType, rest: Duration) -> StoreResult<u64> {
        let (store, item_type) = (&self.store, &of.item_type);
        let first_hot = self.first_hot(of).await?;
        let oldest = self.oldest_hot(item_type).await?;
        let oldest = oldest.filter(|day| *day < first_hot);
        self.make_room(item_type, oldest.unwrap_or(first_hot), first_hot)
            .await?;
        let mut in_files = BTreeSet::new();
        let moved = match oldest {
            Some(_) => self.move_all(of, first_hot, &mut in_files, rest).await?,
            None => 0,
        };
        self.note_in_files(item_type, &in_files).await?;
        store.close_days(item_type, first_hot).await?;
        Ok(moved)
    }

    /// Notes the days that are in files only and on which some ended.
    async fn move_all(
        &self,
        of: &ArchivedType,
        first_hot: ArchiveDay,
        in_files: &mut BTreeSet<ArchiveDay>,
        rest: Duration,
    ) -> StoreResult<u64> {
        let item_type = &of.item_type;
        let (mut moved, mut after) = (0, None::<ListKey>);
        loop {
            let wanted = MoveWanted {
                item_type: item_type.clone(),
                ended_before: first_hot.start(),
                after: after.take(),
                at_most: BATCH,
                remembered: of.remembered,
            };
            let said = self.store.move_ended(wanted).await?;
            moved += said.moved;
            in_files.extend(said.in_files);
            counter!("tollgate_archived_items_total", "item_type" => item_type.to_string())
                .increment(said.moved);
            if said.next.is_none() {
                return Ok(moved);
            }
            after = said.next;
            tokio::time::sleep(rest).await;
        }
    }

    /// The first day that stays: what ended on it is not `hot_days` whole days old.
    async fn first_hot(&self, of: &ArchivedType) -> StoreResult<ArchiveDay> {
        let ages = self.ages(of).await?;
        let now = self.store.now().await?;
        Ok(ArchiveDay::of(now).before(ages.hot_days))
    }

    async fn ages(&self, of: &ArchivedType) -> StoreResult<Ages> {
        let found = ages_in_force(&*self.store, &of.item_type, of.ages).await?;
        Ok(found.ages)
    }

    /// For what is due, for the next days, and for days that had no room. A day that has none is noted and passed over:
    /// its items stay where they are, and those of other days move.
    async fn make_room(
        &self,
        item_type: &ItemType,
        from: ArchiveDay,
        first_hot: ArchiveDay,
    ) -> StoreResult<()> {
        let store = &self.store;
        let mut noted = self.noted(item_type, DayStep::Move).await?;
        for day in self.in_files_of(item_type, &noted).await? {
            noted.remove(&day);
        }
        let until = first_hot.after(DAYS_AHEAD);
        let due = (from.number()..=until.number()).filter_map(ArchiveDay::from_number);
        for day in due.chain(noted.clone()).collect::<BTreeSet<_>>() {
            match store.prepare_days(item_type, day, day).await {
                Ok(_) if noted.contains(&day) => {
                    store.end_day_trouble(item_type, day, DayStep::Move).await?;
                }
                Ok(_) => {}
                Err(error) if error.may_pass() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, %item_type, %day, "a day of the archive has no room");
                    let why = error.to_string();
                    let noted = store.note_day_trouble(item_type, day, DayStep::Move, &why);
                    noted.await?;
                }
            }
        }
        Ok(())
    }

    /// Days of which a failure of this step is noted.
    async fn noted(
        &self,
        item_type: &ItemType,
        step: DayStep,
    ) -> StoreResult<BTreeSet<ArchiveDay>> {
        let noted = self.store.day_troubles(MOST_TROUBLES).await?.into_iter();
        let noted = noted.filter(|it| it.item_type == *item_type && it.step == step);
        Ok(noted.map(|it| it.day).collect())
    }

    /// Those of these days that are in files only.
    async fn in_files_of(
        &self,
        item_type: &ItemType,
        days: &BTreeSet<ArchiveDay>,
    ) -> StoreResult<Vec<ArchiveDay>> {
        let mut in_files = vec![];
        for day in days {
            let view = self.store.archived_day(item_type, *day).await?;
            if view.is_some_and(|it| it.state == DayState::Dropped) {
                in_files.push(*day);
            }
        }
        Ok(in_files)
    }

    /// Items that ended on days that are in files only stay hot until a person restores these days: said as long as there
    /// are any. Once a day is restored, the next round makes room for it as for any other.
    async fn note_in_files(
        &self,
        item_type: &ItemType,
        days: &BTreeSet<ArchiveDay>,
    ) -> StoreResult<()> {
        let store = &self.store;
        let noted = self.noted(item_type, DayStep::Move).await?;
        for day in self.in_files_of(item_type, &noted).await? {
            if !days.contains(&day) {
                store.end_day_trouble(item_type, day, DayStep::Move).await?;
            }
        }
        for day in days.iter().copied() {
            let why = format!(
                "items that ended on this day are still in the hot tables, and the day is in files only; run tollgate archive restore {day}, and the next round moves them"
            );
            let noted = store.note_day_trouble(item_type, day, DayStep::Move, &why);
            noted.await?;
        }
        Ok(())
    }

    /// What is not an item. If the ages in force cannot be read, or the clock may be wrong, nothing is forgotten: an id that goes
    /// too early is paid again.
    async fn forget(&self, rest: Duration) -> StoreResult<()> {
        let mut ages = vec![];
        for of in &self.types {
            ages.push(self.ages(of).await?);
        }
        let now = self.store.now().await?;
        let hot = ages.iter().map(|it| it.hot_days).max().unwrap_or(1);
        let hot_until = ArchiveDay::of(now).before(hot).start();
        while self.store.move_calls(hot_until, ROWS).await? > 0 {
            tokio::time::sleep(rest).await;
        }
        if !self.clock_is_steady().await? {
            return Ok(());
        }
        for what in Old::ALL {
            let ended = |kept: SignedDuration| now.checked_sub(kept).unwrap_or(Timestamp::MIN);
            let before = match what {
                Old::OwnerTotals => ended(OWNER_TOTALS_KEPT),
                Old::RefusedRequests => ended(signed(self.old.refused)),
                Old::Imports => ended(signed(self.old.imports)),
                Old::Jobs => ended(signed(self.old.jobs)),
                Old::Flows => hot_until,
            };
            while self.store.forget_old(what, before, ROWS).await? > 0 {
                tokio::time::sleep(rest).await;
            }
        }
        let longest = ages.iter().map(Ages::known_days).max();
        let before = ArchiveDay::of(now).before(longest.unwrap_or(u32::MAX));
        for of in &self.types {
            while self.store.forget_known(&of.item_type, before, ROWS).await? > 0 {
                tokio::time::sleep(rest).await;
            }
        }
        Ok(())
    }

    /// The gate opens an era within a second of a jump. A round that comes in that second sees the jump by itself: it compares
    /// the clock with the round before.
    async fn clock_is_steady(&self) -> StoreResult<bool> {
        let sample = Sample::take(&*self.store).await?;
        let before = {
            let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
            let before = *clock;
            let is_steady = judge(before, sample, Duration::MAX) == Verdict::Steady;
            *clock = is_steady.then_some(sample);
            before.filter(|_| is_steady)
        };
        if before.is_none() {
            return Ok(false);
        }
        let era = self.store.clock_era().await?;
        let age = sample.shared().duration_since(era.since);
        // Nobody has vouched for the first one.
        Ok(era.number > 0 && age >= STEADY)
    }

    async fn measure(&self) -> StoreResult<()> {
        let types: Vec<ItemType> = self.types.iter().map(|of| of.item_type.clone()).collect();
        let sizes = self.store.archive_sizes(&types).await?;
        let now = self.store.now().await?;
        let number = |count: u64| count.to_f64().unwrap_or(0.0);
        gauge!("tollgate_store_bytes").set(number(sizes.store_bytes));
        gauge!("tollgate_archive_bytes").set(number(sizes.archive_bytes));
        for item_type in &types {
            let oldest = sizes.oldest_hot.iter().find(|(name, _)| name == item_type);
            let age = oldest.map_or(0.0, |(_, at)| now.duration_since(*at).as_secs_f64());
            gauge!("tollgate_oldest_hot_item_seconds", "item_type" => item_type.to_string())
                .set(age.max(0.0));
        }
        for of in &self.types {
            let first_hot = self.first_hot(of).await?;
            let ready = self.store.days_ready(&of.item_type, first_hot).await?;
            let states = self.store.day_states(&of.item_type).await?;
            let closed = states.iter().find(|(state, ..)| *state == DayState::Closed);
            gauge!("tollgate_archive_days_without_a_file", "item_type" => of.item_type.to_string())
                .set(closed.map_or(0.0, |(_, days, _)| number(*days)));
            if let Some(days) = ready {
                gauge!("tollgate_archive_days_ready", "item_type" => of.item_type.to_string())
                    .set(f64::from(days));
            }
        }
        Ok(())
    }
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
