//! Records that go out: dead letters with the headers by which SmallRye's tools know them, answers, and events.

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use tollgate_core::Timestamp;
use tollgate_core::ports::{DeadRecord, EventRecord, RecordAnswer};

/// Of a dead letter without anything else.
const MOST_REASON_CHARS: usize = 200;

pub(crate) fn dead(letter: &DeadRecord, topic: &str) -> Record {
    let mut headers: IndexMap<StrBytes, Option<Bytes>> = IndexMap::new();
    for (name, value) in &letter.record.headers {
        let value = value.as_ref().map(|value| Bytes::from(value.clone()));
        headers.insert(StrBytes::from_string(name.clone()), value);
    }
    headers.extend(origin(letter, topic, letter.reason.clone()));
    Record {
        key: letter.record.key.clone().map(Bytes::from),
        value: letter.record.value.clone().map(Bytes::from),
        headers,
        ..empty()
    }
}

type Header = (StrBytes, Option<Bytes>);

fn header(name: &'static str, value: String) -> Header {
    (StrBytes::from_static_str(name), Some(value.into()))
}

/// Why it is here, and where it came from.
fn origin(letter: &DeadRecord, topic: &str, reason: String) -> [Header; 4] {
    [
        header("dead-letter-reason", reason),
        header("dead-letter-topic", topic.to_owned()),
        header("dead-letter-partition", letter.partition.to_string()),
        header("dead-letter-offset", letter.record.offset.to_string()),
    ]
}

/// The same without its value, for a broker that takes no message of this size. The record itself is still where
/// its headers say.
pub(crate) fn without_value(mut record: Record) -> Record {
    record.headers.extend([truncated()]);
    record.value = None;
    record
}

/// Only where the record is and why, for one whose key or headers are too large: always small enough, since what cannot be
/// written stops its partition.
pub(crate) fn only_origin(letter: &DeadRecord, topic: &str) -> Record {
    let reason = letter.reason.chars().take(MOST_REASON_CHARS).collect();
    let headers = origin(letter, topic, reason).into_iter();
    Record {
        headers: headers.chain([truncated()]).collect(),
        ..empty()
    }
}

/// Of its key, value and headers.
pub(crate) fn bytes(record: &Record) -> usize {
    let length = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + length(value));
    length(&record.key) + length(&record.value) + headers.sum::<usize>()
}

fn truncated() -> Header {
    header("dead-letter-truncated", "true".to_owned())
}

pub(crate) fn answer(answer: &RecordAnswer) -> Record {
    keyed(answer, &answer.body_json)
}

pub(crate) fn short_answer(answer: &RecordAnswer) -> Record {
    keyed(answer, &answer.short_json)
}

fn keyed(answer: &RecordAnswer, body_json: &str) -> Record {
    Record {
        key: answer.key.clone().map(Bytes::from),
        value: Some(body_json.to_owned().into()),
        ..empty()
    }
}

/// A CloudEvent in its structured form, which the header says.
pub(crate) fn event(event: &EventRecord) -> Record {
    let name = StrBytes::from_static_str("content-type");
    let kind = Bytes::from_static(b"application/cloudevents+json; charset=UTF-8");
    Record {
        key: Some(event.key.clone().into()),
        value: Some(event.body_json.clone().into()),
        headers: IndexMap::from([(name, Some(kind))]),
        ..empty()
    }
}

fn empty() -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: 0,
        sequence: NO_SEQUENCE,
        timestamp: 0,
        key: None,
        value: None,
        headers: IndexMap::new(),
    }
}

/// One batch: its records' offsets and sequences are equally far apart.
pub(crate) fn batch(mut records: Vec<Record>, now: Timestamp) -> Result<Bytes, String> {
    for (place, record) in (0..).zip(&mut records) {
        record.offset = i64::from(place);
        record.sequence = NO_SEQUENCE + place;
        record.timestamp = now.as_millisecond();
    }
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    let mut bytes = BytesMut::new();
    let encoded = RecordBatchEncoder::encode(&mut bytes, &records, &options);
    encoded.map_err(|error| error.to_string())?;
    Ok(bytes.freeze())
}
