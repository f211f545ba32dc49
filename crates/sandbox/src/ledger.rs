//! The independent ledger: what arrived at the bank, when by its own clock, and what took effect.
//! It outlives the bank that writes it, so a bank can be stopped and started on the same ledger;
//! it judges nothing itself, that is for the test that reads it.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    books::{Arrival, Books, Place, Terms, Verdict},
    calls::{CallPlace, Calls, ServiceCall},
    charge::Charge,
    clock::Clock,
    entry::{Effect, Entry, Kind},
    order::Order,
    webhooks::{Delivery, Mailbox},
    window::{Worst, worst_second},
};

/// How many doubled payments the summary names; `doubles()` has them all.
const MAX_DOUBLES_NAMED: usize = 20;

/// A cheap handle; clones share the same ledger.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<Clock>,
    calls: Arc<Calls>,
    books: Mutex<Books>,
    mailbox: Mutex<Mailbox>,
    arrivals: watch::Sender<usize>,
}

/// The ledger in short, as `GET /sandbox/ledger` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub started_unix_secs: f64,
    pub arrivals: usize,
    /// Payments that took effect at least once.
    pub effective: usize,
    /// Payments that took effect more than once.
    pub doubles: usize,
    /// The first few of them, by id.
    pub doubled_payments: Vec<String>,
    /// Arrivals refused, by the limit or for another reason.
    pub refused: usize,
    pub worst_second_count: usize,
    /// The end of the worst second, counted from the start.
    pub worst_second_at_secs: f64,
    pub by_currency: BTreeMap<String, CurrencyTotal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrencyTotal {
    /// How many effects, doubles included.
    pub count: u64,
    /// Their exact sum.
    pub sum: String,
}

/// An entry with its number, counted from 1 since the books began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    pub number: usize,
    #[serde(flatten)]
    pub entry: Entry,
}

/// A key that is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldKey {
    ledger: Ledger,
    place: Place,
    key: Option<String>,
}

