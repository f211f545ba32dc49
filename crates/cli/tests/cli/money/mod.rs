//! Money: nothing lost, nothing paid twice, whatever happens. The judge is the bank's ledger.

mod in_doubt;
pub(crate) mod kill_storm;
mod notifications;
mod reconfigured;
mod stopping;
mod taken_back;
