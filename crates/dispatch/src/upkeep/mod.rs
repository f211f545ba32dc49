//! What puts things right in the background: lost starts, replans that were cut off, old status checks.

pub(crate) mod check_retention;
pub(crate) mod reconciler;
pub(crate) mod sweeper;
