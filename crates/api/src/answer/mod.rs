//! What answers share: errors and their codes, lists as files, how answers are made, how much of an account is shown, and
//! where an answer comes from.

pub(crate) mod codes;
pub(crate) mod error;
pub(crate) mod export;
pub(crate) mod of;
pub(crate) mod sight;
pub(crate) mod source;
