//! Whether the database still has all of a day: its lines must add up to the sums that were recorded when they moved.

use tollgate_core::archive::{DayState, DaySum, DayView};
use tollgate_core::id::ItemId;

use super::compare::DIFFERS;
use super::export::{id_of, still_open};
use super::line::LineHead;
use super::manifest::{Tally, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE};

impl Exports {
    /// A day that has lost lines must never take the place of its export, which may be the only copy.
    pub(super) async fn has_all(&self, of: &TypeDay, found: &[DaySum]) -> ArchiveResult<()> {
        let Some(day) = self.day(of).await? else {
            return Err(super::export::unknown(of));
        };
        // Read after the lines: what moved in meanwhile has opened the day.
        if day.state == DayState::Open {
            return Err(still_open(of));
        }
        compared(of, &day, found)
    }

    /// With the remedy: a bad file is written again from a database that has all of the day, and a database that has not is
    /// what is wrong if a file differs from it.
    pub(super) async fn with_remedy<T>(
        &self,
        of: &TypeDay,
        done: ArchiveResult<T>,
    ) -> ArchiveResult<T> {
        let Err(ArchiveError::Mismatch(why)) = done else {
            return done;
        };
        Err(match self.has_whole_day(of).await {
            Ok(true) => ArchiveError::Mismatch(remedied(of, &why)),
            Err(lost @ ArchiveError::Mismatch(_)) if why.contains(DIFFERS) => lost,
            Ok(false) | Err(_) => ArchiveError::Mismatch(why),
        })
    }

    /// False for a day that is in files only; a mismatch says what is lost.
    pub(super) async fn has_whole_day(&self, of: &TypeDay) -> ArchiveResult<bool> {
        let day = self.day(of).await?;
        let Some(day) = day.filter(|day| day.state != DayState::Dropped) else {
            return Ok(false);
        };
        let (mut tally, mut after): (Tally, Option<ItemId>) = (Tally::default(), None);
        loop {
            let (item_type, on) = (&of.item_type, of.day);
            let lines = (self.store).archived_lines(item_type, on, after.as_ref(), LINES_AT_ONCE);
            let lines = lines.await?;
            let Some(last) = lines.last() else { break };
            after = Some(id_of(of, last)?);
            for line in &lines {
                let added = LineHead::read(line).and_then(|head| tally.add(&head));
                added.map_err(|why| ArchiveError::Mismatch(format!("{of}: a line {why}")))?;
            }
        }
        compared(of, &day, &tally.totals()).map(|()| true)
    }
}

fn remedied(of: &TypeDay, why: &str) -> String {
    let day = of.day;
    match why.split_once("; recover ") {
        Some((what, _)) => format!(
            "{what}; the database has the whole day, so write it again (tollgate archive export {day})"
        ),
        None => why.to_owned(),
    }
}

/// The sums of a day in the order of a manifest's totals.
pub(super) fn recorded(day: &DayView) -> Vec<DaySum> {
    let mut sums = day.sums.clone();
    sums.sort_by(|one, other| (&one.status, &one.currency).cmp(&(&other.status, &other.currency)));
    sums
}

fn compared(of: &TypeDay, day: &DayView, found: &[DaySum]) -> ArchiveResult<()> {
    let recorded = recorded(day);
    if recorded == found {
        return Ok(());
    }
    let count = |sums: &[DaySum]| sums.iter().map(|sum| sum.count).sum::<u64>();
    let (has, had) = (count(found), count(&recorded));
    let what = match has.cmp(&had) {
        std::cmp::Ordering::Less => format!("the database has {has} of {had} items of {of}"),
        std::cmp::Ordering::Equal => {
            format!("the {has} items of {of} in the database do not add up to its recorded totals")
        }
        std::cmp::Ordering::Greater => {
            format!("the database has {has} items of {of} and has recorded {had}")
        }
    };
    let remedy = if day.export.is_some() {
        let day = of.day;
        format!("restore the day from its file (tollgate archive restore {day})")
    } else {
        "recover the archive of the database from a backup".to_owned()
    };
    Err(ArchiveError::Mismatch(format!(
        "{what}; {remedy}; no file was overwritten"
    )))
}

#[cfg(test)]
mod tests {
    use tollgate_core::archive::DayExport;
    use tollgate_core::id::ItemType;

    use super::*;

    fn sum(status: &str, count: u64, amount_minor: i64) -> DaySum {
        DaySum {
            status: status.to_owned(),
            currency: "USD".to_owned(),
            count,
            amount_minor,
        }
    }

    #[test]
    fn a_day_that_lost_lines_is_named_with_its_remedy() {
        let of = TypeDay {
            item_type: ItemType::new("PAYMENT"),
            day: "2026-11-17".parse().unwrap(),
        };
        let view = |export| DayView {
            item_type: of.item_type.clone(),
            day: of.day,
            state: DayState::Exported,
            sums: vec![sum("REJECTED", 1, 7), sum("PROCESSING", 2, 150)],
            export,
            dropped_at: None,
            restored_at: None,
        };
        let file = DayExport {
            file: "f".to_owned(),
            digest: "d".to_owned(),
            at: "2026-11-18T00:00:00Z".parse().unwrap(),
        };
        let day = view(Some(file));
        let all = [sum("PROCESSING", 2, 150), sum("REJECTED", 1, 7)];
        compared(&of, &day, &all).unwrap();
        for (found, told) in [
            (
                vec![],
                "has 0 of 3 items of PAYMENT-2026-11-17; restore the day",
            ),
            (vec![sum("PROCESSING", 2, 150)], "has 2 of 3 items"),
            (
                vec![sum("PROCESSING", 2, 151), sum("REJECTED", 1, 7)],
                "do not add up",
            ),
            (
                vec![sum("PROCESSING", 4, 150)],
                "has 4 items of PAYMENT-2026-11-17 and has recorded 3",
            ),
        ] {
            let why = compared(&of, &day, &found).unwrap_err().to_string();
            assert!(why.contains(told), "{why}");
            assert!(why.contains("tollgate archive restore 2026-11-17"), "{why}");
        }
        let why = compared(&of, &view(None), &[]).unwrap_err().to_string();
        assert!(why.contains("from a backup"), "{why}");
    }
}
