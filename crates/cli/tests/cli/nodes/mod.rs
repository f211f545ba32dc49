//! Several processes: leader and standbys, processes that wake up late, and Temporal.

pub(crate) mod standby;
mod standby_storm;
mod temporal;
mod temporal_storm;
mod woken;
