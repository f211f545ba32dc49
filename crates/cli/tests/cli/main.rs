//! The binary as its users meet it: started from outside, spoken to over HTTP, killed with -9.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that panics says so, and a storm prints its seed"
)]

mod api;
mod bad_starts;
mod cable;
mod database_away;
mod database_trouble;
mod demo;
mod gateways;
mod http;
mod in_doubt;
mod kill_storm;
mod lanes;
mod pair;
mod sandbox;
mod served;
mod telemetry;
mod temporal;
mod temporal_storm;
