//! Feeds and events against a Kafka cluster that is not ours.

pub(crate) mod events;
mod feed_group;
mod feed_input;
mod feed_invoices;
mod feed_restore;
mod feed_storm;
mod feeds;
