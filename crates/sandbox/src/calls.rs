//! The book of calls to the three services: who was asked what, from when to when.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{clock::Clock, entry::Kind};

/// One call to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCall {
    pub kind: Kind,
    /// When the head of the request was seen, since the ledger was opened.
    #[serde(rename = "beganSecs", serialize_with = "in_secs")]
    pub began: Duration,
    /// When its answer was handed to the connection, or its client had left; none while it is under
    /// way.
    #[serde(rename = "endedSecs", serialize_with = "in_secs_or_null")]
    pub ended: Option<Duration>,
    pub gateway: Option<String>,
    pub payment_ids: Vec<String>,
    /// What it was told; none if nothing.
    pub status: Option<u16>,
    pub fault: Option<String>,
}

impl ServiceCall {
    pub(crate) fn begun(kind: Kind, began: Duration) -> Self {
        Self {
            kind,
            began,
            ended: None,
            gateway: None,
            payment_ids: vec![],
            status: None,
            fault: None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    calls: Vec<ServiceCall>,
    /// By index and id.
    documents: HashMap<(String, String), Value>,
    /// Raised when the book begins anew, so that a place in the old one is recognised.
    volume: u64,
}

impl Calls {
    pub(crate) fn begin(self: &Arc<Self>, kind: Kind, clock: &Arc<Clock>) -> CallPlace {
        let mut book = self.book();
        book.calls.push(ServiceCall::begun(kind, clock.now()));
        CallPlace {
            calls: Arc::clone(self),
            clock: Arc::clone(clock),
            volume: book.volume,
            number: book.calls.len() - 1,
        }
    }

    pub(crate) fn all(&self) -> Vec<ServiceCall> {
        self.book().calls.clone()
    }

    pub(crate) fn document(&self, index: &str, id: &str) -> Option<Value> {
        let key = (index.to_owned(), id.to_owned());
        self.book().documents.get(&key).cloned()
    }

    pub(crate) fn put_document(&self, index: &str, id: &str, source: Value) {
        let key = (index.to_owned(), id.to_owned());
        self.book().documents.insert(key, source);
    }

    pub(crate) fn begin_anew(&self) {
        let mut book = self.book();
        *book = Book {
            volume: book.volume + 1,
            ..Book::default()
        };
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct CallPlace {
    calls: Arc<Calls>,
    clock: Arc<Clock>,
    volume: u64,
    number: usize,
}

impl CallPlace {
    pub(crate) fn amend(&self, change: impl FnOnce(&mut ServiceCall)) {
        let mut book = self.calls.book();
        if book.volume == self.volume {
            change(&mut book.calls[self.number]);
        }
    }

    pub(crate) fn first_payment(&self) -> Option<String> {
        let mut first = None;
        self.amend(|call| first = call.payment_ids.first().cloned());
        first
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.amend(|call| call.ended = Some(now));
    }
}

fn in_secs<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn in_secs_or_null<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}
