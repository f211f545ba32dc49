//! What people and rules do to single items: cancel, release, reschedule, correct, replay, stop.

mod amendments;
pub(crate) mod anew;
mod dead_letters;
pub(crate) mod held;
pub(crate) mod operator_actions;
mod rule_stops;
