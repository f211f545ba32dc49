//! The move into the archive beside a storm, at the service's own pace: it begins with the server, and what it moves is
//! counted from the first arrival on.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::super::seen::metric;
use super::{Beside, first_arrival};
use crate::arguments::Size;
use crate::stopwatch::Lap;
use crate::{ended, http};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Until the storm is over and its server is gone.
pub(super) fn look(door: SocketAddr, bank: &str, size: Size) -> Result<Beside> {
    first_arrival(bank)?;
    let (before, lap) = (moved(door)?, Lap::begin()?);
    let (mut last, mut secs) = (before, 0.0);
    while let Ok(moved) = moved(door) {
        (last, secs) = (moved, lap.wall().as_secs_f64());
        sleep(LOOK_EVERY);
    }
    let done = last - before;
    Ok(Beside {
        done,
        per_second: if secs > 0.0 { done / secs } else { 0.0 },
        was_over: last >= f64::from(ended::count(size)),
        ..Beside::default()
    })
}

fn moved(door: SocketAddr) -> Result<f64> {
    let text = http::get_text(door, "/metrics")?;
    Ok(metric(&text, "tollgate_archived_items_total"))
}
