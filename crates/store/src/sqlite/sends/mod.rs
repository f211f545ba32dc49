//! Sends: turns at the gate, attempts, their settlement, refusal storms and eras of the clock.

pub(crate) mod attempts;
mod call_turns;
pub(crate) mod eras;
pub(crate) mod storms;
mod turns;
