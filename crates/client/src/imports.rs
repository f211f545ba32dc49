//! Imports: files of payments, and their rejected lines.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_contract::{Bulk, BulkErrors, BulkList, BulkState};

use crate::address::{flag, number, query, quoted};
use crate::file::{FileBody, Progress};
use crate::{Answer, Client, Error};

/// Calls about imports; see [`Client::imports`].
#[derive(Debug, Clone, Copy)]
pub struct Imports<'c> {
    client: &'c Client,
}

impl Client {
    /// Imports: files of payments.
    pub fn imports(&self) -> Imports<'_> {
        Imports { client: self }
    }
}

/// Format of a file of payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One payment as JSON per line.
    Ndjson,
    /// CSV with a header.
    Csv,
}

impl FileFormat {
    /// The format by the file's extension: `csv`, `ndjson` or `jsonl`.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}

/// A file to import.
#[must_use]
pub struct Upload {
    path: PathBuf,
    format: FileFormat,
    size: Option<u64>,
    key: Option<String>,
    progress: Progress,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("path", &self.path)
            .field("format", &self.format)
            .field("size", &self.size)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// The file at this path. The import is named after it.
    pub fn new(path: impl Into<PathBuf>, format: FileFormat) -> Self {
        Self {
            path: path.into(),
            format,
            size: None,
            key: None,
            progress: Box::new(|_| ()),
        }
    }

    /// Idempotency key, such as the digest of the file: a file sent twice under one key is one import.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Send this many bytes from the start of the file. Default: the size of the file.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Called with the number of bytes of each piece that is sent.
    pub fn progress(mut self, progress: impl FnMut(u64) + Send + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Imports<'_> {
    /// Uploads a file, however long it takes. It is durable when the answer arrives; its lines are judged later.
    pub async fn upload(self, upload: Upload) -> Result<Answer<Bulk>, Error> {
        let path = format!("/payments/bulk?name={}", quoted(&upload.name()));
        let Upload {
            path: file,
            format,
            size,
            key,
            progress,
        } = upload;
        let body = FileBody::open(&file, size, progress);
        let body = body.map_err(|source| Error::File { path: file, source })?;
        let media_type = format.media_type();
        self.client
            .upload(&path, media_type, key.as_deref(), body)
            .await
    }

    /// Lists imports, newest first. `after` is `next` of the previous page.
    pub async fn list(
        self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Answer<BulkList>, Error> {
        let after = after.map(str::to_owned);
        let query = query(&[("after", after), ("limit", number(limit))]);
        self.client.get(&format!("/payments/bulk{query}")).await
    }

    /// Shows an import: its lines, slots, amounts and deadlines.
    pub async fn get(self, batch: &str) -> Result<Answer<BulkState>, Error> {
        self.client.get(&path(batch)).await
    }

    /// Like [`Imports::get`], with the limits that would meet every deadline. They take time to compute.
    pub async fn get_with_enough(self, batch: &str) -> Result<Answer<BulkState>, Error> {
        let query = query(&[("enough", flag(true))]);
        self.client.get(&format!("{}{query}", path(batch))).await
    }

    /// Lists rejected lines. `after` is `next` of the previous page.
    pub async fn errors(
        self,
        batch: &str,
        after: Option<u64>,
        limit: Option<u32>,
    ) -> Result<Answer<BulkErrors>, Error> {
        let query = query(&[("after", number(after)), ("limit", number(limit))]);
        let path = format!("{}/errors{query}", path(batch));
        self.client.get(&path).await
    }
}

fn path(batch: &str) -> String {
    format!("/payments/bulk/{}", quoted(batch))
}
