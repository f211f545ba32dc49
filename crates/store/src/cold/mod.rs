//! The cold half: the ports whose use cases are written once, over `sql::Tx`, for both databases.
//! What many items go through each second (admission, claims, turns, settlements, counters) is not
//! here: it stays in the idiom of each database.

mod accounts;
pub(crate) mod archive;
mod audit;
mod erasures;
mod feeds;
mod imports;
mod in_doubt;
mod items;
mod jobs;
pub(crate) mod lanes;
mod lists;
mod needs_you;
mod outbox;
pub(crate) mod requests;
mod sessions;
pub(crate) mod settings;
mod status_checks;
