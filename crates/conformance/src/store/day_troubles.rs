//! `DayTroubles`: what is wrong with a day stays noted through a restart, until the step goes well.

use std::time::Duration;

use tollgate_core::archive::{ArchiveDay, DayStep, DayTrouble};

use super::fixture::{Fixture, payments};

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
        let noted = f.store().note_trouble(&payments(), day, step, why).await;
        noted.unwrap();
    };
    let end = async |step| f.store().end_trouble(&kind, day, step).await.unwrap();
    note(DayStep::Export, "full").await;
    let since = f.store().day_troubles(10).await.unwrap()[0].since;
    f.advance(Duration::from_mins(10)).await;
    f.restart().await;
    note(DayStep::Export, "still full").await;
    note(DayStep::Move, "in the way").await;
    let all = f.store().day_troubles(10).await.unwrap();
    assert_eq!(all[0].since, since, "the first time counts");
    let (export, moved) = (DayStep::Export, DayStep::Move);
    let expected = [(export, "still full".into()), (moved, "in the way".into())];
    assert_eq!(noted(f).await, expected);

    // A step with the file takes the place of another, and ends it when it goes well.
    note(DayStep::Drop, "edited").await;
    let expected = [
        (DayStep::Drop, "edited".into()),
        (moved, "in the way".into()),
    ];
    assert_eq!(noted(f).await, expected);
    assert!(end(DayStep::Verify).await);
    assert!(!end(DayStep::Verify).await);
    assert_eq!(noted(f).await, [(moved, "in the way".to_owned())]);
    assert!(end(moved).await);
    assert_eq!(noted(f).await, []);
}
