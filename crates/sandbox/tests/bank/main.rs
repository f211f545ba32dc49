//! The bank as a client sees it, and what its ledger says about that. It checks the judge, so it
//! speaks HTTP by itself and uses nothing of Tollgate.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod charges;
mod client;
mod contract;
mod delays;
mod script;
mod spec;
mod visitors;
mod window;
mod wire;

use tollgate_sandbox::BankOptions;

fn struck_by(faults: &str) -> BankOptions {
    BankOptions {
        faults: faults.parse().unwrap(),
        ..BankOptions::default()
    }
}
