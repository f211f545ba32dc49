//! The cold half: the ports whose use cases are written once, over `sql::Tx`, for both databases.
//! What many items go through each second (admission, claims, turns, settlements, counters) is not
//! here: it stays in the idiom of each database.

mod accounts;
mod amendments;
mod anew;
mod archive;
mod archive_days;
mod archive_lines;
mod archive_move;
mod archive_sums;
mod archive_turns;
mod audit;
mod audit_log;
mod bulk_since;
mod bulk_views;
mod bulks;
pub(crate) mod calendars;
mod certificate;
mod check_lists;
mod counts;
mod dead_letters;
mod doubts;
mod evidence;
mod feed_views;
mod feeds;
mod held;
mod interventions;
mod job_asks;
mod job_candidates;
mod job_views;
mod job_work;
mod jobs;
pub(crate) mod known;
pub(crate) mod lanes;
mod lists;
mod needs_you;
mod old;
mod outbox;
mod packing;
pub(crate) mod requests;
mod rule_stops;
mod sessions;
pub(crate) mod settings;
mod status_checks;
mod storms;
mod timetables;
