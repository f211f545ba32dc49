//! Bytes on their way to or from a file, counted and digested.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

pub(super) struct Digested<F> {
    file: F,
    digest: Sha256,
    bytes: u64,
}

impl<F> Digested<F> {
    pub(super) fn new(file: F) -> Self {
        Self {
            file,
            digest: Sha256::new(),
            bytes: 0,
        }
    }

    /// The file, the SHA-256 of what has passed, and how much that was.
    pub(super) fn end(self) -> (F, String, u64) {
        (self.file, hex::encode(self.digest.finalize()), self.bytes)
    }

    fn note(&mut self, passed: &[u8]) {
        self.digest.update(passed);
        self.bytes += passed.len() as u64;
    }
}

impl<F: Write> Write for Digested<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.note(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Digested<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        self.note(&into[..read]);
        Ok(read)
    }
}
