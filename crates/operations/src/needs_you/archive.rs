//! What needs a person about the archive: days that failed, and days whose file is late.

use tollgate_core::archive::DayTrouble;
use tollgate_core::ports::{Need, Pile, Store, StoreResult};

use super::{Needed, needed};
use crate::archive::Overdue;

/// More days than this are not counted.
const MOST_DAYS: u32 = 1000;

pub(super) async fn look(store: &dyn Store) -> StoreResult<Needed> {
    Ok(troubled(&store.day_troubles(MOST_DAYS).await?))
}

fn troubled(troubles: &[DayTrouble]) -> Needed {
    let mut need = needed(Need::ArchiveTroubled);
    for trouble in troubles {
        let since = Some(trouble.since);
        let one = Pile {
            newest: since,
            ..Pile::of(1, since)
        };
        let name = format!("{}-{}", trouble.item_type, trouble.day);
        need.name(&name, trouble.sentence(), one);
    }
    let most = usize::try_from(MOST_DAYS).unwrap_or(usize::MAX);
    need.pile.is_capped = troubles.len() >= most;
    need
}

pub(super) fn overdue(days: &[Overdue]) -> Needed {
    let mut need = needed(Need::ArchiveOverdue);
    for late in days {
        let since = Some(late.due);
        let one = Pile {
            newest: since,
            ..Pile::of(1, since)
        };
        need.name(&late.of.to_string(), late.sentence(), one);
    }
    need
}

#[cfg(test)]
mod tests {
    use tollgate_core::Timestamp;
    use tollgate_core::archive::DayStep;
    use tollgate_core::id::ItemType;

    use super::*;

    #[test]
    fn a_day_in_trouble_is_named_with_its_day_its_step_and_its_reason() {
        assert_eq!(troubled(&[]).pile.count, 0);
        let trouble = |day: &str, secs| DayTrouble {
            item_type: ItemType::new("PAYMENT"),
            day: day.parse().unwrap(),
            step: DayStep::Export,
            why: "the disk is full; free space".to_owned(),
            since: Timestamp::from_second(secs).unwrap(),
        };
        let found = troubled(&[trouble("2026-10-16", 7), trouble("2026-10-17", 9)]);
        assert_eq!((found.pile.count, found.named.len()), (2, 2));
        let at = |secs| Timestamp::from_second(secs).ok();
        assert_eq!((found.pile.oldest, found.pile.newest), (at(7), at(9)));
        let said = "PAYMENT of 2026-10-16 could not be exported: the disk is full; free space";
        assert_eq!(found.named[0].what, said);
    }
}
