//! Writing records to a topic: one batch to one partition, durable when it is acknowledged.

use std::ops::RangeInclusive;

use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::records::Record;
use tollgate_core::Timestamp;
use tollgate_core::ports::{SourceError, SourceResult};

use crate::leaders::{Leaders, name_of};
use crate::outgoing;
use crate::words::{is_too_large, refusal, trouble};

const PRODUCE: RangeInclusive<i16> = 3..=8;
/// A record counts as written when every replica in sync has it.
const ALL_REPLICAS: i16 = -1;
const PRODUCE_WITHIN_MS: i32 = 10_000;

pub(crate) enum Written {
    Done,
    TooLarge,
}

impl Leaders {
    pub(crate) async fn write(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<Record>,
        now: Timestamp,
    ) -> SourceResult<Written> {
        let batch = outgoing::batch(records, now).map_err(trouble)?;
        let data = PartitionProduceData::default()
            .with_index(index(partition))
            .with_records(Some(batch));
        let data = TopicProduceData::default()
            .with_name(name_of(topic))
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_acks(ALL_REPLICAS)
            .with_timeout_ms(PRODUCE_WITHIN_MS)
            .with_topic_data(vec![data]);
        let answer = self.ask(topic, partition, &request, PRODUCE).await?;
        let mut found = answer.responses.iter();
        let mut found = found.by_ref().flat_map(|topic| &topic.partition_responses);
        let code = found.next().ok_or_else(|| silent(topic))?.error_code;
        if is_too_large(code) {
            return Ok(Written::TooLarge);
        }
        self.agreed(code, "writing to", topic, partition).await?;
        Ok(Written::Done)
    }

    /// A refusal may mean that another broker leads now.
    pub(crate) async fn agreed(
        &self,
        code: i16,
        doing: &str,
        topic: &str,
        partition: u32,
    ) -> SourceResult<()> {
        let agreed = refusal(code, doing, topic);
        if agreed.is_err() {
            self.forget(topic, partition).await;
        }
        agreed
    }
}

pub(crate) fn index(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

pub(crate) fn silent(topic: &str) -> SourceError {
    trouble(format!("the broker returned nothing about topic {topic}"))
}

pub(crate) fn too_large(topic: &str) -> SourceError {
    trouble(format!(
        "topic {topic} rejects a message of this size; raise its max.message.bytes"
    ))
}
