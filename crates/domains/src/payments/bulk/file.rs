//! A file as it comes in: pieces of bytes into chunks of lines, with the digest of the whole.

use sha2::{Digest, Sha256};
use tollgate_core::details::{Details, one};
use tollgate_core::ports::NewChunk;

use super::chunk::Chunks;
use super::csv::Table;
use super::split::{Line, MAX_LINE_BYTES, Splitter, Text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A payment as JSON on every line.
    Ndjson,
    /// A header, then a payment in every record.
    Csv,
}

impl Format {
    /// By a `Content-Type`, whatever parameters it carries.
    pub fn of_media_type(text: &str) -> Option<Self> {
        let kind = text.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "application/x-ndjson" => Some(Self::Ndjson),
            "text/csv" => Some(Self::Csv),
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }
}

#[derive(Debug)]
pub(super) struct File {
    splitter: Splitter,
    rows: Rows,
    digest: Sha256,
}

/// What is made of the lines.
#[derive(Debug)]
struct Rows {
    format: Format,
    /// The header of a CSV, once it was read.
    table: Option<Table>,
    chunks: Chunks,
    lines: u64,
}

/// A file that has been read to its end.
#[derive(Debug)]
pub(super) struct WholeFile {
    pub(super) last_chunks: Vec<NewChunk>,
    /// Of the format and all bytes.
    pub(super) digest: String,
}

impl File {
    pub(super) fn new(format: Format) -> Self {
        let mut digest = Sha256::new();
        digest.update(format.media_type());
        Self {
            splitter: match format {
                Format::Ndjson => Splitter::by_line(),
                Format::Csv => Splitter::by_record(),
            },
            rows: Rows {
                format,
                table: None,
                chunks: Chunks::default(),
                lines: 0,
            },
            digest,
        }
    }

    /// Takes the next piece in, and hands out the chunks that are full. An error ends the file.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<NewChunk>, Details> {
        self.digest.update(piece);
        let rows = &mut self.rows;
        self.splitter.push(piece, |line| rows.line(&line))?;
        Ok(rows.chunks.full())
    }

    pub(super) fn end(self) -> Result<WholeFile, Details> {
        let Self {
            splitter,
            mut rows,
            digest,
        } = self;
        splitter.end(|line| rows.line(&line))?;
        if rows.lines == 0 {
            return Err(one("body", "has no payments; send one per line"));
        }
        Ok(WholeFile {
            last_chunks: rows.chunks.rest(),
            digest: hex::encode(digest.finalize()),
        })
    }
}

impl Rows {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Details> {
        let number = line.number;
        if self.format == Format::Csv && self.table.is_none() {
            self.table = Some(header(&line.text)?);
            return Ok(());
        }
        self.lines += 1;
        match (&line.text, &mut self.table) {
            (Text::Whole(text), None) => self.chunks.payment(number, text),
            (Text::Whole(text), Some(table)) => match table.json(text) {
                Ok(json) => self.chunks.payment(number, json.as_bytes()),
                Err(why) => self.chunks.unreadable(number, &why),
            },
            (Text::TooLong, _) => self.chunks.unreadable(number, &too_long(self.format)),
            (Text::Unclosed, _) => self.chunks.unreadable(number, UNCLOSED),
        }
        Ok(())
    }
}

const UNCLOSED: &str = "has a quote that is never closed";

fn header(text: &Text<'_>) -> Result<Table, Details> {
    match text {
        Text::Whole(text) => Table::read(text),
        Text::TooLong => Err(one("header", too_long(Format::Csv))),
        Text::Unclosed => Err(one("header", UNCLOSED)),
    }
}

