//! Invoices on real stores and a real (sandbox) provider: every fault at every step, the retry schedule
//! through moved time, and the desired properties of the source document, each by its name.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod charging;
mod chunk_sweep;
mod corrections;
mod exec_sweep;
mod first_of_the_month;
mod properties;
mod scene;
