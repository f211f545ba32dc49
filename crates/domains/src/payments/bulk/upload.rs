//! Taking a file in: what comes is written as chunks, and becomes work when all of it is there.

use std::sync::Arc;

use thiserror::Error;
use tollgate_core::Timestamp;
use tollgate_core::details::{Details, in_one_line, one};
use tollgate_core::id::BulkId;
use tollgate_core::ports::{Closed, KnownBulk, NewChunk, Store, StoreError, StoreResult};

use super::super::item_type;
use super::file::{File, Format};

/// Ids are times, to the microsecond; at most this many uploads begin in the same one.
const MAX_SAME_TIME: i64 = 1000;
/// The longest `Idempotency-Key`.
const MAX_KEY_CHARS: usize = 200;

pub struct BulkIntake {
    pub store: Arc<dyn Store>,
}

impl std::fmt::Debug for BulkIntake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkIntake").finish_non_exhaustive()
    }
}

#[derive(Debug, Error)]
pub enum UploadError {
    /// The file as a whole cannot be taken, by field.
    #[error("invalid file: {}", in_one_line(.0))]
    Invalid(Details),
    /// The key was used for other content.
    #[error("{0}")]
    Conflict(String),
    /// It took too long and was given up.
    #[error("{0}")]
    Gone(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The answer to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub bulk: BulkId,
    /// The same file came under the same key before.
    pub repeat: bool,
}

/// One file on its way in.
pub struct Upload {
    store: Arc<dyn Store>,
    file: File,
    key: Option<String>,
    into: Into,
}

/// Where a file goes.
enum Into {
    New(BulkId),
    /// Its key is known: only its digest is wanted.
    Known(KnownBulk),
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl BulkIntake {
    pub async fn begin(&self, format: Format, key: Option<String>) -> Result<Upload, UploadError> {
        if let Some(key) = &key {
            check_key(key)?;
        }
        let known = match &key {
            Some(key) => self.store.bulk_by_key(&item_type(), key).await?,
            None => None,
        };
        let into = match known {
            Some(known) => Into::Known(known),
            None => Into::New(self.open().await?),
        };
        Ok(Upload {
            store: Arc::clone(&self.store),
            file: File::new(format),
            key,
            into,
        })
    }

    async fn open(&self) -> StoreResult<BulkId> {
        let now = self.store.now().await?.as_microsecond();
        for later in 0..MAX_SAME_TIME {
            let bulk = id(now + later);
            if self.store.open_bulk(&bulk, &item_type()).await? {
                return Ok(bulk);
            }
        }
        let why = "too many uploads start at once";
        Err(StoreError::Unavailable(why.to_owned()))
    }
}

impl Upload {
    /// Takes the next bytes in; what is full is durable when this returns.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), UploadError> {
        let chunks = self.file.push(bytes).map_err(UploadError::Invalid)?;
        if let Into::New(bulk) = &self.into {
            add(&*self.store, bulk, chunks).await?;
        }
        Ok(())
    }

    /// The file is complete. When this returns `Ok`, it will be taken in whatever happens.
    pub async fn end(self) -> Result<Taken, UploadError> {
        let whole = self.file.end().map_err(UploadError::Invalid)?;
        let known = match self.into {
            Into::Known(known) => known,
            Into::New(bulk) => {
                add(&*self.store, &bulk, whole.last_chunks).await?;
                let closing = self.store.close_bulk(&bulk, self.key, whole.digest.clone());
                match closing.await? {
                    Closed::Running => {
                        return Ok(Taken {
                            bulk,
                            repeat: false,
                        });
                    }
                    Closed::Known(known) => known,
                    Closed::Gone => return Err(gone()),
                }
            }
        };
        if known.digest != whole.digest {
            return Err(UploadError::Conflict(format!(
                "this Idempotency-Key was already used for another file (import {}); choose another key",
                known.bulk
            )));
        }
        Ok(Taken {
            bulk: known.bulk,
            repeat: true,
        })
    }

    /// What to give up when the upload breaks off. What is left behind is swept up later.
    pub fn bulk(&self) -> Option<BulkId> {
        match &self.into {
            Into::New(bulk) => Some(bulk.clone()),
            Into::Known(_) => None,
        }
    }
}

async fn add(store: &dyn Store, bulk: &BulkId, chunks: Vec<NewChunk>) -> Result<(), UploadError> {
    for chunk in chunks {
        if !store.add_chunk(bulk, chunk).await? {
            return Err(gone());
        }
    }
    Ok(())
}

fn gone() -> UploadError {
    let why = "the upload took too long; nothing was imported, send it again";
    UploadError::Gone(why.to_owned())
}

/// `20261116-170000-000123`: when the upload began.
fn id(micros: i64) -> BulkId {
    let time = Timestamp::from_microsecond(micros).unwrap_or_default();
    let within = micros.rem_euclid(1_000_000);
    BulkId::new(format!("{}-{within:06}", time.strftime("%Y%m%d-%H%M%S")))
}

fn check_key(key: &str) -> Result<(), UploadError> {
    let is_plain = key.chars().all(|c| c.is_ascii_graphic());
    if is_plain && !key.is_empty() && key.len() <= MAX_KEY_CHARS {
        return Ok(());
    }
    let what = format!("must have 1 to {MAX_KEY_CHARS} visible ASCII characters");
    Err(UploadError::Invalid(one("Idempotency-Key", what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_when_its_upload_began() {
        let time: Timestamp = "2026-11-16T17:00:00.000123Z".parse().unwrap();
        assert_eq!(id(time.as_microsecond()).as_str(), "20261116-170000-000123");
    }
}