impl Ledger {
    /// Opens an empty ledger and starts its clock.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                clock: Arc::new(Clock::start()),
                calls: Arc::default(),
                books: Mutex::default(),
                mailbox: Mutex::default(),
                arrivals: watch::Sender::new(0),
            }),
        }
    }

    /// How many requests have arrived, refused ones and probes included.
    pub fn arrivals(&self) -> usize {
        self.books().entries.len()
    }

    /// A copy of every line, in the order of recording. Arrival times are taken before the lock,
    /// so neighbours may be out of order by the time a lock takes.
    pub fn entries(&self) -> Vec<Entry> {
        self.books().entries.clone()
    }

    /// How many times each payment took effect; those that never did are not listed.
    pub fn effective(&self) -> HashMap<String, u32> {
        self.books().times_effective.clone()
    }

    /// The payments that took effect more than once, sorted.
    pub fn doubles(&self) -> Vec<String> {
        let books = self.books();
        let doubled = books
            .times_effective
            .iter()
            .filter(|(_, times)| **times > 1);
        let mut ids: Vec<String> = doubled.map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids
    }

    /// The fullest sliding second over all arrivals, refused ones included.
    pub fn worst_second(&self) -> Worst {
        let entries = &self.books().entries;
        let mut arrivals: Vec<Duration> = entries.iter().map(|entry| entry.arrival).collect();
        arrivals.sort();
        worst_second(&arrivals)
    }

    /// For each currency the number of effects, doubles included, and their exact sum.
    pub fn total_by_currency(&self) -> BTreeMap<String, (u64, String)> {
        let totals = &self.books().totals;
        let in_words = totals
            .iter()
            .map(|(currency, (count, sum))| (currency.clone(), (*count, sum.to_string())));
        in_words.collect()
    }

    /// Up to `limit` entries, from the one behind number `after`.
    pub fn page(&self, after: usize, limit: usize) -> Vec<Line> {
        let books = self.books();
        let wanted = books.entries.iter().enumerate().skip(after).take(limit);
        let lines = wanted.map(|(index, entry)| Line {
            number: index + 1,
            entry: entry.clone(),
        });
        lines.collect()
    }

    /// A copy of everything that reached `POST /webhooks`, in the order of arrival.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.mailbox().deliveries.clone()
    }

    /// A copy of every call to a service of status checks, in the order in which they began.
    pub fn calls(&self) -> Vec<ServiceCall> {
        self.shared.calls.all()
    }

    /// What Elasticsearch answers as the source of a document.
    pub fn put_document(&self, index: &str, id: &str, source: Value) {
        self.shared.calls.put_document(index, id, source);
    }

    /// Begins anew, keys included; the clock goes on. What is under way is hung up on and takes
    /// no effect, so that the books hold no effect without its arrival.
    pub fn reset(&self) {
        let mut books = self.books();
        books.begin_anew();
        *self.mailbox() = Mailbox::default();
        self.shared.calls.begin_anew();
        self.shared.arrivals.send_replace(0);
    }

    /// Resolves once `n` arrivals have been recorded; at once if they already have.
    pub async fn wait_for_arrivals(&self, n: usize) {
        let mut arrivals = self.shared.arrivals.subscribe();
        let reached = arrivals.wait_for(|recorded| *recorded >= n).await;
        reached.expect("the sender lives in this ledger, which is borrowed while we wait");
    }

    /// What the wall clock showed when the ledger was opened; arrivals count from here.
    pub fn wall_anchor(&self) -> SystemTime {
        self.shared.clock.wall_anchor()
    }

    pub fn summary(&self) -> Summary {
        let worst = self.worst_second();
        let doubles = self.doubles();
        let since_epoch = self.wall_anchor().duration_since(UNIX_EPOCH);
        let is_refused =
            |entry: &&Entry| matches!(entry.effect, Effect::Refused429 | Effect::RefusedOther);
        let totals = self.total_by_currency().into_iter();
        let by_currency =
            totals.map(|(currency, (count, sum))| (currency, CurrencyTotal { count, sum }));
        let books = self.books();
        Summary {
            started_unix_secs: since_epoch.unwrap_or_default().as_secs_f64(),
            arrivals: books.entries.len(),
            effective: books.times_effective.len(),
            doubles: doubles.len(),
            doubled_payments: doubles.into_iter().take(MAX_DOUBLES_NAMED).collect(),
            refused: books.entries.iter().filter(is_refused).count(),
            worst_second_count: worst.count,
            worst_second_at_secs: worst.at.as_secs_f64(),
            by_currency: by_currency.collect(),
        }
    }

    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.shared
            .mailbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.shared
            .books
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the bank writes.
impl Ledger {
    pub(crate) fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    pub(crate) fn arrive(
        &self,
        at: Duration,
        kind: Kind,
        key: Option<String>,
        limit: Option<u32>,
    ) -> Arrival {
        let mut books = self.books();
        let arrival = books.arrive(at, kind, key, limit);
        // Under the lock, so that the number announced is never an old one.
        self.shared.arrivals.send_replace(books.entries.len());
        arrival
    }

    pub(crate) fn begin_call(&self, kind: Kind) -> CallPlace {
        self.shared.calls.begin(kind, &self.shared.clock)
    }

    pub(crate) fn document(&self, index: &str, id: &str) -> Option<Value> {
        self.shared.calls.document(index, id)
    }

    /// For what does not concern money; effects on money go through `pay`.
    pub(crate) fn amend(&self, place: Place, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.books().entry(place) {
            change(entry);
        }
    }

    pub(crate) fn pay(&self, place: Place, order: &Order, terms: &Terms) -> Verdict {
        let mut books = self.books();
        books.pay(self.now(), place, order, terms)
    }

    pub(crate) fn charge(
        &self,
        place: Place,
        charge: &Charge,
        terms: &Terms,
        decline: bool,
    ) -> Verdict {
        let mut books = self.books();
        books.charge(self.now(), place, charge, terms, decline)
    }

    pub(crate) fn probe_charge(&self, place: Place, key: &str, hide: bool) -> Option<String> {
        let mut books = self.books();
        books.probe_charge(self.now(), place, key, hide)
    }

    pub(crate) fn probe(&self, place: Place, payment_id: &str, hide: bool) -> bool {
        let mut books = self.books();
        books.probe(self.now(), place, payment_id, hide)
    }

    pub(crate) fn hold_key(&self, place: Place, honours_keys: bool) -> Result<HeldKey, Verdict> {
        let key = self.books().hold_key(place, honours_keys)?;
        Ok(HeldKey {
            ledger: self.clone(),
            place,
            key,
        })
    }
}

impl Drop for HeldKey {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.ledger.books().release_key(self.place, key);
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

/// Short on purpose: a failed assertion should not print every line.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("arrivals", &self.arrivals())
            .finish_non_exhaustive()
    }
}
