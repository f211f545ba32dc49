//! What every request goes through before its handler: who may call, how large it may be, and reading it.

pub(crate) mod access;
pub(crate) mod body;
pub(crate) mod extract;
pub(crate) mod limits;
pub(crate) mod origin;
pub(crate) mod page;
pub(crate) mod prefer;
pub(crate) mod request_id;
mod shape;
