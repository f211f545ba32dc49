//! The binary as its users meet it: started from outside, spoken to over HTTP, killed with -9.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that panics says so, and a storm prints its seed"
)]

mod access;
mod adjust;
mod any_error;
mod api;
mod archive;
mod axe;
mod bad_input;
mod bad_starts;
mod bank_certificate;
mod bank_logins;
mod banks;
mod browser;
mod bulk;
mod cable;
mod clients;
mod clock_set;
mod completions;
mod console;
mod console_pages;
mod contract;
mod database_away;
mod database_trouble;
mod demo;
mod descriptors;
mod disk;
mod erase;
mod error_codes;
mod events;
mod exports;
mod feed_input;
mod feed_invoices;
mod feed_restore;
mod feed_storm;
mod feeds;
mod footing;
mod forecast;
mod gateways;
mod hostile_names;
mod http;
mod import;
mod in_doubt;
mod invoice_changes;
mod invoice_crashes;
mod invoices;
mod job_ask;
mod job_killed;
mod jobs;
mod journeys;
mod kafka;
mod kill_storm;
mod lanes;
mod lists;
mod needs_you;
mod notifications;
mod operators;
mod pair;
mod pictures;
mod promised;
mod reconfigured;
mod refusal_storm;
mod roles;
mod rules;
mod sandbox;
mod served;
mod shift_cures;
mod slow_clients;
mod standby;
mod standby_storm;
mod statement_counts;
mod status_check_crashes;
mod status_check_queries;
mod status_checks;
mod stopping;
mod strangers;
mod taken_back;
mod telemetry;
mod temporal;
mod temporal_storm;
mod tls;
mod tokens;
mod tour;
mod webdriver;
mod woken;
