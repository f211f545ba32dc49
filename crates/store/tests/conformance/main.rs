//! Every adapter of the store against the promises of its ports, and what each promises beyond
//! them; one module per adapter.
#![expect(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made fails its test"
)]

mod postgres;
mod sqlite;
mod sqlite_archive;
mod sqlite_plans;
mod sqlite_shell;
#[path = "../statements/mod.rs"]
mod statements;
mod what_grows;
mod what_is_archived;
