//! The recorded results of one run, in memory. It writes nothing: a result is put here after the
//! store has it.

use std::cell::RefCell;
use std::collections::HashMap;

use tokio::sync::Notify;
use tollgate_core::ports::JournalEntry;

pub(crate) struct Journal {
    /// `None` while somebody in this run works on the key.
    results: RefCell<HashMap<String, Option<String>>>,
    changed: Notify,
}

/// Who produces the result of a key.
pub(crate) enum Turn<'a> {
    Recorded(String),
    Mine(Claim<'a>),
}

impl Journal {
    pub(crate) fn new(entries: Vec<JournalEntry>) -> Self {
        let results = entries
            .into_iter()
            .map(|entry| (entry.key, Some(entry.result_json)));
        Self {
            results: RefCell::new(results.collect()),
            changed: Notify::new(),
        }
    }

    /// The recorded result, or the right to produce it. A second call with the same key waits
    /// for the first.
    pub(crate) async fn turn(&self, key: &str) -> Turn<'_> {
        loop {
            // Created before the look, so that a change after it is not missed.
            let changed = self.changed.notified();
            let known = self.results.borrow().get(key).cloned();
            match known {
                Some(Some(result_json)) => return Turn::Recorded(result_json),
                Some(None) => changed.await,
                None => {
                    self.results.borrow_mut().insert(key.to_owned(), None);
                    return Turn::Mine(Claim {
                        journal: self,
                        key: Some(key.to_owned()),
                    });
                }
            }
        }
    }
}

/// The right to produce one result. Dropped without one, the next caller gets the right.
pub(crate) struct Claim<'a> {
    journal: &'a Journal,
    key: Option<String>,
}

impl Claim<'_> {
    pub(crate) fn record(mut self, result_json: String) {
        if let Some(key) = self.key.take() {
            self.journal
                .results
                .borrow_mut()
                .insert(key, Some(result_json));
            self.journal.changed.notify_waiters();
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.journal.results.borrow_mut().remove(&key);
            self.journal.changed.notify_waiters();
        }
    }
}
