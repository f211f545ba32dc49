//! Keeps the files up to date: exports every day that is closed, and drops from the database what is older than the
//! archive keeps it. One day after the other; the folder's lock keeps other processes out.

use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::archive::{ArchiveDay, DayState, DayStep, DayView};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, StoreResult};
use tollgate_dispatch::{ArchivedType, Every, ages_in_force};

use super::{ArchiveError, ArchiveResult, Exports, TypeDay};

/// How often it looks.
const PAUSE: Duration = Duration::from_mins(10);
/// So many days are read at once.
const DAYS_AT_ONCE: u32 = 100;

/// What one round has done.
#[derive(Debug, Default)]
pub struct Round {
    pub exported: u64,
    pub dropped: u64,
    /// A sentence for each day that could not be exported, verified or dropped.
    pub troubles: Vec<String>,
    /// One for each day that has to wait for somebody else at work.
    pub skipped: Vec<String>,
}

#[derive(Clone)]
pub struct ExportUpkeep {
    exports: Exports,
    types: Vec<ArchivedType>,
    /// After a restore, or after an export that came late.
    restored_days: u32,
}

impl std::fmt::Debug for ExportUpkeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportUpkeep").finish_non_exhaustive()
    }
}

impl ExportUpkeep {
    pub fn new(exports: Exports, types: Vec<ArchivedType>, restored_days: u32) -> Self {
        Self {
            exports,
            types,
            restored_days,
        }
    }

