//! Feeds: records of a topic, taken in like the lines of a file. Where a feed stands is ours to know: the next
//! position of a partition moves in the transaction that makes its records durable, and only for the process
//! that holds the partition.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::{Author, LineError, StoreResult, latest_end};
use crate::Timestamp;
use crate::id::{BulkId, ItemType};

#[async_trait]
pub trait Feeds: Send + Sync {
    /// Says that a process is there and wants partitions. It keeps what it holds up to its fair share, gives back the rest
    /// and takes what no process holds, also where a clock that was ahead has given it away for longer than a lease. A process that
    /// knows no partitions gives back everything and does not count. Nothing is held of a feed that is paused. A feed's topic changes
    /// once no other process reads the old one; until then both are read, each shared out for itself. A topic with another id than
    /// the one that its positions are of was created again: that pauses the feed, or replaces the reason for which it is paused;
    /// while the feed has another topic, nothing is held of it. Partitions that such a topic does not have once it was accepted are
    /// gone.
    async fn share_partitions(&self, wish: PartitionWish) -> StoreResult<Share>;

    /// Gives back everything that a process holds.
    async fn leave_feed(&self, feed: &str, owner: &str) -> StoreResult<()>;

    /// Writes where a partition begins. False if it has begun, or is held by another.
    async fn begin_partition(
        &self,
        partition: &PartitionId,
        fence: u64,
        position: i64,
    ) -> StoreResult<bool>;

    /// Makes records durable and moves the position, together and by compare-and-set: all of it, or, if the partition stands
    /// elsewhere, is held by another or the feed is paused, nothing (false). Nothing either while chunks of another item type
    /// wait: all that wait of a partition are of one type. What was said about these records when they were read before is void.
    async fn take_records(&self, partition: &PartitionId, records: FeedBatch) -> StoreResult<bool>;

    /// What of a partition is not admitted yet.
    async fn chunks_waiting(&self, partition: &PartitionId) -> StoreResult<ChunksWaiting>;

    /// Records before the position that were rejected and not answered yet, in their order.
    async fn unanswered(&self, partition: &PartitionId, limit: u32) -> StoreResult<Vec<LineError>>;

    /// These records were answered.
    async fn answered(&self, partition: &PartitionId, lines: Vec<u64>) -> StoreResult<()>;

    /// Keeps the last trouble with a feed, and when the first of them began; without one, or if it is not
    /// said again for a minute, it is over.
    async fn note_trouble(&self, feed: &str, trouble: Option<String>) -> StoreResult<()>;

    /// False if the feed is unknown or paused already.
    async fn pause_feed(&self, feed: &str, author: Author) -> StoreResult<bool>;

    /// Pauses a feed because of what the reader of a partition has met at a position. False also if the partition stands
    /// elsewhere or is held by another: a process that was stopped and wakes up pauses nothing that others read.
    async fn pause_feed_at(&self, at: ReadingAt, author: Author) -> StoreResult<bool>;

    /// False if the feed is unknown or not paused. If its topic was created again, the topic is from here on the one that it
    /// is at the next share; after another pause it is still the one that was read.
    async fn resume_feed(&self, feed: &str, author: Author) -> StoreResult<bool>;

    /// Moves a partition of a paused feed. Whoever held it holds it no more.
    async fn seek_feed(
        &self,
        partition: &PartitionId,
        position: i64,
        author: Author,
    ) -> StoreResult<Sought>;

    /// Deletes the positions of a feed that no process configures any more, in all its topics, and lists it no longer.
    /// Configured again, it is a feed that never ran.
    async fn forget_feed(&self, feed: &str, author: Author) -> StoreResult<Forgotten>;

    /// Every feed that has run on this store and was not forgotten, by name.
    async fn feeds(&self) -> StoreResult<Vec<FeedView>>;
}

/// One partition of a feed's topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    pub feed: String,
    pub topic: String,
    pub number: u32,
}

impl PartitionId {
    /// Its records are the lines of one bulk that never ends. A feed's name has no dot, so no two are the same.
    pub fn bulk(&self) -> BulkId {
        BulkId::new(format!("feed.{}.{}.{}", self.feed, self.topic, self.number))
    }

