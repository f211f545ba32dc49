//! What operators do: from a shell, by the API, on one item or on many.

mod adjust;
mod job_ask;
mod job_killed;
pub(crate) mod jobs;
mod lanes;
mod lists;
mod needs_you;
mod operators;
pub(crate) mod rules;
mod shift_cures;
