//! What the API says of any item: what happened to it, why it waits, and when it will run.

pub(crate) mod foreseen;
pub(crate) mod timeline;
pub(crate) mod why;
