//! Reads a file of lines, page by page, and finds out what all of it adds up to.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::bufread::GzDecoder;

use super::digested::Digested;
use super::line::{LineHead, MAX_LINE_BYTES};
use super::manifest::{Contents, Tally};
use super::trouble::{ArchiveError, ArchiveResult};

pub(crate) struct Reading {
    path: PathBuf,
    lines: BufReader<GzDecoder<BufReader<Digested<File>>>>,
    tally: Tally,
}

impl Reading {
    pub(super) fn open(path: PathBuf) -> ArchiveResult<Self> {
        let file = File::open(&path).map_err(|error| ArchiveError::reading(&path, &error))?;
        let unpacked = GzDecoder::new(BufReader::new(Digested::new(file)));
        Ok(Self {
            path,
            lines: BufReader::new(unpacked),
            tally: Tally::default(),
        })
    }

    /// At most so many lines; none at the end.
    pub(crate) fn page(&mut self, most: usize) -> ArchiveResult<Vec<String>> {
        let mut page = vec![];
        while page.len() < most {
            match self.line()? {
                Some(line) => page.push(line),
                None => break,
            }
        }
        Ok(page)
    }

    fn line(&mut self) -> ArchiveResult<Option<String>> {
        let mut line = vec![];
        let read = self.lines.by_ref().take(MAX_LINE_BYTES);
        let read = { read }.read_until(b'\n', &mut line);
        read.map_err(|error| ArchiveError::reading(&self.path, &error))?;
        if line.is_empty() {
            return Ok(None);
        }
        let line = line.strip_suffix(b"\n").map(<[u8]>::to_vec);
        let line = line.ok_or_else(|| self.wrong("has no end"))?;
        let line = String::from_utf8(line).map_err(|_| self.wrong("is not UTF-8"))?;
        let head = LineHead::read(&line).map_err(|why| self.wrong(&why))?;
        if let Err(why) = self.tally.add(&head) {
            return Err(self.wrong(&why));
        }
        Ok(Some(line))
    }

    /// After the last page: what was read, with the digest of every byte.
    pub(crate) fn end(self) -> ArchiveResult<Contents> {
        let Self { path, lines, tally } = self;
        let mut packed = lines.into_inner().into_inner();
        // What lies behind the last line is part of the file, too.
        let rest = io::copy(&mut packed, &mut io::sink());
        rest.map_err(|error| ArchiveError::reading(&path, &error))?;
        let (_, sha256, bytes) = packed.into_inner().end();
        Ok(tally.contents(sha256, bytes))
    }

    fn wrong(&self, why: &str) -> ArchiveError {
        let (path, number) = (self.path.display(), self.tally.lines() + 1);
        ArchiveError::Mismatch(format!(
            "{path}: line {number} {why}; recover the file from a backup"
        ))
    }
}
