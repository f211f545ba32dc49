//! A fake bank and charging provider over HTTP/1.1 with faults on demand and an independent ledger of what arrived and
//! what took effect. It judges Tollgate, so it shares no code with it: it has its own clock, its
//! own reading of the contract, and no other tollgate crate among its dependencies.
//!
//! ```no_run
//! # async fn demo() -> anyhow::Result<()> {
//! use tollgate_sandbox::{Bank, BankOptions};
//!
//! let bank = Bank::start(BankOptions { limit_per_second: Some(50), ..BankOptions::default() })?;
//! // … point Tollgate at bank.url() …
//! bank.ledger().wait_for_arrivals(1_000).await;
//! assert!(bank.ledger().doubles().is_empty());
//! assert!(bank.ledger().worst_second().count <= 50);
//! bank.stop().await;
//! # Ok(())
//! # }
//! ```

mod answers;
mod bank;
mod books;
mod calls;
mod charge;
mod clock;
mod contract;
mod dialect;
mod entry;
mod fate;
mod faults;
mod ledger;
mod order;
mod request;
mod services;
mod spec;
mod visitors;
mod webhooks;
mod window;

pub use bank::{Bank, BankOptions};
pub use calls::ServiceCall;
pub use dialect::Dialect;
pub use entry::{Effect, Entry, Kind};
pub use faults::Faults;
pub use ledger::{CurrencyTotal, Ledger, Line, Summary};
pub use services::most_at_once;
pub use spec::SpecError;
pub use webhooks::{Delivery, Received, WEBHOOK_SECRET};
pub use window::{Worst, worst_second};
