//! The cold half: the ports whose use cases are written once, over `sql::Tx`, for both databases.
//! What many items go through each second (admission, claims, turns, settlements, counters) is not
//! here: it stays in the idiom of each database.

mod accounts;
mod audit;
mod bulk_views;
mod bulks;
pub(crate) mod calendars;
mod certificate;
mod check_lists;
pub(crate) mod lanes;
mod sessions;
pub(crate) mod settings;
mod status_checks;
mod storms;
