//! Feeds: topics whose records are imported.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All feeds that have run on this store and were not forgotten.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedList {
    /// The feeds, sorted by name.
    pub feeds: Vec<Feed>,
}

/// A feed: a topic whose records are imported.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Feed {
    /// Name of the feed.
    #[schema(example = "payments")]
    pub name: String,
    /// Topic that the feed reads.
    pub topic: String,
    /// `PAYMENT` or `INVOICE`. Null before the first record is imported.
    #[schema(example = "PAYMENT")]
    pub item_type: Option<String>,
    /// Whether it is paused.
    pub paused: bool,
    /// Reason for the pause.
    pub paused_why: Option<String>,
    /// Actor who paused it; `feed` is Tollgate itself.
    pub paused_by: Option<String>,
    /// When it was paused.
    pub paused_at: Option<Timestamp>,
    /// Current problem: with the brokers, or partitions without a reader. Tollgate keeps trying.
    pub trouble: Option<String>,
    /// Time at which the problem was noticed.
    pub trouble_at: Option<Timestamp>,
    /// Last time at which a process read the feed. Set only if no process has read it for more than a minute.
    pub unread_since: Option<Timestamp>,
    /// Number of records that have not been read yet, as last seen. Out of date while no process reads the feed.
    pub lag: u64,
    /// Records read so far, dead letters included.
    pub records: u64,
    /// Records that could not be read and were copied to the dead-letter topic.
    pub dead_letters: u64,
    /// Time at which the last record was imported.
    pub last_record_at: Option<Timestamp>,
    /// The partitions of the topic.
    pub partitions: Vec<FeedPartition>,
}

/// One partition of a feed's topic.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedPartition {
    /// Number of the partition.
    pub partition: u32,
    /// Offset of the next record to read. Null before the first read.
    pub position: Option<i64>,
    /// Offset at which the partition ends, as last seen.
    pub log_end: Option<i64>,
    /// Process that reads the partition now.
    pub owner: Option<String>,
    /// Number of imported chunks whose records do not have slots yet.
    pub waiting_chunks: u64,
    /// Import that has the partition's records; its line numbers are offsets plus 1.
    pub batch_id: String,
}

/// Effect of a seek.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedSought {
    /// The feed after the seek.
    pub feed: Feed,
    /// What the seek means, in one sentence.
    pub effect: String,
}

/// Effect of forgetting a feed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedForgotten {
    /// Name of the feed.
    #[schema(example = "payments")]
    pub name: String,
    /// Effect, as one sentence.
    pub effect: String,
}

/// New position of a partition.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedSeek {
    /// Number of the partition.
    #[schema(minimum = 0)]
    pub partition: u32,
    /// Offset of the next record to read.
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_806_i64)]
    pub offset: u64,
    /// Reason, recorded in the audit log.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the topic was created again"
    )]
    pub reason: String,
}
