//! The cold half: the ports whose use cases are written once, over `sql::Tx`, for both databases.
//! What many items go through each second (admission, claims, turns, settlements, counters) is not
//! here: it stays in the idiom of each database.

mod accounts;
mod archive;
mod archive_days;
mod archive_found;
mod archive_lines;
mod archive_move;
mod archive_places;
mod archive_restore;
mod archive_sizes;
mod archive_sums;
mod archive_troubles;
mod archive_turns;
mod audit;
mod erase_items;
mod erase_news;
mod erase_texts;
mod erasures;
mod feeds;
mod imports;
mod in_doubt;
mod items;
mod jobs;
pub(crate) mod known;
pub(crate) mod lanes;
mod lists;
mod needs_you;
mod old;
mod outbox;
pub(crate) mod requests;
mod sessions;
pub(crate) mod settings;
mod status_checks;
