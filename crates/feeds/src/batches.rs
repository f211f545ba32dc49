//! What a fetch has brought: whole batches, from which the records of aborted transactions and the markers of
//! transactions are left out. A payment whose transaction was aborted must not be paid.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use kafka_protocol::records::{Record, RecordBatchDecoder};
use tollgate_core::ports::FeedRecord;

/// Offset, length, epoch, magic, checksum, attributes, last offset, times, producer, count.
const HEADER: usize = 61;
/// What comes before the part that the length counts.
const BEFORE_LENGTH: usize = 12;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// The type of a marker, in its key.
const ABORT: i16 = 0;

/// A transaction that was aborted: whose, and from where on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aborted {
    pub(crate) first_offset: i64,
    pub(crate) producer: i64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) records: Vec<FeedRecord>,
    pub(crate) next: i64,
}

/// Reads what is whole; a batch that is cut off comes again with the next fetch.
pub(crate) fn read(mut bytes: Bytes, from: i64, mut aborted: Vec<Aborted>) -> Result<Read, String> {
    aborted.sort_unstable();
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting: BTreeSet<i64> = BTreeSet::new();
    let mut read = Read {
        records: vec![],
        next: from,
    };
    while let Some(header) = Header::of(&bytes)? {
        let batch = bytes.split_to(header.bytes);
        while let Some(transaction) = aborted.next_if(|at| at.first_offset <= header.last_offset) {
            aborting.insert(transaction.producer);
        }
        let is_of_aborted = header.is_transactional && aborting.contains(&header.producer);
        if header.is_control {
            if is_abort(batch)? {
                aborting.remove(&header.producer);
            }
        } else if !is_of_aborted {
            let records = records(batch)?.into_iter();
            let wanted = records.filter(|record| record.offset >= from);
            read.records.extend(wanted.map(feed_record));
        }
        read.next = read.next.max(header.last_offset + 1);
    }
    Ok(read)
}

struct Header {
    bytes: usize,
    last_offset: i64,
    producer: i64,
    is_transactional: bool,
    is_control: bool,
}

impl Header {
    /// None if no whole batch is left.
    fn of(bytes: &Bytes) -> Result<Option<Self>, String> {
        if bytes.len() < HEADER {
            return Ok(None);
        }
        let mut header = &bytes[..HEADER];
        let base = header.get_i64();
        let length = usize::try_from(header.get_i32()).map_err(|_| "a batch of negative length")?;
        let whole = BEFORE_LENGTH + length;
        header.advance(4);
        let magic = header.get_i8();
        if magic < 2 {
            return Err("the records are in a format from before Kafka 0.11".to_owned());
        }
        if whole < HEADER {
            return Err("a batch is shorter than its header".to_owned());
        }
        if bytes.len() < whole {
            return Ok(None);
        }
        header.advance(4);
        let attributes = header.get_i16();
        let last_offset = base.saturating_add(i64::from(header.get_i32()));
        header.advance(16);
        Ok(Some(Self {
            bytes: whole,
            last_offset,
            producer: header.get_i64(),
            is_transactional: attributes & TRANSACTIONAL != 0,
            is_control: attributes & CONTROL != 0,
        }))
    }
}

fn records(mut batch: Bytes) -> Result<Vec<Record>, String> {
    let decoded = RecordBatchDecoder::decode(&mut batch);
    Ok(decoded.map_err(|error| error.to_string())?.records)
}

/// Whether a marker ends a transaction by aborting it: its key is a version and a type.
fn is_abort(batch: Bytes) -> Result<bool, String> {
    let records = records(batch)?;
    let mut keys = records.iter().filter_map(|record| record.key.as_deref());
    Ok(keys.any(|mut key| {
        key.len() >= 4 && {
            key.advance(2);
            key.get_i16() == ABORT
        }
    }))
}

