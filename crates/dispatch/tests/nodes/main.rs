//! The hard limit with several processes: they share nothing but a database and a bank, and the
//! judge is the bank's own ledger. Each node is this very binary, started again.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that panics says so, and a storm prints what it saw"
)]

mod clocks;
mod node;
mod refusals;
mod stopped;
mod storm;
mod town;
