//! Fetched records, cut into pieces that become one chunk each. Pure.

use tollgate_core::ports::{DeadRecord, FeedRecord, Fetched, RecordReader};

/// About as many lines as a chunk of a file has, and as many bytes.
const LINES: usize = 1000;
const BYTES: usize = 1024 * 1024;

/// What one transaction takes in.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) next: i64,
    pub(super) lines: u32,
    pub(super) text: Vec<u8>,
    /// What could not be read.
    pub(super) dead: Vec<DeadRecord>,
}

impl Piece {
    fn records(&self) -> usize {
        self.dead.len() + usize::try_from(self.lines).unwrap_or(usize::MAX)
    }
}

/// Whether there is enough for a piece: every piece costs a flow, however small it is.
pub(super) fn is_enough(fetched: &Fetched) -> bool {
    fetched.records.len() >= LINES || fetched.records.iter().map(bytes).sum::<usize>() >= BYTES
}

/// What a record takes in memory, about: keys and headers may be longer than values.
fn bytes(record: &FeedRecord) -> usize {
    let long = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| name.len() + long(value));
    long(&record.key) + long(&record.value) + headers.sum::<usize>()
}

/// In their order, and of one length, so that no small rest is left. The last one ends where the fetch did, beyond what was not a record.
pub(super) fn cut(fetched: Fetched, partition: u32, reader: &dyn RecordReader) -> Vec<Piece> {
    let count = fetched.records.len();
    let most = count.div_ceil(((count + LINES / 2) / LINES).max(1));
    let mut pieces = vec![];
    let mut piece = Piece::default();
    for record in fetched.records {
        piece.next = record.offset + 1;
        match reader.read(&record, &mut piece.text) {
            Ok(()) => piece.lines += 1,
            Err(reason) => piece.dead.push(DeadRecord {
                partition,
                record,
                reason,
            }),
        }
        if piece.records() >= most || piece.text.len() >= BYTES {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if piece.next > 0 {
        pieces.push(piece);
    }
    match pieces.last_mut() {
        Some(last) => last.next = fetched.next,
        None => pieces.push(Piece {
            next: fetched.next,
            ..Piece::default()
        }),
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Lines;

    impl RecordReader for Lines {
        fn read(&self, record: &FeedRecord, text: &mut Vec<u8>) -> Result<(), String> {
            let value = record.value.as_deref().ok_or("is empty")?;
            text.extend_from_slice(value);
            Ok(())
        }
    }

    fn fetched(values: &[Option<usize>], next: i64) -> Fetched {
        let record = |(offset, length): (i64, &Option<usize>)| FeedRecord {
            offset,
            value: length.map(|length| vec![b'x'; length]),
            ..FeedRecord::default()
        };
        Fetched {
            records: (0..).zip(values).map(record).collect(),
            next,
            log_end: next,
            committed_end: next,
        }
    }

    fn shown(pieces: &[Piece]) -> Vec<(i64, u32, usize)> {
        let shown = |piece: &Piece| (piece.next, piece.lines, piece.dead.len());
        pieces.iter().map(shown).collect()
    }

    #[test]
    fn every_record_is_a_line_or_a_dead_letter_and_the_last_piece_ends_where_the_fetch_did() {
        let pieces = cut(fetched(&[Some(5), None, Some(5)], 9), 3, &Lines);
        assert_eq!(shown(&pieces), [(9, 2, 1)]);
        assert_eq!(pieces[0].text.len(), 10);
        let dead = &pieces[0].dead[0];
        assert_eq!((dead.partition, dead.record.offset), (3, 1));
        assert_eq!(dead.reason, "is empty");

        assert_eq!(shown(&cut(fetched(&[], 7), 0, &Lines)), [(7, 0, 0)]);
        assert_eq!(shown(&cut(fetched(&[None], 1), 0, &Lines)), [(1, 0, 1)]);
    }

    #[test]
    fn a_thousand_records_or_a_megabyte_are_enough() {
        for (count, bytes, enough) in [(999, 1, false), (1000, 1, true), (2, 600_000, true)] {
            let found = is_enough(&fetched(&vec![Some(bytes); count], 0));
            assert_eq!(found, enough, "{count} of {bytes} bytes");
        }
        assert!(!is_enough(&fetched(&[None], 0)));
        let mut heads = fetched(&[Some(1), None], 0);
        heads.records[0].headers = vec![("trace".into(), Some(vec![0; BYTES / 2]))];
        heads.records[1].key = Some(vec![0; BYTES / 2]);
        assert!(is_enough(&heads));
    }

    #[test]
    fn pieces_are_cut_by_records_and_by_bytes() {
        let many = |count: i64| {
            let values = vec![Some(1); usize::try_from(count).unwrap()];
            shown(&cut(fetched(&values, count), 0, &Lines))
        };
        assert_eq!(many(1499), [(1499, 1499, 0)]);
        assert_eq!(many(1500), [(750, 750, 0), (1500, 750, 0)]);
        assert_eq!(many(2401), [(1201, 1201, 0), (2401, 1200, 0)]);
        let large = vec![Some(300_000); 8];
        let pieces = cut(fetched(&large, 8), 0, &Lines);
        assert_eq!(shown(&pieces), [(4, 4, 0), (8, 4, 0)]);
        let poison = vec![None; 1600];
        let pieces = cut(fetched(&poison, 1600), 0, &Lines);
        assert_eq!(shown(&pieces), [(800, 0, 800), (1600, 0, 800)]);
    }
}