fn feed_record(record: Record) -> FeedRecord {
    let headers = record.headers.into_iter();
    FeedRecord {
        offset: record.offset,
        key: record.key.map(|key| key.to_vec()),
        value: record.value.map(|value| value.to_vec()),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.map(|value| value.to_vec())))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use indexmap::IndexMap;
    use kafka_protocol::records::{
        Compression, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
    };

    use super::*;

    fn record(offset: i64, producer: i64, transactional: bool, control: Option<i16>) -> Record {
        let marker = |kind: i16| Bytes::from([0_i16.to_be_bytes(), kind.to_be_bytes()].concat());
        Record {
            transactional,
            control: control.is_some(),
            delete_horizon: false,
            partition_leader_epoch: 0,
            producer_id: producer,
            producer_epoch: 0,
            timestamp_type: TimestampType::Creation,
            offset,
            sequence: i32::try_from(offset).unwrap(),
            timestamp: 0,
            key: control.map(marker),
            value: Some(Bytes::from(format!("record {offset}"))),
            headers: IndexMap::new(),
        }
    }

    fn batch(records: &[Record], compression: Compression) -> Bytes {
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions {
            version: 2,
            compression,
        };
        RecordBatchEncoder::encode(&mut bytes, records, &options).unwrap();
        bytes.freeze()
    }

    fn log(batches: &[&[Record]]) -> Bytes {
        let batches = batches
            .iter()
            .map(|records| batch(records, Compression::None));
        Bytes::from(batches.collect::<Vec<_>>().concat())
    }

    fn offsets(read: &Read) -> Vec<i64> {
        read.records.iter().map(|record| record.offset).collect()
    }

    #[test]
    fn every_compression_is_read_from_the_middle_of_a_batch() {
        for compression in [
            Compression::None,
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            let records: Vec<_> = (5..10).map(|at| record(at, -1, false, None)).collect();
            let found = read(batch(&records, compression), 7, vec![]).unwrap();
            assert_eq!(offsets(&found), [7, 8, 9], "{compression:?}");
            assert_eq!(found.records[0].value.as_deref(), Some(&b"record 7"[..]));
            assert_eq!(found.next, 10);
        }
    }

    #[test]
    fn what_was_aborted_is_left_out_and_only_that() {
        const COMMIT: i16 = 1;
        let log = log(&[
            &[record(0, 7, true, None), record(1, 7, true, None)],
            &[record(2, 8, true, None)],
            &[record(3, -1, false, None)],
            &[record(4, 7, true, Some(ABORT))],
            &[record(5, 7, true, None)],
            &[record(6, 8, true, Some(COMMIT))],
            &[record(7, 7, true, Some(COMMIT))],
            &[record(8, 8, true, None)],
            &[record(9, 8, true, Some(ABORT))],
        ]);
        let aborted = [(8, 8), (0, 7)].map(|(first_offset, producer)| Aborted {
            first_offset,
            producer,
        });
        let found = read(log.clone(), 0, aborted.to_vec()).unwrap();
        assert_eq!(offsets(&found), [2, 3, 5]);
        assert_eq!(found.next, 10, "the last marker is behind us too");
        assert_eq!(offsets(&read(log, 0, vec![]).unwrap()), [0, 1, 2, 3, 5, 8]);
    }

    #[test]
    fn a_batch_that_is_cut_off_waits_and_nonsense_is_an_error() {
        let whole = log(&[&[record(0, -1, false, None)], &[record(1, -1, false, None)]]);
        for length in [0, 10, 61, whole.len() / 2 - 1] {
            let found = read(whole.slice(..length), 0, vec![]).unwrap();
            assert_eq!((offsets(&found), found.next), (vec![], 0), "{length}");
        }
        let found = read(whole.slice(..whole.len() - 1), 0, vec![]).unwrap();
        assert_eq!((offsets(&found), found.next), (vec![0], 1));
        let mut spoilt = whole.to_vec();
        spoilt[70] ^= 1;
        assert!(read(Bytes::from(spoilt), 0, vec![]).is_err());
    }
}
