//! The recorded results of one run, in memory. It writes nothing: a result is put here after the
//! store has it.

use std::cell::RefCell;
use std::collections::HashMap;

use tokio::sync::Notify;
use tollgate_core::ports::JournalEntry;

/// What is written of a try that failed: its number before the key of its step. No step's name begins like this.
const FAILED: char = '!';

pub(crate) fn failed_try(attempt: u32, key: &str) -> JournalEntry {
    JournalEntry {
        key: format!("{FAILED}{attempt} {key}"),
        result_json: "null".to_owned(),
    }
}

fn read_failed_try(entry: &JournalEntry) -> Option<(&str, u32)> {
    let (attempt, key) = entry.key.strip_prefix(FAILED)?.split_once(' ')?;
    Some((key, attempt.parse().ok()?))
}

pub(crate) struct Journal {
    /// How often a step without a result has failed in earlier runs of this process or another.
    failed: HashMap<String, u32>,
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
        let (mut failed, mut results) = (HashMap::new(), HashMap::new());
        for entry in entries {
            if let Some((key, attempt)) = read_failed_try(&entry) {
                let most: &mut u32 = failed.entry(key.to_owned()).or_default();
                *most = attempt.max(*most);
            } else {
                results.insert(entry.key, Some(entry.result_json));
            }
        }
        Self {
            failed,
            results: RefCell::new(results),
            changed: Notify::new(),
        }
    }

    /// How often the step of this key has failed before this run.
    pub(crate) fn failed_tries(&self, key: &str) -> u32 {
        self.failed.get(key).copied().unwrap_or_default()
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
