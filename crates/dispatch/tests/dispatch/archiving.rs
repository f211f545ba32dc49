//! The archiver: whole days after their end, by the ages in force, and what is not an item.

use std::time::Duration;

use tollgate_core::archive::{DayState, DayView};
use tollgate_core::ports::{ActionResult, Author, StatusMove};
use tollgate_core::retention::Ages;
use tollgate_dispatch::{ArchivedType, Archiver, OldAges, change_ages};

use crate::town::{Town, item, item_type};

const DAY: Duration = Duration::from_hours(24);
const AGES: Ages = Ages {
    hot_days: 30,
    archive_days: 400,
    known_years: 10,
};

fn archiver(town: &Town) -> Archiver {
    let things = ArchivedType {
        item_type: item_type(),
        ages: AGES,
        remembered: true,
    };
    let old = OldAges {
        refused: DAY,
        imports: DAY,
        jobs: DAY,
    };
    Archiver::new(town.store.clone(), vec![things], old)
}

async fn moved(town: &Town) -> u64 {
    archiver(town).round(Duration::ZERO).await.unwrap()
}

async fn withdraw(town: &Town, id: &str) {
    let (status, author) = (StatusMove::new(&["SCHEDULED"], "CANCELLED"), ops());
    let done = town.store.cancel(&item(id), status, author).await.unwrap();
    assert_eq!(done, ActionResult::Yes);
}

fn ops() -> Author {
    Author::new("ops", "because")
}

#[tokio::test]
async fn items_move_when_they_have_ended_for_the_days_in_force_and_their_day_is_closed() {
    let town = Town::new(100).await;
    // More than one batch, and one that has not ended among them.
    town.admit("a", "default", 120).await;
    for n in (0..120).filter(|n| *n != 7) {
        withdraw(&town, &format!("a{n}")).await;
    }
    assert_eq!(moved(&town).await, 0);
    town.time.advance(30 * DAY);
    assert_eq!(moved(&town).await, 0, "it is not 30 whole days yet");
    town.time.advance(DAY);
    assert_eq!(moved(&town).await, 119);
    assert_eq!(moved(&town).await, 0);
    assert!(town.item("a7").await.archived.is_none());
    assert!(town.item("a8").await.archived.is_some());
    let days = town.store.archived_days(&item_type(), None, 10).await;
    let days = days.unwrap();
    assert_eq!(days.iter().map(DayView::count).sum::<u64>(), 119);
    assert!(days.iter().all(|day| day.state == DayState::Closed));
}

#[tokio::test]
async fn a_change_of_the_ages_binds_with_the_next_round() {
    let town = Town::new(100).await;
    town.admit("a", "default", 3).await;
    for id in ["a0", "a1", "a2"] {
        withdraw(&town, id).await;
    }
    town.time.advance(3 * DAY);
    assert_eq!(moved(&town).await, 0);
    let ages = Ages {
        hot_days: 1,
        ..AGES
    };
    let changed = change_ages(&*town.store, &item_type(), ages, ops())
        .await
        .unwrap();
    assert_eq!(changed.setting.map(|it| it.version), Some(1));
    assert_eq!(moved(&town).await, 3);
}
