//! What answers share: errors and their codes, lists as files, how answers are made, and how much of an account is shown.

pub(crate) mod codes;
pub(crate) mod error;
pub(crate) mod export;
pub(crate) mod of;
pub(crate) mod sight;
