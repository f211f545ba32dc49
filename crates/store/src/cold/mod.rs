//! The cold half: the ports whose use cases are written once, over `sql::Tx`, for both databases.
//! What many items go through each second (admission, claims, turns, settlements, counters) is not
//! here: it stays in the idiom of each database.

mod accounts;
mod amendments;
mod anew;
mod audit;
mod bulk_views;
mod bulks;
pub(crate) mod calendars;
mod certificate;
mod check_lists;
mod dead_letters;
mod doubts;
mod evidence;
mod interventions;
pub(crate) mod lanes;
pub(crate) mod requests;
mod rule_stops;
mod sessions;
pub(crate) mod settings;
mod status_checks;
mod storms;
mod timetables;
