//! Days whose file is late. A disk that hangs and a folder that another process holds leave no error behind, so this looks at
//! what the store knows and not at the folder.

use tollgate_config::TypeRetention;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, DayState, DayTrouble, DayView};
use tollgate_core::ports::StoreResult;
use tollgate_dispatch::ages_in_force;

use super::{Exports, TypeDay};

/// A day is closed `hot_days` whole days after it, and has its file some minutes later. Whole days after that it is late.
const DAYS_LATE: u32 = 1;
/// More days of a type than this are not counted.
const MOST_DAYS: u32 = 1000;

/// A closed day that has no file.
#[derive(Debug)]
pub struct Overdue {
    pub of: TypeDay,
    /// When it was to be exported.
    pub due: Timestamp,
}

impl Overdue {
    pub fn sentence(&self) -> String {
        let (TypeDay { item_type, day }, due) = (&self.of, self.due);
        format!(
            "{item_type} of {day} has had no file since {due}; check that the disk of retention.export_dir answers and that no stopped process holds its file .lock"
        )
    }
}

impl Exports {
    /// None without a folder. Days of which an error is noted are not repeated here.
    pub async fn overdue(&self, types: &[TypeRetention]) -> StoreResult<Vec<Overdue>> {
        let mut found = vec![];
        if !self.has_folder() {
            return Ok(found);
        }
        let today = ArchiveDay::of(self.store.now().await?);
        for of in types {
            let (item_type, ages) = (&of.archived.item_type, of.archived.ages);
            let hot_days = ages_in_force(&*self.store, item_type, ages)
                .await?
                .ages
                .hot_days;
            let states = self.store.day_states(item_type).await?;
            let closed = states.iter().find(|(state, ..)| *state == DayState::Closed);
            let late = late_before(today, hot_days);
            let Some((.., oldest)) = closed.filter(|(.., day)| *day < late) else {
                continue;
            };
            let days = (self.store).archived_days(item_type, Some(oldest.before(1)), MOST_DAYS);
            let (days, noted) = (days.await?, self.store.day_troubles(MOST_DAYS).await?);
            let days = days.iter().filter(|day| is_late(day, late, &noted));
            found.extend(days.map(|day| Overdue {
                of: TypeDay::from(day),
                due: day.day.after(hot_days + 1).start(),
            }));
        }
        Ok(found)
    }
}

fn late_before(today: ArchiveDay, hot_days: u32) -> ArchiveDay {
    today.before(hot_days).before(DAYS_LATE)
}

/// One that has an outdated file is written again after an erasure; when that is due the day does not say.
fn is_late(day: &DayView, late_before: ArchiveDay, noted: &[DayTrouble]) -> bool {
    let is_noted = |it: &DayTrouble| it.item_type == day.item_type && it.day == day.day;
    let has_no_file = day.state == DayState::Closed && day.export.is_none();
    has_no_file && day.day < late_before && !noted.iter().any(is_noted)
}

#[cfg(test)]
mod tests {
    use tollgate_core::archive::{DayExport, DayStep};
    use tollgate_core::id::ItemType;

    use super::*;

    #[test]
    fn a_closed_day_without_a_file_is_late_a_day_after_it_was_due() {
        use DayState::{Closed, Dropped, Exported, Open};
        let day = |text: &str| text.parse::<ArchiveDay>().unwrap();
        let view = |text: &str, state, has_file: bool| DayView {
            item_type: ItemType::new("PAYMENT"),
            day: day(text),
            state,
            sums: vec![],
            export: has_file.then(|| DayExport {
                file: "f".to_owned(),
                digest: "d".to_owned(),
                at: "2026-11-18T00:00:00Z".parse().unwrap(),
            }),
            dropped_at: None,
            restored_at: None,
        };
        // Closed at the beginning of the 18th of November.
        let of = "2026-10-18";
        for (today, state, has_file, expected) in [
            ("2026-11-18", Closed, false, false),
            ("2026-11-19", Closed, false, true),
            ("2026-11-19", Closed, true, false),
            ("2026-11-19", Open, false, false),
            ("2026-11-19", Exported, true, false),
            ("2026-11-19", Dropped, true, false),
        ] {
            let late = late_before(day(today), 30);
            let found = is_late(&view(of, state, has_file), late, &[]);
            assert_eq!(found, expected, "{today} {state:?} {has_file}");
        }
        let noted = DayTrouble {
            item_type: ItemType::new("PAYMENT"),
            day: day(of),
            step: DayStep::Export,
            why: "the disk is full".to_owned(),
            since: "2026-11-18T00:00:00Z".parse().unwrap(),
        };
        let late = late_before(day("2026-11-19"), 30);
        assert!(!is_late(&view(of, Closed, false), late, &[noted]));
    }
}
