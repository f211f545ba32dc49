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

/// On SQLite there are no partitions, and nothing is in the way.
pub async fn a_table_made_by_hand_is_named_and_keeps_only_its_own_day(f: &dyn Fixture) {
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
    let is_in_the_way = match store.prepare_days(&kind, first, first).await {
        Ok(_) => false,
        Err(StoreError::Invalid(why)) => {
            assert!(why.contains(&table) && why.contains("drop it"), "{why}");
            let noted = store.note_day_trouble(&kind, first, DayStep::Move, &why);
            noted.await.unwrap();
            true
        }
        Err(error) => panic!("{error}"),
    };
    store.prepare_days(&kind, second, second).await.unwrap();
    let moves = async || {
        let today = ArchiveDay::of(f.now().await);
        let moved = f.store().move_ended(all(today.start())).await;
        moved.unwrap().moved
    };
    assert_eq!(moves().await, if is_in_the_way { 1 } else { 2 });
    let view = async |id: &str| f.store().item(&payment(id)).await.unwrap().unwrap();
    assert_eq!(view("a").await.archived.is_none(), is_in_the_way);
    assert!(view("b").await.archived.is_some());
    let ready = store.days_ready(&kind, first).await.unwrap();
    assert_eq!(ready, is_in_the_way.then_some(0));
    f.damage(&format!("DROP TABLE {table}")).await;
    store.prepare_days(&kind, first, first).await.unwrap();
    let ended = store.end_day_trouble(&kind, first, DayStep::Move).await;
    assert_eq!(ended.unwrap(), is_in_the_way);
    let ready = store.days_ready(&kind, first).await.unwrap();
    assert_eq!(ready, is_in_the_way.then_some(2));
    moves().await;
    assert!(view("a").await.archived.is_some(), "nothing is lost");
}
