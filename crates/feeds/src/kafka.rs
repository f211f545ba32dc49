//! A topic of Kafka as the source of a feed: partitions, records from a position on, dead letters, answers, and a group that shows
//! where we stand.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{FetchRequest, ListOffsetsRequest};
use kafka_protocol::records::Record;
use tollgate_core::Timestamp;
use tollgate_core::ports::{
    DeadRecord, FeedSource, Fetched, Log, RecordAnswer, SourceError, SourceResult, Topic,
};

use crate::batches::{self, Aborted, Unreadable};
use crate::connection::Access;
use crate::group::Group;
use crate::leaders::{Leaders, name_of};
use crate::outgoing;
use crate::produce::{Written, index, silent, too_large};
use crate::words::{refusal, trouble};

/// The oldest that leave out what is not committed, the newest without tagged fields: tansu 0.6 sends some that are not of the version
/// it speaks, which the decoder takes for an error. The same holds for what is produced and committed.
const FETCH: RangeInclusive<i16> = 4..=11;
const LIST_OFFSETS: RangeInclusive<i16> = 2..=5;

const READ_COMMITTED: i8 = 1;
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;
/// A broker closes the connection on a request that is larger than its `socket.request.max.bytes` (100 MiB, unless configured), and
/// gives no reason. A message is that large only when it is unpacked.
const MOST_LETTER_BYTES: usize = 16 * 1024 * 1024;
/// How long a broker waits for the first record.
const FETCH_WAIT_MS: i32 = 500;

/// Where records come from, and where what is said about them goes.
#[derive(Debug, Clone)]
pub struct KafkaTopics {
    pub records: String,
    pub dead_letters: String,
    pub answers: Option<String>,
    /// The consumer group that shows our positions.
    pub group: Option<String>,
}

#[derive(Debug)]
pub struct KafkaFeed {
    topics: KafkaTopics,
    leaders: Leaders,
    group: Option<Group>,
}

impl KafkaFeed {
    /// Connects to nobody yet.
    pub fn new(access: Access, topics: KafkaTopics) -> Self {
        Self {
            group: topics.group.clone().map(Group::new),
            topics,
            leaders: Leaders::new(access),
        }
    }

    async fn offset(&self, partition: u32, at: i64) -> SourceResult<i64> {
        let topic = &self.topics.records;
        let asked = ListOffsetsPartition::default()
            .with_partition_index(index(partition))
            .with_timestamp(at);
        let asked = ListOffsetsTopic::default()
            .with_name(name_of(topic))
            .with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_topics(vec![asked]);
        let asking = self.leaders.ask(topic, partition, &request, LIST_OFFSETS);
        let answer = asking.await?;
        let mut found = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let found = found.next().ok_or_else(|| silent(topic))?;
        self.leaders
            .agreed(found.error_code, "reading", topic, partition)
            .await?;
        Ok(found.offset)
    }

    /// As much of it as the topic takes, and a request may have.
    async fn put_aside(
        &self,
        topic: &str,
        to: u32,
        letter: &DeadRecord,
        now: Timestamp,
    ) -> SourceResult<()> {
        let whole = outgoing::dead(letter, &self.topics.records);
        let forms = [
            whole.clone(),
            outgoing::without_value(whole),
            outgoing::only_origin(letter, &self.topics.records),
        ];
        let fits = |record: &Record| outgoing::bytes(record) <= MOST_LETTER_BYTES;
        for record in forms.into_iter().filter(fits) {
            let written = self.leaders.write(topic, to, vec![record], now).await?;
            if let Written::Done = written {
                return Ok(());
            }
        }
        Err(too_large(topic))
    }

    async fn answer_in_short(
        &self,
        topic: &str,
        partition: u32,
        answer: &RecordAnswer,
        now: Timestamp,
    ) -> SourceResult<()> {
        let record = vec![outgoing::short_answer(answer)];
        match self.leaders.write(topic, partition, record, now).await? {
            Written::Done => Ok(()),
            Written::TooLarge => Err(too_large(topic)),
        }
    }
}

#[async_trait]
impl FeedSource for KafkaFeed {
    async fn topic(&self) -> SourceResult<Topic> {
        self.leaders.topic(&self.topics.records).await
    }

    async fn log(&self, partition: u32) -> SourceResult<Log> {
        Ok(Log {
            first: self.offset(partition, EARLIEST).await?,
            end: self.offset(partition, LATEST).await?,
        })
    }

