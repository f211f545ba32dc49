//! Feeds and events as configured: topics that are read, and topics that are written.

pub(crate) mod events;
#[cfg(feature = "kafka")]
pub(crate) mod feeds;
#[cfg(not(feature = "kafka"))]
pub(crate) mod without_feeds;
#[cfg(not(feature = "kafka"))]
pub(crate) use without_feeds as feeds;
