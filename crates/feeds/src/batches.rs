//! What a fetch has brought: whole batches, from which the records of aborted transactions and the markers of
//! transactions are left out. A payment whose transaction was aborted must not be paid.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec;

use bytes::{Buf, Bytes};
use kafka_protocol::records::{Record, RecordBatchDecoder};
use tollgate_core::ports::FeedRecord;

use crate::header_names::readable;
use crate::unpacking::{TOO_LARGE, unpack};

/// Offset, length, epoch, magic, checksum, attributes, last offset, times, producer, count.
const HEADER: usize = 61;
/// What comes before the part that the length counts.
const BEFORE_LENGTH: usize = 12;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// The type of a marker, in its key.
const ABORT: i16 = 0;

/// The batches of one fetch may be as large together when they are unpacked. Kafka's own bound is on what is packed.
const MOST_UNPACKED_BYTES: usize = 256 * MIB;
const MIB: usize = 1024 * 1024;
/// What a record takes here beside its key, value and headers; packed it may be a few bits.
const RECORD_BYTES: usize = 256;

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

/// Why records cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) why: String,
    /// Where the records behind them begin, if that is known.
    pub(crate) behind: Option<i64>,
}

/// Reads what is whole; a batch that is cut off comes again with the next fetch. So does one that cannot be read: it is an error
/// only where it comes first, so that a person who passes it passes nothing else.
pub(crate) fn read(bytes: Bytes, from: i64, aborted: Vec<Aborted>) -> Result<Read, Unreadable> {
    read_up_to(MOST_UNPACKED_BYTES, bytes, from, aborted)
}

/// As many batches as have no more than so many bytes in all.
fn read_up_to(
    room: usize,
    mut bytes: Bytes,
    from: i64,
    mut aborted: Vec<Aborted>,
) -> Result<Read, Unreadable> {
    aborted.sort_unstable();
    let mut reading = Reading {
        aborted: aborted.into_iter().peekable(),
        aborting: BTreeSet::new(),
        from,
        room,
        read: Read {
            records: vec![],
            next: from,
        },
    };
    loop {
        let header = match Header::of(&bytes) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(reading.read),
            Err(why) => return reading.stopped(why, None),
        };
        let batch = bytes.split_to(header.bytes);
        if let Err(why) = reading.take(&header, &batch) {
            return reading.stopped(why, Some(header.behind()));
        }
    }
}

struct Reading {
    aborted: Peekable<vec::IntoIter<Aborted>>,
    /// Producers whose transactions are read that were aborted.
    aborting: BTreeSet<i64>,
    from: i64,
    /// So many bytes may still be unpacked.
    room: usize,
    read: Read,
}

impl Reading {
    fn take(&mut self, header: &Header, batch: &Bytes) -> Result<(), String> {
        let has_begun = |at: &Aborted| at.first_offset <= header.last_offset;
        while let Some(transaction) = self.aborted.next_if(has_begun) {
            self.aborting.insert(transaction.producer);
        }
        let is_of_aborted = header.is_transactional && self.aborting.contains(&header.producer);
        if header.is_control {
            if is_abort(&self.records(header, batch)?) {
                self.aborting.remove(&header.producer);
            }
        } else if !is_of_aborted {
            let records = self.records(header, batch)?.into_iter();
            let wanted = records.filter(|record| record.offset >= self.from);
            self.read.records.extend(wanted.map(feed_record));
        }
        self.read.next = self.read.next.max(header.behind());
        Ok(())
    }

    fn records(&mut self, header: &Header, batch: &Bytes) -> Result<Vec<Record>, String> {
        let beside = header.records.saturating_mul(RECORD_BYTES);
        let room = self.room.checked_sub(beside).ok_or(TOO_LARGE)?;
        let unpacked = Cell::new(None);
        let decoded = |mended: fn(Bytes) -> Bytes| {
            let unpack = |packed: &mut Bytes, compression| {
                let all = unpack(packed, compression, room)?;
                unpacked.set(Some(all.len()));
                Ok(mended(all))
            };
            let decoded = RecordBatchDecoder::decode_with_custom_compression(
                &mut batch.clone(),
                Some(unpack),
            );
            decoded.map_err(|error| error.to_string())
        };
        let decoded = decoded(|all| all).or_else(|why| match unpacked.get() {
            Some(_) => decoded(|all| readable(&all)),
            None => Err(why),
        });
        let records = decoded?.records;
        self.room = room - unpacked.get().unwrap_or(0);
        Ok(records)
    }

    fn stopped(self, why: String, behind: Option<i64>) -> Result<Read, Unreadable> {
        if self.read.next > self.from {
            return Ok(self.read);
        }
        let behind = behind.filter(|behind| *behind > self.from);
        Err(Unreadable { why, behind })
    }
}

struct Header {
    bytes: usize,
    last_offset: i64,
    producer: i64,
    records: usize,
    is_transactional: bool,
    is_control: bool,
}

