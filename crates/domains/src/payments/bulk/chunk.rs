//! Lines into chunks and back. In a chunk every line stands behind its number: `17 {…}` is a
//! payment as JSON, `17!why` a line that could not even be read.

use std::io::Write;

use tollgate_core::ports::NewChunk;

use super::super::MAX_BATCH;

/// A chunk with this much text is full, however few lines it has.
const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Collects lines into chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    text: Vec<u8>,
    lines: u32,
    sealed: u32,
    ready: Vec<NewChunk>,
}

impl Chunks {
    pub(super) fn payment(&mut self, number: u64, json: &[u8]) {
        self.line(number, b' ', json);
    }

    pub(super) fn unreadable(&mut self, number: u64, why: &str) {
        self.line(number, b'!', why.as_bytes());
    }

    fn line(&mut self, number: u64, kind: u8, text: &[u8]) {
        // Writing to memory does not fail.
        let _ = write!(self.text, "{number}");
        self.text.push(kind);
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
        self.lines += 1;
        if self.lines as usize >= MAX_BATCH || self.text.len() >= MAX_CHUNK_BYTES {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if self.lines == 0 {
            return;
        }
        self.sealed += 1;
        self.ready.push(NewChunk {
            number: self.sealed,
            lines: std::mem::take(&mut self.lines),
            text: std::mem::take(&mut self.text),
        });
    }

    /// The chunks that are full.
    pub(super) fn full(&mut self) -> Vec<NewChunk> {
        std::mem::take(&mut self.ready)
    }

    /// The rest, when there are no more lines.
    pub(super) fn rest(mut self) -> Vec<NewChunk> {
        self.seal();
        self.ready
    }
}

/// A line of a chunk: its number, and its JSON or why it could not be read.
pub(super) type Stored<'a> = (u64, Result<&'a [u8], String>);

/// The lines of a chunk.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = Stored<'_>> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&line[..digits]).ok();
            let number = number.and_then(|digits| digits.parse().ok()).unwrap_or(0);
            match line[digits..].split_first() {
                Some((b' ', json)) => (number, Ok(json)),
                Some((_, why)) => (number, Err(String::from_utf8_lossy(why).into_owned())),
                None => (number, Err(String::new())),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_by_lines_and_by_bytes_and_hold_what_was_put_in() {
        let mut chunks = Chunks::default();
        for number in 1..=2500 {
            chunks.payment(number, b"{\"a\": 1}");
        }
        chunks.unreadable(2501, "is too long");
        let mut all = chunks.full();
        assert_eq!(all.len(), 2);
        all.extend(chunks.rest());
        let sizes: Vec<_> = all
            .iter()
            .map(|chunk| (chunk.number, chunk.lines))
            .collect();
        assert_eq!(sizes, [(1, 1000), (2, 1000), (3, 501)]);
        let read: Vec<_> = all.iter().flat_map(|chunk| lines(&chunk.text)).collect();
        assert_eq!(read.len(), 2501);
        assert_eq!(read[1999], (2000, Ok(&b"{\"a\": 1}"[..])));
        assert_eq!(read[2500], (2501, Err("is too long".to_owned())));

        let mut chunks = Chunks::default();
        for number in 0..40 {
            chunks.payment(number, &b"x".repeat(60_000));
        }
        let full = chunks.full();
        assert!(
            full.iter()
                .all(|chunk| chunk.text.len() < MAX_CHUNK_BYTES + 61_000)
        );
        assert_eq!(full.len(), 2);
    }
}