    /// Once at the start, then every ten minutes, until told to stop. What is cut off is repeated by the next start.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut every = Every::new(PAUSE, stop);
        let mut is_first = true;
        while every.once(self.look(is_first)).await {
            is_first = false;
        }
    }

    async fn look(&self, is_first: bool) {
        let by = Author::new(actor::TOLLGATE, "retention");
        if is_first && self.exports.has_folder() {
            self.drop_what_is_left().await;
        }
        match self.round(&by).await {
            Ok(round) => {
                for why in round.troubles {
                    tracing::warn!(why, "a day of the archive has a problem");
                }
                for why in round.skipped {
                    tracing::info!(
                        why,
                        "a day of the archive was skipped; the next round tries again"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "days of the archive could not be exported"),
        }
    }

    /// Every day that has something to be done, oldest first; none without a folder. What goes wrong with one day does not
    /// keep the others, and stays noted until it goes well.
    pub async fn round(&self, by: &Author) -> ArchiveResult<Round> {
        let mut round = Round::default();
        if !self.exports.has_folder() {
            self.exports.end_all().await?;
            return Ok(round);
        }
        let bad = self.exports.bad_days().await?;
        for of in &self.types {
            let store = &*self.exports.store;
            let ages = ages_in_force(store, &of.item_type, of.ages).await?.ages;
            let kept = Kept {
                archive_days: ages.archive_days,
                restored_days: self.restored_days,
            };
            let mut after = None;
            while let Some((days, last)) = self.page(&of.item_type, after).await? {
                after = Some(last);
                let mut others = vec![];
                for day in days {
                    let now = store.now().await?;
                    match next(&day, kept, now) {
                        Next::Nothing => others.push(day),
                        todo @ (Next::Export | Next::Drop) => {
                            self.care_for(&TypeDay::from(&day), &todo, by, &mut round)
                                .await?;
                        }
                    }
                }
                self.look_at(&others, &bad, &mut round).await?;
            }
        }
        Ok(round)
    }

    /// Some days of a type, and the last of them.
    async fn page(
        &self,
        item_type: &ItemType,
        after: Option<ArchiveDay>,
    ) -> StoreResult<Option<(Vec<DayView>, ArchiveDay)>> {
        let store = &self.exports.store;
        let days = store.archived_days(item_type, after, DAYS_AT_ONCE);
        let days = days.await?;
        let last = days.last().map(|view| view.day);
        Ok(last.map(|last| (days, last)))
    }

    /// A crash may have cut a drop or a restore off. Once, at the start of this process.
    async fn drop_what_is_left(&self) {
        for of in &self.types {
            let mut after = None;
            while let Ok(Some((days, last))) = self.page(&of.item_type, after).await {
                after = Some(last);
                for day in days.into_iter().filter(|it| it.state == DayState::Dropped) {
                    let of = TypeDay::from(&day);
                    if let Err(error) = self.exports.drop_rest(&of).await {
                        tracing::warn!(%error, day = %of, "the rest of a dropped day could not be removed; the next start removes it");
                    }
                }
            }
        }
    }

    async fn care_for(
        &self,
        of: &TypeDay,
        todo: &Next,
        by: &Author,
        round: &mut Round,
    ) -> ArchiveResult<()> {
        match todo {
            Next::Export => {
                let exported = self.exports.export(of, by).await.map(drop);
                let is_done = self.noted(of, DayStep::Export, exported, round).await?;
                round.exported += u64::from(is_done);
            }
            Next::Drop => {
                let dropped = self.dropped(of, by).await;
                let is_done = self.noted(of, DayStep::Drop, dropped, round).await?;
                round.dropped += u64::from(is_done);
            }
            Next::Nothing => {}
        }
        Ok(())
    }

    /// Days with which nothing is to be done. A file that is missing or was edited is found before it is needed, and what
    /// was found to be bad is looked at again until it is good.
    async fn look_at(
        &self,
        days: &[DayView],
        bad: &[TypeDay],
        round: &mut Round,
    ) -> ArchiveResult<()> {
        let suspects = self.exports.suspects(days).await?;
        for day in days {
            let of = TypeDay::from(day);
            if !bad.contains(&of) && !suspects.contains(&of) {
                continue;
            }
            // It is exported again once it is closed.
            let checked = match day.state {
                DayState::Open => Ok(()),
                DayState::Closed | DayState::Exported | DayState::Dropped => {
                    self.exports.verify(&of).await.map(drop)
                }
            };
            self.noted(&of, DayStep::Verify, checked, round).await?;
        }
        Ok(())
    }

    /// Whether it went well. What may pass by itself ends the round.
    async fn noted(
        &self,
        of: &TypeDay,
        step: DayStep,
        done: ArchiveResult<()>,
        round: &mut Round,
    ) -> ArchiveResult<bool> {
        match self.exports.noted(of, step, done).await {
            Ok(()) => Ok(true),
            Err(ArchiveError::Store(error)) if error.may_pass() => Err(error.into()),
            Err(ArchiveError::Busy(why)) => {
                let prefix = format!("{of}: ");
                let why = why.strip_prefix(&prefix).unwrap_or(&why);
                round.skipped.push(format!("{of} was skipped: {why}"));
                Ok(false)
            }
            Err(error) => {
                round.troubles.push(error.to_string());
                Ok(false)
            }
        }
    }

    /// A file that is not what it should be is written again from the database, if that still has all of the day.
    async fn dropped(&self, of: &TypeDay, by: &Author) -> ArchiveResult<()> {
        match self.exports.drop_day(of, by).await {
            Err(ArchiveError::Mismatch(why)) => {
                tracing::warn!(why, "an export is written again");
                self.exports.export(of, by).await?;
                self.exports.drop_day(of, by).await
            }
            done => done,
        }
    }
}

/// How long a day stays in the database.
#[derive(Debug, Clone, Copy)]
struct Kept {
    archive_days: u32,
    restored_days: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Export,
    Drop,
    Nothing,
}

fn next(day: &DayView, kept: Kept, now: Timestamp) -> Next {
    let is_older = |day: ArchiveDay, days: u32| day < ArchiveDay::of(now).before(days);
    match (day.state, &day.export) {
        (DayState::Open | DayState::Dropped, _) => Next::Nothing,
        (DayState::Closed, _) | (DayState::Exported, None) => Next::Export,
        (DayState::Exported, Some(export)) => {
            let is_old = is_older(day.day, kept.archive_days);
            let since = ArchiveDay::of(export.at);
            let has_stayed = kept.restored_days == 0 || is_older(since, kept.restored_days);
            if is_old && has_stayed {
                Next::Drop
            } else {
                Next::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::archive::DayExport;

    use super::*;

    #[test]
    fn a_day_is_exported_when_it_is_closed_and_dropped_when_it_is_old_and_was_not_restored_lately()
    {
        use DayState::{Closed, Dropped, Exported, Open};
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let now = at("2026-11-18T12:00:00Z");
        let lately = Some("2026-11-17T12:00:00Z");
        let long_ago = Some("2025-12-01T00:00:00Z");
        let ahead = Some("2027-01-01T00:00:00Z");
        for (state, exported, day, expected) in [
            (Open, None, "2020-01-01", Next::Nothing),
            (Closed, None, "2026-10-01", Next::Export),
            (Closed, long_ago, "2020-01-01", Next::Export),
            (Exported, long_ago, "2026-10-01", Next::Nothing),
            // 400 whole days after it.
            (Exported, long_ago, "2025-10-14", Next::Nothing),
            (Exported, long_ago, "2025-10-13", Next::Drop),
            (Exported, lately, "2025-10-13", Next::Nothing),
            (Exported, ahead, "2025-10-13", Next::Nothing),
            (Dropped, long_ago, "2025-10-13", Next::Nothing),
        ] {
            let view = DayView {
                item_type: ItemType::new("PAYMENT"),
                day: day.parse().unwrap(),
                state,
                sums: vec![],
                export: exported.map(|time| DayExport {
                    file: "f".to_owned(),
                    digest: "d".to_owned(),
                    at: at(time),
                }),
                dropped_at: None,
                restored_at: None,
            };
            let kept = Kept {
                archive_days: 400,
                restored_days: 7,
            };
            let found = next(&view, kept, now);
            assert_eq!(found, expected, "{state:?} {exported:?} {day}");
        }
    }
}
