//! Leases: what a process holds of a feed, or the right to publish events, until it has been silent for too long.

use std::time::Duration;

use crate::{SignedDuration, Timestamp};

/// How long a process may be silent.
pub const LEASE: Duration = Duration::from_secs(10);

/// How far a lease may end ahead of the clock, as so many times its length: once is what a process takes, and once more is for
/// a clock that was set back a little meanwhile. What ends later was taken by a clock that was ahead: the process that took it
/// has died, or takes it again within seconds.
pub const LEASES_AHEAD: u32 = 2;

/// The latest end of a lease that holds.
pub fn latest_end(now: Timestamp, lease: Duration) -> Timestamp {
    let ahead = SignedDuration::try_from(lease * LEASES_AHEAD).unwrap_or(SignedDuration::MAX);
    now.saturating_add(ahead).unwrap_or(Timestamp::MAX)
}
