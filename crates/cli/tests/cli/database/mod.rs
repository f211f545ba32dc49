//! A database, a disk or a clock in trouble.

mod any_error;
mod clock_set;
mod database_away;
pub(crate) mod database_trouble;
mod disk;