fn too_long(format: Format) -> String {
    let most = MAX_LINE_BYTES / 1024;
    match format {
        Format::Ndjson => format!("is longer than {most} KiB"),
        Format::Csv => {
            format!("is longer than {most} KiB; perhaps a quote before it is not closed")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::chunk::lines;
    use super::*;

    const HEADER: &str =
        "paymentId,amount,currency,debtor.account,debtor.name,creditor.account,creditor.name";

    fn read(format: Format, pieces: &[&[u8]]) -> Result<Vec<(u64, String)>, Details> {
        let mut file = File::new(format);
        let mut chunks = vec![];
        for piece in pieces {
            chunks.extend(file.push(piece)?);
        }
        chunks.extend(file.end()?.last_chunks);
        let all = chunks.iter().flat_map(|chunk| lines(&chunk.text));
        let said = all.map(|(number, text)| match text {
            Ok(json) => (number, String::from_utf8_lossy(json).into_owned()),
            Err(why) => (number, format!("!{why}")),
        });
        Ok(said.collect())
    }

    #[test]
    fn the_good_lines_of_a_file_go_on_and_the_others_say_why_not() {
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        let text = format!("{{\"a\":1}}\n\n{long}\nb\n");
        let read_lines = read(Format::Ndjson, &[text.as_bytes()]).unwrap();
        let expected = ["1 {\"a\":1}", "3 !is longer than 64 KiB", "4 b"];
        let said: Vec<_> = read_lines.iter().map(|(n, t)| format!("{n} {t}")).collect();
        assert_eq!(said, expected);

        let text = format!("{HEADER}\np1,1,EUR,a,\"A\nB\",b,B\nx\np2,1,EUR,a,A,b,\"B");
        let lines = read(Format::Csv, &[text.as_bytes()]).unwrap();
        let numbers: Vec<_> = lines.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 4, 5], "the record on line 2 has two lines");
        assert_eq!(lines[1].1, "!has 1 fields, and the header has 7");
        assert_eq!(lines[2].1, "!has a quote that is never closed");
    }

    #[test]
    fn an_empty_file_and_a_wrong_header_are_refused_at_once() {
        for (format, text) in [
            (Format::Ndjson, ""),
            (Format::Ndjson, "\u{feff}\r\n \n"),
            (Format::Csv, ""),
            (
                Format::Csv,
                "paymentId,amount,currency,debtor.account,debtor.name,creditor.account,creditor.name\n",
            ),
        ] {
            let wrong = read(format, &[text.as_bytes()]).unwrap_err();
            assert!(wrong["body"].contains("no payments"), "{text:?}: {wrong:?}");
        }
        let mut file = File::new(Format::Csv);
        assert!(
            file.push(b"paymentId,amount\nmore")
                .unwrap_err()
                .contains_key("currency")
        );
    }

    #[test]
    fn a_digest_is_of_the_bytes_and_of_what_they_mean() {
        let digest = |format, text: &[u8]| {
            let mut file = File::new(format);
            file.push(text).unwrap();
            file.end().map(|whole| whole.digest)
        };
        let of = |text| digest(Format::Ndjson, text).unwrap();
        assert_eq!(of(b"{}\n{}"), of(b"{}\n{}"));
        assert_ne!(of(b"{}\n{}"), of(b"{}\n{}\n"));
    }

    proptest! {
        /// Whatever the bytes are and however they come: every line ends as a payment, or says why
        /// not, and nothing breaks.
        #[test]
        fn any_bytes_are_lines_that_can_be_judged(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            words in prop::collection::vec(
                prop::sample::select(vec!["\n", "\"", ",", "{\"paymentId\":\"p\"}", "p,1,EUR,a,A,b,B"]), 0..20),
            cut in 0_usize..300, is_csv in any::<bool>(),
        ) {
            let (format, mut text) = if is_csv {
                (Format::Csv, format!("{HEADER}\n").into_bytes())
            } else {
                (Format::Ndjson, vec![])
            };
            text.extend(words.concat().bytes());
            text.extend(bytes);
            let (first, second) = text.split_at(cut.min(text.len()));
            let mut file = File::new(format);
            let pushed = file.push(first).and_then(|_| file.push(second));
            prop_assert!(pushed.is_ok());
            let Ok(whole) = file.end() else { return Ok(()) };
            let mut judged = super::super::judge::Read::default();
            let mut stored = 0;
            for (number, line) in whole.last_chunks.iter().flat_map(|chunk| lines(&chunk.text)) {
                prop_assert!(number > 0);
                judged.line(number, line);
                stored += 1;
            }
            let payments = std::mem::take(&mut judged.payments);
            let flow = tollgate_core::id::FlowId::new("ours");
            let end = judged.end(&[], vec![], &flow, |_| None);
            let repeats = end.duplicate as usize;
            prop_assert_eq!(payments.len() + end.rejected.len() + repeats, stored);
        }
    }

    #[test]
    fn formats_are_told_by_their_media_type() {
        let table = [
            ("application/x-ndjson", Some(Format::Ndjson)),
            ("Text/CSV; charset=utf-8", Some(Format::Csv)),
            ("application/json", None),
            ("", None),
        ];
        for (text, format) in table {
            assert_eq!(Format::of_media_type(text), format, "{text}");
        }
    }
}
