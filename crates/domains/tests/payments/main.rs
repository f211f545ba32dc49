//! The flows of payments and of their notifications on a real store and a real (sandbox) bank, with every fault at every step.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod any_input;
mod batch_sweep;
mod before_send;
mod bulk_order;
mod bulk_sweep;
mod exec_sweep;
mod init_sweep;
mod intake;
mod news_sweep;
mod rules;
mod scene;
