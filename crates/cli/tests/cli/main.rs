//! The binary as its users meet it: started from outside, spoken to over HTTP, killed with -9.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that panics says so, and a storm prints its seed"
)]

mod bank;
mod billing;
mod checks;
mod commands;
mod database;
mod door;
mod files;
mod fixture;
mod keep;
mod money;
mod nodes;
mod pages;
mod people;
mod promises;
mod topics;
