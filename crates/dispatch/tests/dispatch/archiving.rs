//! The archiver: whole days after their end, by the ages in force, and what is not an item.

use std::time::Duration;

use tollgate_conformance::postgres::shared;
use tollgate_core::archive::{ArchiveDay, DayExport, DayState, DayStep, DayView};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{ActionResult, Author, KnownAsked, StatusMove};
use tollgate_core::retention::Ages;
use tollgate_dispatch::{ArchivedType, Archiver, OldAges, change_ages};

use crate::town::{Town, item, item_type, new_item};

const DAY: Duration = Duration::from_hours(24);
const AGES: Ages = Ages {
    hot_days: 30,
    archive_days: 400,
    known_years: 10,
};

fn things() -> ArchivedType {
    ArchivedType {
        item_type: item_type(),
        ages: AGES,
        remembered: true,
    }
}

fn archiver(town: &Town) -> Archiver {
    archiver_of(town, vec![things()])
}

fn archiver_of(town: &Town, types: Vec<ArchivedType>) -> Archiver {
    let old = OldAges {
        refused: DAY,
        imports: DAY,
        jobs: DAY,
    };
    Archiver::new(town.store.clone(), types, old)
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

#[tokio::test]
async fn an_id_is_known_for_the_years_in_force_and_then_forgotten() {
    let town = Town::new(100).await;
    an_archived_id(&town).await;
    know_for(&town, 50).await;
    town.store.open_era(None).await.unwrap();
    let archiver = archiver(&town);
    forget(&archiver).await;
    pass(&town, 11 * 365 * DAY).await;
    forget(&archiver).await;
    assert!(is_known(&town, "a0").await, "it would be paid again");
    know_for(&town, 10).await;
    forget(&archiver).await;
    assert!(!is_known(&town, "a0").await);
}

/// A jump of the clock looks like years that have passed, so a person needs time to set it right before anything is deleted.
#[tokio::test]
async fn a_clock_that_jumps_ahead_forgets_nothing_until_it_has_run_evenly_for_half_a_day() {
    let town = Town::new(100).await;
    an_archived_id(&town).await;
    town.store.open_era(None).await.unwrap();
    let archiver = archiver(&town);
    forget(&archiver).await;
    pass(&town, DAY).await;
    town.time.advance(11 * 365 * DAY);
    forget(&archiver).await;
    assert!(is_known(&town, "a0").await, "before the gate has seen it");
    town.store.open_era(None).await.unwrap();
    for _ in 0..2 {
        pass(&town, Duration::from_hours(5)).await;
        forget(&archiver).await;
        assert!(is_known(&town, "a0").await, "the era is young");
    }
    let restarted = self::archiver(&town);
    pass(&town, Duration::from_hours(3)).await;
    forget(&restarted).await;
    assert!(is_known(&town, "a0").await, "its first look");
    forget(&restarted).await;
    assert!(!is_known(&town, "a0").await);
}

/// In a day that is in a file only.
async fn an_archived_id(town: &Town) {
    town.admit("a", "default", 1).await;
    withdraw(town, "a0").await;
    town.time.advance(31 * DAY);
    assert_eq!(moved(town).await, 1);
    drop_days(town).await;
}

/// A round that moves nothing.
async fn forget(archiver: &Archiver) {
    assert_eq!(archiver.round(Duration::ZERO).await.unwrap(), 0);
}

/// On the store's clock and on this node's.
async fn pass(town: &Town, time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    town.time.advance(time);
}

#[tokio::test]
async fn an_item_of_a_day_in_files_only_is_said_until_the_day_is_restored() {
    let town = Town::new(100).await;
    an_item_of_a_day_in_files(&town).await;
}

#[tokio::test]
async fn an_item_of_a_day_in_files_only_is_said_until_the_day_is_restored_on_postgres() {
    let url = shared().database().await;
    an_item_of_a_day_in_files(&Town::on_postgres(&url, 100).await).await;
}

async fn an_item_of_a_day_in_files(town: &Town) {
    let (store, kind) = (&town.store, item_type());
    town.admit("a", "default", 2).await;
    withdraw(town, "a0").await;
    let day = ArchiveDay::of(store.now().await.unwrap());
    in_a_file(town, day).await;
    assert!(store.drop_day(&kind, day).await.unwrap());
    town.time.advance(31 * DAY);
    let mut since = vec![];
    for _ in 0..2 {
        assert_eq!(moved(town).await, 0);
        let noted = store.day_troubles(10).await.unwrap();
        assert_eq!(noted.len(), 1, "{noted:?}");
        assert_eq!((noted[0].day, noted[0].step), (day, DayStep::Move));
        let remedy = format!("tollgate archive restore {day}");
        assert!(noted[0].why.contains(&remedy), "{noted:?}");
        since.push(noted[0].since);
        town.time.advance(DAY);
    }
    assert_eq!(since[0], since[1], "it is the same trouble");
    in_a_file(town, day).await;
    assert_eq!(moved(town).await, 1);
    assert_eq!(store.day_troubles(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_type_that_fails_keeps_no_other_and_is_noted_until_a_round_goes_well() {
    let town = Town::new(100).await;
    town.admit("a", "default", 1).await;
    withdraw(&town, "a0").await;
    let day = ArchiveDay::of(town.store.now().await.unwrap());
    town.time.advance(31 * DAY);
    // In the file of another month.
    let other = Item::new(&ItemType::new("OTHER"), &ItemId::new("b"));
    let new = vec![new_item("b", "default")];
    town.store.admit(&other.item_type, new).await.unwrap();
    let status = StatusMove::new(&["SCHEDULED"], "CANCELLED");
    let cancelled = town.store.cancel(&other, status, ops()).await;
    assert_eq!(cancelled.unwrap(), ActionResult::Yes);
    town.time.advance(31 * DAY);
    let file = format!("t-archive-{}.db", day.month());
    let file = town.folder().join(file);
    std::fs::write(&file, "no database, and long enough to be looked at").unwrap();
    let others = ArchivedType {
        item_type: other.item_type.clone(),
        ..things()
    };
    let archiver = archiver_of(&town, vec![things(), others]);
    for _ in 0..2 {
        let error = archiver.round(Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains(&day.month()), "{error}");
    }
    assert!(town.store.archived_item(&other).await.unwrap().is_some());
    let noted = town.store.day_troubles(10).await.unwrap();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!((noted[0].day, noted[0].step), (day, DayStep::Archive));
    assert!(noted[0].why.contains(&day.month()), "{noted:?}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(archiver.round(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(town.store.day_troubles(10).await.unwrap(), []);
}

/// The clock was ahead at midnight when it was accepted, and had been set right when it ended.
#[tokio::test]
async fn an_item_that_ended_before_the_day_of_its_acceptance_moves_on_postgres() {
    let url = shared().database().await;
    let town = Town::on_postgres(&url, 100).await;
    town.time.advance(DAY);
    town.admit("a", "default", 1).await;
    town.time.turn_back(DAY);
    withdraw(&town, "a0").await;
    town.time.advance(40 * DAY);
    assert_eq!(moved(&town).await, 1);
}

/// As after a restore.
async fn in_a_file(town: &Town, day: ArchiveDay) {
    let export = DayExport {
        file: "file".into(),
        digest: "digest".into(),
        at: town.store.now().await.unwrap(),
    };
    let kind = item_type();
    let restored = town.store.complete_day(&kind, day, Some(export));
    restored.await.unwrap();
}

async fn know_for(town: &Town, years: u32) {
    let ages = Ages {
        known_years: years,
        ..AGES
    };
    change_ages(&*town.store, &item_type(), ages, ops())
        .await
        .unwrap();
}

async fn is_known(town: &Town, id: &str) -> bool {
    let asked = KnownAsked {
        item: item(id),
        content_hash: String::new(),
    };
    let known = town.store.known(vec![asked]).await.unwrap();
    known.into_iter().flatten().next().is_some()
}

/// As after an export.
async fn drop_days(town: &Town) {
    let (store, kind) = (&town.store, item_type());
    for day in store.archived_days(&kind, None, 10).await.unwrap() {
        let export = DayExport {
            file: "file".into(),
            digest: "digest".into(),
            at: store.now().await.unwrap(),
        };
        let marked = store.mark_exported(&kind, day.day, export);
        assert!(marked.await.unwrap());
        assert!(store.drop_day(&kind, day.day).await.unwrap());
    }
}
