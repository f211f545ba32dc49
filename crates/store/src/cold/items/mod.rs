//! What people and rules do to single items: cancel, release, reschedule, correct, replay, stop.

mod amendments;
mod dead_letters;
pub(crate) mod held;
pub(crate) mod new_slot;
pub(crate) mod operator_actions;
mod rule_stops;
