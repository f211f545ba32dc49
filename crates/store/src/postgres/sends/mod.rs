//! Sends: turns at the gate, attempts, their settlement, refusal storms and eras of the clock.

pub(crate) mod attempts;
mod call_turns;
pub(crate) mod eras;
mod open_attempts;
pub(crate) mod settle;
pub(crate) mod storms;
mod turns;
