//! What runs in the background: it puts right lost starts and replans that were cut off, moves what has ended into the
//! archive, and forgets what is old or was asked to be forgotten.

pub(crate) mod archiver;
pub(crate) mod check_retention;
pub(crate) mod eraser;
pub(crate) mod reconciler;
pub(crate) mod retention;
pub(crate) mod sweeper;