    /// The line of a record: lines count from 1 on, offsets from 0.
    pub fn line(offset: i64) -> u64 {
        u64::try_from(offset).unwrap_or(0).saturating_add(1)
    }

    pub fn offset(line: u64) -> i64 {
        i64::try_from(line.saturating_sub(1)).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} of topic {}", self.number, self.topic)
    }
}

/// What a process says when it asks for partitions.
#[derive(Debug, Clone)]
pub struct PartitionWish {
    pub feed: String,
    pub topic: String,
    /// This process, by a name that no other has.
    pub owner: String,
    /// The topic's, where the broker gives one.
    pub topic_id: Option<String>,
    /// All partitions of the topic; none while they are not known.
    pub partitions: Vec<u32>,
    /// Where logs end, as far as this process has seen.
    pub log_ends: Vec<(u32, i64)>,
    /// Who is silent for longer holds nothing any more.
    pub lease: Duration,
}

impl PartitionWish {
    /// Why a feed is paused whose topic has another id than before.
    pub fn created_again(&self) -> String {
        format!(
            "topic {} was created again, but the positions are those of the old topic; \
             seek every partition to 0 to read the new topic from its beginning, then resume",
            self.topic
        )
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Why the feed is paused.
    pub paused: Option<String>,
    pub held: Vec<HeldPartition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldPartition {
    pub number: u32,
    /// Of this holding; the next holder has a higher one.
    pub fence: u64,
    /// The next record; none before the first start.
    pub position: Option<i64>,
    /// It was added to the topic after the first look, and begins at its first record wherever the feed starts.
    pub from_first: bool,
}

/// Records of one partition, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedBatch {
    pub item_type: ItemType,
    pub fence: u64,
    /// Where the partition stands, and where it will.
    pub from: i64,
    pub next: i64,
    pub lines: u32,
    /// As chunks of files are written; empty if there are no lines.
    pub text: Vec<u8>,
    /// Records among them that went to the dead-letter topic.
    pub dead_letters: u32,
    /// Rejected records are to be answered.
    pub answers: bool,
    pub log_end: i64,
}

/// Where a reader of a partition is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingAt {
    pub partition: PartitionId,
    pub fence: u64,
    /// None if the partition has not begun.
    pub position: Option<i64>,
}

/// Chunks of a partition that are not admitted yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunksWaiting {
    pub chunks: u64,
    /// What their records are, or those of the last chunk; none before the first one.
    pub item_type: Option<ItemType>,
}