    async fn fetch(&self, partition: u32, from: i64, max_bytes: usize) -> SourceResult<Fetched> {
        let topic = &self.topics.records;
        let most = i32::try_from(max_bytes).unwrap_or(i32::MAX);
        let wanted = FetchPartition::default()
            .with_partition(index(partition))
            .with_fetch_offset(from)
            .with_partition_max_bytes(most);
        let wanted = FetchTopic::default()
            .with_topic(name_of(topic))
            .with_partitions(vec![wanted]);
        let request = FetchRequest::default()
            .with_replica_id((-1).into())
            .with_max_wait_ms(FETCH_WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(most)
            .with_isolation_level(READ_COMMITTED)
            .with_topics(vec![wanted]);
        let answer = self.leaders.ask(topic, partition, &request, FETCH).await?;
        refusal(answer.error_code, "reading", topic)?;
        let found = answer
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions);
        let found = found.into_iter().next().ok_or_else(|| silent(topic))?;
        if found.error_code == ResponseError::OffsetOutOfRange.code() {
            let why = format!("position {from} is not in the log of partition {partition}");
            return Err(SourceError::OutOfRange(why));
        }
        self.leaders
            .agreed(found.error_code, "reading", topic, partition)
            .await?;
        fetched(found, from).map_err(|Unreadable { why, behind }| {
            let remedy = match behind {
                Some(behind) => {
                    format!("seek partition {partition} to {behind} to pass these records")
                }
                None => "seek beyond these records".to_owned(),
            };
            trouble(format!(
                "partition {partition} of topic {topic} cannot be read from {from} on: {why}; \
                 if this persists, pause the feed and {remedy}"
            ))
        })
    }

    /// Beside its own, as far as the dead-letter topic has as many partitions.
    async fn dead_letter(&self, letters: &[DeadRecord], now: Timestamp) -> SourceResult<()> {
        let topic = &self.topics.dead_letters;
        let partitions = self.leaders.topic(topic).await?.partitions;
        for letter in letters {
            let to = beside(&partitions, letter.partition);
            self.put_aside(topic, to, letter, now).await?;
        }
        Ok(())
    }

    /// Beside their own partition, too: a broker that is silent holds up the answers of its own partitions only.
    async fn answer(
        &self,
        partition: u32,
        answers: &[RecordAnswer],
        now: Timestamp,
    ) -> SourceResult<()> {
        let Some(topic) = &self.topics.answers else {
            return Ok(());
        };
        let partitions = self.leaders.topic(topic).await?.partitions;
        let to = beside(&partitions, partition);
        let mut left = vec![answers];
        while let Some(some) = left.pop() {
            let records = some.iter().map(outgoing::answer).collect();
            match (self.leaders.write(topic, to, records, now).await?, some) {
                (Written::Done, _) => {}
                (Written::TooLarge, [answer]) => {
                    self.answer_in_short(topic, to, answer, now).await?;
                }
                (Written::TooLarge, _) => {
                    let (first, rest) = some.split_at(some.len() / 2);
                    left.extend([rest, first].iter().filter(|half| !half.is_empty()));
                }
            }
        }
        Ok(())
    }

    async fn show_positions(&self, positions: &[(u32, i64)]) -> SourceResult<()> {
        let Some(group) = &self.group else {
            return Ok(());
        };
        let topic = &self.topics.records;
        group.commit(&self.leaders, topic, positions).await
    }
}

fn beside(partitions: &[u32], number: u32) -> u32 {
    let count = u32::try_from(partitions.len()).unwrap_or(1).max(1);
    let place = (number % count) as usize;
    partitions.get(place).copied().unwrap_or(0)
}

fn fetched(found: PartitionData, from: i64) -> Result<Fetched, Unreadable> {
    let aborted = found.aborted_transactions.unwrap_or_default();
    let aborted = aborted.iter().map(|transaction| Aborted {
        first_offset: transaction.first_offset,
        producer: transaction.producer_id.0,
    });
    let bytes: Bytes = found.records.unwrap_or_default();
    let has_some = !bytes.is_empty();
    let read = batches::read(bytes, from, aborted.collect())?;
    if has_some && read.next == from {
        return Err(Unreadable {
            why: "the broker returned no complete batch".to_owned(),
            behind: None,
        });
    }
    Ok(Fetched {
        records: read.records,
        next: read.next,
        log_end: found.high_watermark,
        // Brokers that know no transactions say -1.
        committed_end: match found.last_stable_offset {
            ..0 => found.high_watermark,
            stable => stable.min(found.high_watermark),
        },
    })
}
