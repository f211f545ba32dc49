//! Accepting files, chunk by chunk, in the order of their lines.

pub(crate) mod file_order;
pub(crate) mod import_runner;