impl ChunksWaiting {
    /// The type of what waits, if records of this type cannot follow yet.
    pub fn of_another_type(&self, item_type: &ItemType) -> Option<&ItemType> {
        let waits = self.item_type.as_ref().filter(|_| self.chunks > 0);
        waits.filter(|waits| *waits != item_type)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sought {
    /// From where.
    Moved(Option<i64>),
    /// No such feed or partition has run here.
    Unknown,
    /// The feed runs; pause it first.
    Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    Done,
    /// No such feed has run here.
    Unknown,
    /// A process asked for its partitions less than a minute ago.
    Configured,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedView {
    pub feed: String,
    pub topic: String,
    pub paused: Option<FeedPause>,
    /// The last time that a process asked for partitions, if that is more than a minute ago: no process reads the feed.
    pub unread_since: Option<Timestamp>,
    /// With its brokers, or partitions without a reader.
    pub trouble: Option<FeedTrouble>,
    /// Of all its topics, since it was configured: what a person has seen is such a number, and must not become smaller.
    pub dead_letters: u64,
    pub partitions: Vec<PartitionView>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPause {
    pub why: String,
    pub by: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedTrouble {
    pub what: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionView {
    pub number: u32,
    /// The topic was created again without it; what it counted stays.
    pub is_gone: bool,
    /// What its records are; none before the first one was taken in.
    pub item_type: Option<ItemType>,
    pub position: Option<i64>,
    pub log_end: Option<i64>,
    /// The process that reads it now.
    pub owner: Option<String>,
    pub records: u64,
    pub dead_letters: u64,
    /// Chunks that are durable and not admitted yet.
    pub waiting: u64,
    pub last_record_at: Option<Timestamp>,
}

impl PartitionView {
    /// How many records are not read yet, as far as is known.
    pub fn lag(&self) -> Option<u64> {
        let left = self.log_end? - self.position?;
        Some(u64::try_from(left).unwrap_or(0))
    }
}

/// A partition as a store holds it when partitions are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub number: u32,
    pub owner: Option<String>,
    pub leased_until: Timestamp,
}

/// What one process does with the partitions of a topic.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Division {
    pub keep: Vec<u32>,
    pub give_back: Vec<u32>,
    pub take: Vec<u32>,
}

impl Division {
    /// The fair share is rounded up: of four processes with three partitions one has none.
    pub fn of(
        holdings: &[Holding],
        owner: &str,
        processes: usize,
        now: Timestamp,
        lease: Duration,
    ) -> Self {
        let live = now..=latest_end(now, lease);
        let fair = holdings.len().div_ceil(processes.max(1));
        let mut division = Self::default();
        for holding in holdings {
            if holding.owner.as_deref() == Some(owner) {
                if division.keep.len() < fair {
                    division.keep.push(holding.number);
                } else {
                    division.give_back.push(holding.number);
                }
            }
        }
        for holding in holdings {
            let is_free = match holding.owner.as_deref() {
                None => true,
                Some(other) => other != owner && !live.contains(&holding.leased_until),
            };
            if is_free && division.keep.len() + division.take.len() < fair {
                division.take.push(holding.number);
            }
        }
        division
    }
}

#[cfg(test)]
mod tests {
    use super::super::LEASE;
    use super::*;

    #[test]
    fn partitions_are_shared_fairly_and_taken_from_the_silent_only() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let holding = |(number, owner, live): (u32, Option<&str>, bool)| Holding {
            number,
            owner: owner.map(str::to_owned),
            leased_until: now + crate::SignedDuration::from_secs(if live { 10 } else { -5 }),
        };
        let table = [
            (vec![(0, None, false), (1, None, false)], 1, "", "", "0 1"),
            (vec![(0, None, false), (1, None, false)], 2, "", "", "0"),
            (
                vec![(0, Some("me"), true), (1, Some("me"), true)],
                2,
                "0",
                "1",
                "",
            ),
            (
                vec![(0, Some("me"), false), (1, Some("you"), true)],
                1,
                "0",
                "",
                "",
            ),
            (
                vec![(0, Some("you"), false), (1, Some("you"), true)],
                1,
                "",
                "",
                "0",
            ),
            (
                vec![
                    (0, Some("me"), true),
                    (1, Some("you"), false),
                    (2, None, true),
                ],
                2,
                "0",
                "",
                "1",
            ),
        ];
        for (holdings, processes, keep, give_back, take) in table {
            let holdings: Vec<_> = holdings.into_iter().map(holding).collect();
            let found = Division::of(&holdings, "me", processes, now, LEASE);
            let shown = |numbers: &[u32]| {
                let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
                numbers.join(" ")
            };
            assert_eq!(shown(&found.keep), keep, "{holdings:?}");
            assert_eq!(shown(&found.give_back), give_back, "{holdings:?}");
            assert_eq!(shown(&found.take), take, "{holdings:?}");
        }
    }

    #[test]
    fn a_lease_from_a_clock_that_was_ahead_is_dead_and_one_from_a_little_ahead_is_not() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for (ahead, taken) in [(-1, true), (0, false), (10, false), (20, false), (21, true)] {
            let holding = Holding {
                number: 0,
                owner: Some("you".into()),
                leased_until: now + crate::SignedDuration::from_secs(ahead),
            };
            let found = Division::of(&[holding], "me", 1, now, LEASE);
            assert_eq!(found.take == [0], taken, "{ahead}");
        }
    }

    #[test]
    fn a_record_is_a_line_of_its_partition() {
        let partition = PartitionId {
            feed: "payments".into(),
            topic: "bank.in".into(),
            number: 3,
        };
        assert_eq!(partition.bulk().as_str(), "feed.payments.bank.in.3");
        assert_eq!(PartitionId::line(0), 1);
        assert_eq!(PartitionId::offset(PartitionId::line(41)), 41);
    }
}
