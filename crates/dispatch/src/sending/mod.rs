//! One send, from the past of its item to its settled outcome: decide, take a turn, exchange, judge, follow up.

mod breaker;
mod count;
mod decide;
mod exchange;
mod follow;
pub(crate) mod job;
mod lane_care;
pub(crate) mod sender;
pub(crate) mod unused;
