//! What went wrong with a day stays noted in the store until the same day goes well: a line in the log is easily missed, and a
//! restart cures nothing.

use tollgate_core::archive::DayStep;

use super::{ArchiveError, ArchiveResult, Exports, TypeDay};

/// More days than anybody looks at.
const MOST_DAYS: u32 = 1000;

impl Exports {
    /// Passes a result on, and notes what it says about the day.
    pub async fn noted<T: Send + Sync>(
        &self,
        of: &TypeDay,
        step: DayStep,
        done: ArchiveResult<T>,
    ) -> ArchiveResult<T> {
        let (store, item_type, day) = (&self.store, &of.item_type, of.day);
        match &done {
            Ok(_) => {
                store.end_day_trouble(item_type, day, step).await?;
            }
            Err(error) if error.is_of_the_day() => {
                let why = error.to_string();
                // Of a day that the store does not know, no round would ever see the end.
                if self.day(of).await?.is_some() {
                    store.note_day_trouble(item_type, day, step, &why).await?;
                }
            }
            Err(_) => {}
        }
        done
    }

    /// Days whose files are known to be bad.
    pub(super) async fn bad_days(&self) -> ArchiveResult<Vec<TypeDay>> {
        let troubles = self.store.day_troubles(MOST_DAYS).await?;
        let of_files = troubles.into_iter().filter(|it| it.step.is_of_file());
        let of = of_files.map(|it| TypeDay {
            item_type: it.item_type,
            day: it.day,
        });
        Ok(of.collect())
    }

    /// Without a folder nothing is exported or dropped, and nothing fails.
    pub(super) async fn end_all(&self) -> ArchiveResult<()> {
        for of in self.bad_days().await? {
            let (item_type, day) = (&of.item_type, of.day);
            let is_in_files = self
                .day(&of)
                .await?
                .is_some_and(|it| it.dropped_at.is_some());
            if !is_in_files {
                let ended = self.store.end_day_trouble(item_type, day, DayStep::Export);
                ended.await?;
            }
        }
        Ok(())
    }
}

impl ArchiveError {
    /// Whether the day is not in order until somebody has done something about it.
    fn is_of_the_day(&self) -> bool {
        match self {
            Self::Mismatch(_) | Self::Disk(_) => true,
            Self::Store(error) => !error.may_pass(),
            Self::NotFound(_) | Self::Conflict(_) | Self::Busy(_) => false,
        }
    }
}
