//! Turns of calls that belong to no item.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_dispatch::{Gate, GateOptions};

use crate::town::Town;

#[tokio::test]
async fn a_call_waits_at_a_paused_lane_as_long_as_it_has_patience() {
    let town = Town::new(100).await;
    let paused = |pause| LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    let pause = Pause::now("ops", "bank down");
    town.change("default", paused(Some(pause))).await;
    let gate = Arc::new(Gate::new(town.store.clone(), GateOptions::default()));
    let call = async |patience| {
        let lane = LaneName::new("default");
        gate.call_turn(&lane, Decimal::ONE, patience).await
    };
    let why = call(Duration::from_millis(100)).await.unwrap_err();
    assert!(
        why.contains("within 100ms") && why.contains("bank down"),
        "{why}"
    );
    let (called, ()) = tokio::join!(
        call(Duration::from_mins(1)),
        town.change("default", paused(None))
    );
    assert_eq!(called, Ok(()));
}
