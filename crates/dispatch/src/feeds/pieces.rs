//! Fetched records, cut into pieces that become one chunk each. Pure.

use tollgate_core::ports::{DeadRecord, Fetched, RecordReader};

/// As many lines as a chunk of a file has, and as many bytes.
const MOST_LINES: u32 = 1000;
const MOST_BYTES: usize = 1024 * 1024;

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
    fn is_full(&self) -> bool {
        let dead = u32::try_from(self.dead.len()).unwrap_or(u32::MAX);
        self.lines.saturating_add(dead) >= MOST_LINES || self.text.len() >= MOST_BYTES
    }
}

/// In their order. The last one ends where the fetch did, beyond what was not a record.
/// A rest is a piece of its own: fetched again instead, it would come with the whole batch of its producer, which may be as large as a fetch.
pub(super) fn cut(fetched: Fetched, partition: u32, reader: &dyn RecordReader) -> Vec<Piece> {
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
        if piece.is_full() {
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
    use tollgate_core::ports::FeedRecord;

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
    fn pieces_are_cut_by_records_and_by_bytes() {
        let many = vec![Some(1); 2500];
        let pieces = cut(fetched(&many, 2500), 0, &Lines);
        assert_eq!(
            shown(&pieces),
            [(1000, 1000, 0), (2000, 1000, 0), (2500, 500, 0)]
        );
        let large = vec![Some(300_000); 8];
        let pieces = cut(fetched(&large, 8), 0, &Lines);
        assert_eq!(shown(&pieces), [(4, 4, 0), (8, 4, 0)]);
        let poison = vec![None; 1001];
        let pieces = cut(fetched(&poison, 1001), 0, &Lines);
        assert_eq!(shown(&pieces), [(1000, 0, 1000), (1001, 0, 1)]);
    }
}
