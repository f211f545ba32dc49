//! Status checks, and what a crash leaves of one.

mod status_check_crashes;
mod status_check_queries;
pub(crate) mod status_checks;