impl Header {
    fn behind(&self) -> i64 {
        self.last_offset.saturating_add(1)
    }

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
        let producer = header.get_i64();
        header.advance(6);
        Ok(Some(Self {
            bytes: whole,
            last_offset,
            producer,
            // A negative number is refused by the decoder.
            records: usize::try_from(header.get_i32()).unwrap_or(0),
            is_transactional: attributes & TRANSACTIONAL != 0,
            is_control: attributes & CONTROL != 0,
        }))
    }
}

/// Whether a marker ends a transaction by aborting it: its key is a version and a type.
fn is_abort(records: &[Record]) -> bool {
    let mut keys = records.iter().filter_map(|record| record.key.as_deref());
    keys.any(|mut key| {
        key.len() >= 4 && {
            key.advance(2);
            key.get_i16() == ABORT
        }
    })
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
    use kafka_protocol::compression::{Compressor, Gzip};
    use kafka_protocol::protocol::StrBytes;
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
        let error = read(Bytes::from(spoilt), 0, vec![]).unwrap_err();
        assert_eq!(error.behind, Some(1), "{error:?}");
        let mut spoilt = whole.to_vec();
        spoilt[whole.len() / 2 + 70] ^= 1;
        let spoilt = Bytes::from(spoilt);
        let found = read(spoilt.clone(), 0, vec![]).unwrap();
        assert_eq!((offsets(&found), found.next), (vec![0], 1));
        let error = read(spoilt, 1, vec![]).unwrap_err();
        assert_eq!(error.behind, Some(2), "whose records are behind us");
    }

    #[test]
    fn a_batch_that_is_huge_when_it_is_unpacked_is_an_error_and_one_behind_others_waits() {
        const HUGE: usize = 64 * 1024;
        let huge = |offset| Record {
            value: Some(Bytes::from(vec![0; HUGE])),
            ..record(offset, -1, false, None)
        };
        for compression in [
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            let two = [huge(0), huge(1)].map(|record| batch(&[record], compression));
            let two = Bytes::from(two.concat());
            assert!(two.len() < HUGE / 8, "{compression:?}");
            let read = |room, from| read_up_to(room, two.clone(), from, vec![]);
            let error = read(HUGE, 0).unwrap_err();
            assert_eq!(error.behind, Some(1), "{error:?}");
            assert_eq!(error.why, TOO_LARGE);
            let found = read(HUGE + 2 * RECORD_BYTES, 0).unwrap();
            assert_eq!((offsets(&found), found.next), (vec![0], 1));
            let found = read(2 * HUGE + 4 * RECORD_BYTES, 0).unwrap();
            assert_eq!(offsets(&found), [0, 1], "{compression:?}");
        }
        let tiny: Vec<_> = (0..9).map(|at| record(at, -1, false, None)).collect();
        let tiny = batch(&tiny, Compression::Zstd);
        let error = read_up_to(9 * RECORD_BYTES - 1, tiny.clone(), 0, vec![]).unwrap_err();
        assert_eq!((&*error.why, error.behind), (TOO_LARGE, Some(9)));
        let found = read_up_to(10 * RECORD_BYTES, tiny, 0, vec![]).unwrap();
        assert_eq!(found.next, 9);
    }

    /// Java's library writes Snappy in blocks, others write one.
    #[test]
    fn both_ways_of_snappy_are_read() {
        let records = [record(0, -1, false, None), record(1, -1, false, None)];
        let in_one_block = |all: &mut BytesMut, packed: &mut BytesMut, _| {
            packed.extend_from_slice(&snap::raw::Encoder::new().compress_vec(all).unwrap());
            Ok(())
        };
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions {
            version: 2,
            compression: Compression::Snappy,
        };
        let encoded = RecordBatchEncoder::encode_with_custom_compression(
            &mut bytes,
            &records,
            &options,
            Some(in_one_block),
        );
        encoded.unwrap();
        for bytes in [bytes.freeze(), batch(&records, Compression::Snappy)] {
            assert_eq!(offsets(&read(bytes, 0, vec![]).unwrap()), [0, 1]);
        }
    }

    /// The decoder makes names out of UTF-8 only; the name is spoilt before the batch is packed.
    #[test]
    fn a_header_whose_name_is_not_utf_8_stops_nothing() {
        let mut with_header = record(0, -1, false, None);
        let name = StrBytes::from_static_str("nnnn");
        with_header.headers.insert(name, Some(Bytes::from("value")));
        let records = [with_header, record(1, -1, false, None)];
        let spoil = |records: &mut BytesMut, packed: &mut BytesMut, _| {
            let at = records.windows(4).position(|four| four == b"nnnn").unwrap();
            records[at + 1] = 0xff;
            Gzip::compress(packed, |all| {
                all.extend_from_slice(records);
                Ok(())
            })
        };
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions {
            version: 2,
            compression: Compression::Gzip,
        };
        let encoded = RecordBatchEncoder::encode_with_custom_compression(
            &mut bytes,
            &records,
            &options,
            Some(spoil),
        );
        encoded.unwrap();
        let found = read(bytes.freeze(), 0, vec![]).unwrap();
        assert_eq!(offsets(&found), [0, 1]);
        assert_eq!(found.records[0].header("n?nn"), Some("value"));
        assert_eq!(found.records[0].value.as_deref(), Some(&b"record 0"[..]));
    }
}
