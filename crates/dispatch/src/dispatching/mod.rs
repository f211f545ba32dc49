//! Starting what is due: claims, flows of one item or several, and the item types that say how.

pub(crate) mod batch;
pub(crate) mod cycle;
pub(crate) mod dispatcher;
mod exec_starts;
mod interval;
pub(crate) mod item_types;
pub(crate) mod rounds;
