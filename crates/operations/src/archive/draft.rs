//! Writes a file of lines under a name that nobody reads, and gives it its own name once all of it is on the disk.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use tollgate_core::archive::DaySum;

use super::digested::Digested;
use super::edges::edge;
use super::folder::{create, sync_folder};
use super::line::LineHead;
use super::manifest::{Contents, Tally, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};

pub(crate) struct Draft {
    of: TypeDay,
    folder: PathBuf,
    part: PathBuf,
    out: GzEncoder<Digested<BufWriter<File>>>,
    tally: Tally,
}

impl Draft {
    /// What a crash has left under this name is overwritten.
    pub(super) fn begin(folder: PathBuf, of: TypeDay) -> ArchiveResult<Self> {
        let part = folder.join(of.part_name("ndjson.gz"));
        let file = create(&part).map_err(|error| ArchiveError::writing(&part, &error))?;
        // Without a name and a time in its head, equal lines make equal bytes.
        let out =
            GzBuilder::new().write(Digested::new(BufWriter::new(file)), Compression::default());
        Ok(Self {
            of,
            folder,
            part,
            out,
            tally: Tally::default(),
        })
    }

    pub(crate) fn push(&mut self, lines: &[String]) -> ArchiveResult<()> {
        for line in lines {
            let head = LineHead::read(line);
            let added = head.and_then(|head| self.tally.add(&head));
            added.map_err(|why| {
                let number = self.tally.lines() + 1;
                ArchiveError::Mismatch(format!("{}: line {number} {why}", self.of))
            })?;
            let written =
                (self.out.write_all(line.as_bytes())).and_then(|()| self.out.write_all(b"\n"));
            written.map_err(|error| ArchiveError::writing(&self.part, &error))?;
        }
        edge("export-page");
        Ok(())
    }

    /// What the lines so far add up to.
    pub(super) fn totals(&self) -> Vec<DaySum> {
        self.tally.totals()
    }

    /// It has no name yet, so no process has read it.
    pub(super) fn discard(self) -> ArchiveResult<()> {
        let removed = std::fs::remove_file(&self.part);
        removed.map_err(|error| ArchiveError::writing(&self.part, &error))
    }

    /// When this returns, the file is on the disk under its own name. No manifest names it yet.
    pub(crate) fn finish(self) -> ArchiveResult<Contents> {
        let wrong = |error: &std::io::Error| ArchiveError::writing(&self.part, error);
        let out = self.out.finish().map_err(|error| wrong(&error))?;
        let (file, sha256, bytes) = out.end();
        let file = file.into_inner().map_err(|error| wrong(error.error()))?;
        file.sync_all().map_err(|error| wrong(&error))?;
        edge("export-written");
        let path = self.folder.join(self.of.file_name(&sha256));
        std::fs::rename(&self.part, &path).map_err(|error| wrong(&error))?;
        sync_folder(&self.folder)?;
        edge("export-named");
        Ok(self.tally.contents(sha256, bytes))
    }
}
