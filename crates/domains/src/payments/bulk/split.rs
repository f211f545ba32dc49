//! Bytes into lines, however the network cut them, in bounded memory: a line that is too long is
//! reported and skipped, never held. In CSV a line break inside quotes belongs to its field.

/// The longest line, as for a single request's body.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// In the file, from 1 on. Of a CSV record with line breaks inside, its first.
    pub(super) number: u64,
    pub(super) text: Text<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Whole(&'a [u8]),
    TooLong,
    /// The file ends inside quotes.
    Unclosed,
}

#[derive(Debug)]
pub(super) struct Splitter {
    quotes: Option<Quotes>,
    /// What the last piece has left of a line.
    partial: Vec<u8>,
    is_too_long: bool,
    /// The line that the next byte belongs to, and the one where its record began.
    line: u64,
    began: u64,
}

/// Where in a CSV record the last byte was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    FieldStart,
    Plain,
    Inside,
    /// After a quote inside quotes: the end of the field, or the first half of an escaped quote.
    Closing,
}

impl Splitter {
    pub(super) fn by_line() -> Self {
        Self {
            quotes: None,
            partial: Vec::new(),
            is_too_long: false,
            line: 1,
            began: 1,
        }
    }

    pub(super) fn by_record() -> Self {
        Self {
            quotes: Some(Quotes::FieldStart),
            ..Self::by_line()
        }
    }

    /// Hands out the lines that end in this piece.
    pub(super) fn push<E>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = piece;
        while let Some(end) = self.end_in(rest) {
            self.hand_out(&rest[..end], &mut each)?;
            rest = &rest[end + 1..];
        }
        self.keep(rest);
        Ok(())
    }

    /// Hands out a last line that no line break ends.
    pub(super) fn end<E>(
        mut self,
        mut each: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.quotes == Some(Quotes::Inside) {
            let number = self.began;
            return each(Line {
                number,
                text: Text::Unclosed,
            });
        }
        self.hand_out(&[], &mut each)
    }

    /// Where the line ends, and what its quotes are after what was looked at.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let Some(mut quotes) = self.quotes else {
            return bytes.iter().position(|byte| *byte == b'\n');
        };
        for (at, byte) in bytes.iter().enumerate() {
            quotes = match (quotes, *byte) {
                (Quotes::Inside, b'"') => Quotes::Closing,
                (Quotes::Inside, b'\n') => {
                    self.line += 1;
                    Quotes::Inside
                }
                (Quotes::Closing | Quotes::FieldStart, b'"') | (Quotes::Inside, _) => {
                    Quotes::Inside
                }
                (_, b'\n') => {
                    self.quotes = Some(Quotes::FieldStart);
                    return Some(at);
                }
                (_, b',') => Quotes::FieldStart,
                _ => Quotes::Plain,
            };
        }
        self.quotes = Some(quotes);
        None
    }

    fn hand_out<E>(
        &mut self,
        last: &[u8],
        each: &mut impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.began;
        self.line += 1;
        self.began = self.line;
        // Most lines lie in one piece and are not copied.
        let in_one_piece = self.partial.is_empty() && last.len() <= MAX_LINE_BYTES;
        if !in_one_piece {
            self.keep(last);
        }
        let is_too_long = std::mem::take(&mut self.is_too_long);
        let line = if in_one_piece { last } else { &self.partial };
        let line = trimmed(line, number == 1);
        let handed = if is_too_long {
            let text = Text::TooLong;
            each(Line { number, text })
        } else if line.is_empty() {
            Ok(())
        } else {
            let text = Text::Whole(line);
            each(Line { number, text })
        };
        self.partial.clear();
        handed
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.partial.len() + bytes.len() > MAX_LINE_BYTES {
            self.is_too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

fn trimmed(line: &[u8], is_first: bool) -> &[u8] {
    let line = match line.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if is_first => rest,
        _ => line,
    };
    if line.trim_ascii().is_empty() {
        return &[];
    }
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn split(splitter: Splitter, pieces: &[&[u8]]) -> Vec<(u64, String)> {
        let mut lines = vec![];
        let mut each = |line: Line<'_>| -> Result<(), Infallible> {
            let text = match line.text {
                Text::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                Text::TooLong => "TOO LONG".to_owned(),
                Text::Unclosed => "UNCLOSED".to_owned(),
            };
            lines.push((line.number, text));
            Ok(())
        };
        let mut splitter = splitter;
        for piece in pieces {
            let Ok(()) = splitter.push(piece, &mut each);
        }
        let Ok(()) = splitter.end(&mut each);
        lines
    }

    fn shown(lines: &[(u64, String)]) -> String {
        let line = |(number, text): &(u64, String)| format!("{number}:{text}");
        lines.iter().map(line).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn lines_end_at_line_breaks_and_keep_their_numbers() {
        let table: [(&str, &str); 8] = [
            ("", ""),
            ("a", "1:a"),
            ("a\n", "1:a"),
            ("a\nb", "1:a|2:b"),
            ("a\r\n\r\n  \nb\r\n", "1:a|4:b"),
            ("\u{feff}a\nb", "1:a|2:b"),
            ("\u{feff}", ""),
            ("a\n\u{feff}b", "1:a|2:\u{feff}b"),
        ];
        for (text, expected) in table {
            let lines = split(Splitter::by_line(), &[text.as_bytes()]);
            assert_eq!(shown(&lines), expected, "{text:?}");
        }
    }

    #[test]
    fn a_record_holds_the_line_breaks_inside_its_quotes() {
        let table = [
            ("a,b\nc,d\n", "1:a,b|2:c,d"),
            ("\"a\nb\",c\nd\n", "1:\"a\nb\",c|3:d"),
            ("\"a\"\"\nb\"\nc", "1:\"a\"\"\nb\"|3:c"),
            ("5\" disk,x\ny\n", "1:5\" disk,x|2:y"),
            ("x,\"open\ny\n", "1:UNCLOSED"),
            ("\"a\"b\nc\n", "1:\"a\"b|2:c"),
        ];
        for (text, expected) in table {
            let lines = split(Splitter::by_record(), &[text.as_bytes()]);
            assert_eq!(shown(&lines), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_one_error_and_nothing_of_it_is_held() {
        let mut splitter = Splitter::by_line();
        let mut lines = 0;
        let piece = vec![b'x'; 100_000];
        for _ in 0..1000 {
            let Ok(()) = splitter.push(&piece, |_| -> Result<(), Infallible> {
                lines += 1;
                Ok(())
            });
            assert!(splitter.partial.capacity() <= 2 * MAX_LINE_BYTES);
        }
        assert_eq!(lines, 0);
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        let text = format!("a\n{long}\nb\n{}\n{long}", &long[1..]);
        let lines = split(Splitter::by_line(), &[text.as_bytes()]);
        let expected = format!("1:a|2:TOO LONG|3:b|4:{}|5:TOO LONG", &long[1..]);
        assert!(shown(&lines) == expected);
    }

    proptest! {
        /// However the network cuts it, the same file has the same lines.
        #[test]
        fn the_pieces_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "\"", "\n", "\r\n", ",", "\u{feff}", " ", "é"]), 0..60),
            cuts in prop::collection::vec(0_usize..80, 0..10),
            records in any::<bool>(),
        ) {
            let text: String = parts.concat();
            let new = || if records { Splitter::by_record() } else { Splitter::by_line() };
            let whole = split(new(), &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(split(new(), &pieces), whole);
        }
    }
}
