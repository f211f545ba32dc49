//! `DayTroubles`: what is wrong with a day stays noted through a restart, until the step goes well.

use std::time::Duration;

use tollgate_core::archive::{ArchiveDay, DayStep, DayTrouble};
use tollgate_core::ports::StoreError;

use super::archive::{DAY, all, ended};
use super::fixture::{Fixture, payment, payments, plan};

async fn noted(f: &dyn Fixture) -> Vec<(DayStep, String)> {
    let all = f.store().day_troubles(10).await.unwrap();
    let of = |it: DayTrouble| {
        assert_eq!(it.item_type, payments());
        (it.step, it.why)
    };
    all.into_iter().map(of).collect()
}

pub async fn a_trouble_stays_through_a_restart_until_the_step_goes_well(f: &dyn Fixture) {
    let (kind, day) = (payments(), ArchiveDay::of(f.now().await));
    let note = async |step, why: &str| {
        let noted = f
            .store()
            .note_day_trouble(&payments(), day, step, why)
            .await;
        noted.unwrap();
    };
    let end = async |step| f.store().end_day_trouble(&kind, day, step).await.unwrap();
    note(DayStep::Export, "full").await;
    let since = f.store().day_troubles(10).await.unwrap()[0].since;
    f.advance(Duration::from_mins(10)).await;
    f.restart().await;
    note(DayStep::Export, "still full").await;
    note(DayStep::Move, "in the way").await;
    let all = f.store().day_troubles(10).await.unwrap();
    assert_eq!(all[0].since, since, "the first time counts");
    let (export, moved) = (DayStep::Export, DayStep::Move);
    let expected = [
        (export, "still full".to_owned()),
        (moved, "in the way".to_owned()),
    ];
    assert_eq!(noted(f).await, expected);

    // A step with the file takes the place of another, and ends it when it goes well.
    note(DayStep::Drop, "edited").await;
    let expected = [
        (DayStep::Drop, "edited".to_owned()),
        (moved, "in the way".to_owned()),
    ];
    assert_eq!(noted(f).await, expected);
    assert!(end(DayStep::Verify).await);
    assert!(!end(DayStep::Verify).await);
    assert_eq!(noted(f).await, [(moved, "in the way".to_owned())]);
    assert!(end(moved).await);
    assert!(noted(f).await.is_empty());
}

/// Where the archive has partitions.
pub async fn a_table_made_by_hand_is_named_and_keeps_only_its_own_day(f: &dyn Fixture) {
    if f.typed("SELECT 1 FROM pg_inherits LIMIT 1").await.is_err() {
        return;
    }
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let first = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    ended(f, &["b"]).await;
    let (second, kind) = (ArchiveDay::of(f.now().await), payments());
    f.advance(DAY).await;
    let table = format!("archived_payment_{}", first.number());
    f.damage(&format!("CREATE TABLE {table} (by_hand integer)"))
        .await;
    let store = f.store();
    let why = match store.prepare_days(&kind, first, first).await {
        Err(StoreError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(why.contains(&table) && why.contains("drop it"), "{why}");
    let noted = store.note_day_trouble(&kind, first, DayStep::Move, &why);
    noted.await.unwrap();
    store.prepare_days(&kind, second, second).await.unwrap();
    let moves = async || {
        let today = ArchiveDay::of(f.now().await);
        let moved = f.store().move_ended(all(today.start())).await;
        moved.unwrap().moved
    };
    assert_eq!(moves().await, 1);
    let view = async |id: &str| f.store().item(&payment(id)).await.unwrap().unwrap();
    assert!(view("a").await.archived.is_none());
    assert!(view("b").await.archived.is_some());
    assert_eq!(store.days_ready(&kind, first).await.unwrap(), Some(0));
    f.damage(&format!("DROP TABLE {table}")).await;
    store.prepare_days(&kind, first, first).await.unwrap();
    let ended = store.end_day_trouble(&kind, first, DayStep::Move).await;
    assert!(ended.unwrap());
    assert_eq!(store.days_ready(&kind, first).await.unwrap(), Some(2));
    moves().await;
    assert!(view("a").await.archived.is_some(), "nothing is lost");
}
