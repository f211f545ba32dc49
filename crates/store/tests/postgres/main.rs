//! What only PostgreSQL promises: open errors as sentences, and getting over database trouble.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admissions;
mod batches;
mod groups;
mod known_packs;
mod leadership;
mod many_claimers;
mod open_errors;
mod plans;
mod proxy;
mod sessions;
#[path = "../statements/mod.rs"]
mod statements;
mod timelines;
mod tls;
mod trouble;
