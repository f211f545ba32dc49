//! What is told of a lane is a moment old, however it was put together.

use std::time::Duration;

use tollgate_core::SignedDuration;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::id::LaneName;
use tollgate_dispatch::{Forecaster, LEAST_WAY};

use crate::town::{Town, item_type};

async fn pass(town: &Town, time: Duration) {
    town.time.advance(time);
    tokio::time::advance(time).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_late_is_counted_by_a_timetable_of_the_last_second() {
    let town = Town::new(100).await;
    let (store, types) = (town.store.clone(), vec![item_type()]);
    let forecaster = Forecaster::new(store, types, DEFAULT_MARGIN, LEAST_WAY);
    let lane = LaneName::new("default");
    forecaster.lane(&lane).await.unwrap();
    pass(&town, Duration::from_millis(900)).await;
    let early = forecaster.late(&lane).await.unwrap();
    pass(&town, Duration::from_millis(1400)).await;
    let again = forecaster.late(&lane).await.unwrap();
    assert!(again.as_of > early.as_of, "it was counted again");
    let age = town.store.now().await.unwrap().duration_since(again.as_of);
    assert!(age < SignedDuration::from_millis(1100), "{age} old");
}
