//! A secret that may change while we run: where it is read from, and its last value. It is never shown.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How old a value may be before its source is looked at again.
const FRESH_FOR: Duration = Duration::from_secs(1);

type Read = dyn Fn() -> Result<String, String> + Send + Sync;

/// Where a secret is read from, again and again.
#[derive(Clone)]
pub struct SecretSource(Arc<Read>);

impl SecretSource {
    pub fn new(read: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// A secret as it is now.
pub(crate) struct Rotating {
    source: SecretSource,
    last: Mutex<(String, Instant)>,
}

impl fmt::Debug for Rotating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Rotating {
    /// Reads it; what cannot be read at the start stops the start.
    pub(crate) fn read(source: SecretSource) -> Result<Self, String> {
        let value = (source.0)()?;
        if value.trim().is_empty() {
            return Err("its value is empty".to_owned());
        }
        let last = Mutex::new((value, Instant::now()));
        Ok(Self { source, last })
    }

    /// A source that cannot be read for the moment, as while a file is replaced, keeps its last value.
    pub(crate) fn value(&self) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1.elapsed() >= FRESH_FOR {
            last.1 = Instant::now();
            if let Ok(value) = (self.source.0)()
                && !value.trim().is_empty()
            {
                last.0 = value;
            }
        }
        last.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_read_again_and_outlives_a_source_that_is_away() {
        let said = Arc::new(Mutex::new(Ok("one".to_owned())));
        let read = Arc::clone(&said);
        let source = SecretSource::new(move || read.lock().unwrap().clone());
        let secret = Rotating::read(source).unwrap();
        *said.lock().unwrap() = Ok("two".to_owned());
        assert_eq!(secret.value(), "one");
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(secret.value(), "two");
        for gone in [Err("away".to_owned()), Ok(String::new())] {
            *said.lock().unwrap() = gone;
            tokio::time::advance(FRESH_FOR).await;
            assert_eq!(secret.value(), "two");
        }
        assert_eq!(format!("{secret:?}"), "…");
    }
}
