//! `SharedClock`: the one clock that decides about time shared between nodes.

use super::fixture::{Fixture, HOUR, signed};

pub async fn the_clock_never_runs_backwards_by_itself(f: &dyn Fixture) {
    let mut last = f.now().await;
    for _ in 0..50 {
        let now = f.now().await;
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

pub async fn moving_the_time_moves_the_clock_of_every_node(f: &dyn Fixture) {
    let before = f.now().await;
    f.advance(2 * HOUR).await;
    assert!(f.now().await >= before + signed(2 * HOUR));
    f.turn_back(2 * HOUR).await;
    assert!(f.now().await < before + signed(HOUR));
}
