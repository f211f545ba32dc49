//! The services on a real store: the dispatcher with a scripted engine, the sender with a bank.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod archiving;
mod calls;
mod clock_jumps;
mod clock_money;
mod connections;
mod cutting;
mod dispatching;
mod erasing;
mod feed_fixture;
mod feed_troubles;
mod fenced_gate;
mod forecasting;
mod importing;
mod log;
mod logins;
mod lost_claims;
mod matrix;
mod money;
mod mutants;
mod order;
mod reading_feeds;
mod relaying;
mod relaying_past_trouble;
mod sending;
mod storms;
mod strangers;
mod sweeping;
mod town;
mod trouble;
mod unused;
mod woken;
