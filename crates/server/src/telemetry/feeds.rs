//! The gauges of feeds.

use std::collections::BTreeSet;

use metrics::gauge;
use rust_decimal::prelude::ToPrimitive;
use tollgate_core::Timestamp;
use tollgate_core::ports::{FeedView, PartitionView, Store, StoreResult};

/// Feeds that were shown keep their gauges, also when they are forgotten.
pub(super) async fn look(store: &dyn Store, shown: &mut BTreeSet<String>) {
    if let Err(error) = look_at_all(store, shown).await {
        tracing::warn!(%error, "feeds could not be measured");
    }
}

async fn look_at_all(store: &dyn Store, shown: &mut BTreeSet<String>) -> StoreResult<()> {
    let feeds = store.feeds().await?;
    if feeds.is_empty() && shown.is_empty() {
        return Ok(());
    }
    let now = store.now().await?;
    let mut forgotten = std::mem::take(shown);
    for feed in feeds {
        look_at(&feed, now);
        forgotten.remove(&feed.feed);
        shown.insert(feed.feed);
    }
    for feed in forgotten {
        for name in [
            "tollgate_feed_paused",
            "tollgate_feed_in_trouble",
            "tollgate_feed_lag_records",
        ] {
            gauge!(name, "feed" => feed.clone()).set(0.0);
        }
    }
    Ok(())
}

fn look_at(feed: &FeedView, now: Timestamp) {
    let name = &feed.feed;
    let set = |gauge: &'static str, value: f64| gauge!(gauge, "feed" => name.clone()).set(value);
    let number = |count: u64| count.to_f64().unwrap_or(0.0);
    set(
        "tollgate_feed_paused",
        f64::from(u8::from(feed.paused.is_some())),
    );
    set(
        "tollgate_feed_in_trouble",
        f64::from(u8::from(
            feed.trouble.is_some() || feed.unread_since.is_some(),
        )),
    );
    let partitions = feed.partitions.iter();
    let lag: u64 = partitions.clone().filter_map(PartitionView::lag).sum();
    set("tollgate_feed_lag_records", number(lag));
    if let Some(last) = partitions
        .clone()
        .filter_map(|one| one.last_record_at)
        .max()
    {
        let age = now.duration_since(last).as_secs_f64().max(0.0);
        set("tollgate_feed_last_record_age_seconds", age);
    }
    for partition in partitions.filter(|one| !one.is_gone) {
        let labels = [
            ("feed", name.clone()),
            ("partition", partition.number.to_string()),
        ];
        let position = partition.position.and_then(|at| at.to_f64());
        gauge!("tollgate_feed_position", &labels).set(position.unwrap_or(0.0));
    }
}
