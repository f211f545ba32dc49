//! What the bank remembers: every arrival, the keys it has answered, and what took effect. Plain
//! state behind the ledger's lock; it reads no clock and speaks no HTTP.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::Duration,
};

use rust_decimal::Decimal;
use serde_json::json;

use crate::{
    charge::{self, Charge},
    entry::{Effect, Entry, Kind},
    order::Order,
    window::SECOND,
};

/// Not bounded, except `admitted`: a judge that forgets an arrival cannot be believed. A line takes
/// about half a kilobyte, so a run of a million payments fits in one gigabyte.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) entries: Vec<Entry>,
    pub(crate) times_effective: HashMap<String, u32>,
    pub(crate) totals: BTreeMap<String, (u64, Decimal)>,
    answers: HashMap<String, FirstAnswer>,
    /// What was said to each charge, by its key, and from when on a question finds it.
    charges: HashMap<String, (String, Duration)>,
    keys_in_use: HashSet<String>,
    /// From when on a probe finds a payment, for those that took time to settle.
    visible_from: HashMap<String, Duration>,
    /// The arrivals of the last second that were within the limit.
    admitted: VecDeque<Duration>,
    last_reference: u64,
    /// Raised when the books begin anew, so that a place in the old ones is recognised.
    volume: u64,
}

struct FirstAnswer {
    body_sha256: String,
    answer: String,
    forgotten_from: Option<Duration>,
}

/// A line of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    volume: u64,
    number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) place: Place,
    pub(crate) within_limit: bool,
}

/// How one order is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// If not, keys are ignored.
    pub(crate) honours_keys: bool,
    /// Keys are the names of batches: one that is known is refused, whatever is in it.
    pub(crate) refuses_batches: bool,
    /// So long after the effect a probe still finds nothing.
    pub(crate) settle: Duration,
    /// So long after the effect the key is forgotten; None: never.
    pub(crate) forget_key: Option<Duration>,
}

/// What the bank says to an order it could read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted {
        answer: String,
    },
    KeyHasAnotherBody,
    KeyInUse,
    /// A batch of this name was carried out before.
    KnownBatch,
    /// It arrived before the books began anew, and has no place in them: nothing is done.
    BooksClosed,
}

impl Books {
    /// Records an arrival and decides whether it is within the limit. An arrival refused by the
    /// limit does not use it up: a client that hammers still gets its share.
    pub(crate) fn arrive(
        &mut self,
        at: Duration,
        kind: Kind,
        key: Option<String>,
        limit_per_second: Option<u32>,
    ) -> Arrival {
        while self
            .admitted
            .front()
            .is_some_and(|&earlier| earlier + SECOND <= at)
        {
            self.admitted.pop_front();
        }
        let in_this_second = u32::try_from(self.admitted.len()).unwrap_or(u32::MAX);
        let within_limit = limit_per_second.is_none_or(|limit| in_this_second < limit);
        if within_limit {
            self.admitted.push_back(at);
        }
        self.entries.push(Entry {
            arrival: at,
            kind,
            key,
            payment_id: None,
            body_sha256: None,
            amount: None,
            currency: None,
            effect: if within_limit {
                Effect::LostBefore
            } else {
                Effect::Refused429
            },
            fault: None,
            answered: false,
        });
        Arrival {
            place: Place {
                volume: self.volume,
                number: self.entries.len() - 1,
            },
            within_limit,
        }
    }

    /// None if the books have begun anew since.
    pub(crate) fn entry(&mut self, place: Place) -> Option<&mut Entry> {
        let is_current = place.volume == self.volume;
        is_current.then(|| &mut self.entries[place.number])
    }

    /// Forgets everything, keys included, but not how many arrivals the limit has admitted.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self {
            volume: self.volume + 1,
            admitted: std::mem::take(&mut self.admitted),
            last_reference: self.last_reference,
            ..Self::default()
        };
    }

    /// Takes the key of an order that will be carried out later. No key: nothing to take.
    pub(crate) fn hold_key(
        &mut self,
        place: Place,
        honours_keys: bool,
    ) -> Result<Option<String>, Verdict> {
        let entry = self.entry(place).ok_or(Verdict::BooksClosed)?;
        let Some(key) = entry.key.clone().filter(|_| honours_keys) else {
            return Ok(None);
        };
        if self.keys_in_use.insert(key.clone()) {
            return Ok(Some(key));
        }
        self.set_effect(place, Effect::RefusedOther);
        Err(Verdict::KeyInUse)
    }

    pub(crate) fn release_key(&mut self, place: Place, key: &str) {
        // In new books the same key is somebody else's.
        if place.volume == self.volume {
            self.keys_in_use.remove(key);
        }
    }

    /// Carries out an order that was described in its entry: once per key if keys are honoured,
    /// otherwise each time.
    pub(crate) fn pay(
        &mut self,
        now: Duration,
        place: Place,
        order: &Order,
        terms: &Terms,
    ) -> Verdict {
        self.once(now, place, terms, |books| {
            (Effect::Took, books.take_effect(now, order, terms.settle))
        })
    }

    /// Charges, or declines to, by the same rule.
    pub(crate) fn charge(
        &mut self,
        now: Duration,
        place: Place,
        charge: &Charge,
        terms: &Terms,
        decline: bool,
    ) -> Verdict {
        let key = self.entry(place).and_then(|entry| entry.key.clone());
        self.once(now, place, terms, |books| {
            let (effect, answer) = if decline {
                (Effect::Declined, charge::no())
            } else {
                books.take_effect(now, &charge.order, terms.settle);
                (Effect::Took, charge::yes(books.last_reference))
            };
            if let Some(key) = key {
                let first = (answer.clone(), now + terms.settle);
                books.charges.entry(key).or_insert(first);
            }
            (effect, answer)
        })
    }

    fn once(
        &mut self,
        now: Duration,
        place: Place,
        terms: &Terms,
        act: impl FnOnce(&mut Self) -> (Effect, String),
    ) -> Verdict {
        let Some(entry) = self.entry(place) else {
            return Verdict::BooksClosed;
        };
        let body_sha256 = entry.body_sha256.clone().unwrap_or_default();
        let heeds = terms.honours_keys || terms.refuses_batches;
        let key = entry.key.clone().filter(|_| heeds);
        if key
            .as_ref()
            .is_some_and(|key| self.keys_in_use.contains(key))
        {
            self.set_effect(place, Effect::RefusedOther);
            return Verdict::KeyInUse;
        }
        if let Some(first) = key.as_ref().and_then(|key| self.remembered(now, key)) {
            if terms.refuses_batches {
                self.set_effect(place, Effect::RefusedOther);
                return Verdict::KnownBatch;
            }
            let same_body = first.body_sha256 == body_sha256;
            let answer = first.answer.clone();
            if !same_body {
                self.set_effect(place, Effect::RefusedOther);
                return Verdict::KeyHasAnotherBody;
            }
            self.set_effect(place, Effect::Repeated);
            return Verdict::Accepted { answer };
        }
        let (effect, answer) = act(self);
        self.set_effect(place, effect);
        if let Some(key) = key {
            let first = FirstAnswer {
                body_sha256,
                answer: answer.clone(),
                forgotten_from: terms.forget_key.map(|after| now + after),
            };
            self.answers.insert(key, first);
        }
        Verdict::Accepted { answer }
    }

    /// Whether the payment is there to be seen. `hide` denies it in any case.
    pub(crate) fn probe(
        &mut self,
        now: Duration,
        place: Place,
        payment_id: &str,
        hide: bool,
    ) -> bool {
        let took_effect = self.times_effective.contains_key(payment_id);
        let visible_from = self.visible_from.get(payment_id);
        let is_hidden = hide || visible_from.is_some_and(|&from| now < from);
        let effect = match (took_effect, is_hidden) {
            (true, false) => Effect::Found,
            (true, true) => Effect::Hidden,
            (false, _) => Effect::NotFound,
        };
        self.set_effect(place, effect);
        effect == Effect::Found
    }

    /// What was said to the charge under this key, if it is there to be seen.
    pub(crate) fn probe_charge(
        &mut self,
        now: Duration,
        place: Place,
        key: &str,
        hide: bool,
    ) -> Option<String> {
        let said = self.charges.get(key).cloned();
        let seen = said
            .clone()
            .filter(|(_, visible_from)| !hide && *visible_from <= now);
        let effect = match (&said, &seen) {
            (None, _) => Effect::NotFound,
            (Some(_), None) => Effect::Hidden,
            (Some(_), Some(_)) => Effect::Found,
        };
        self.set_effect(place, effect);
        seen.map(|(answer, _)| answer)
    }

    fn set_effect(&mut self, place: Place, effect: Effect) {
        if let Some(entry) = self.entry(place) {
            entry.effect = effect;
        }
    }

    fn remembered(&self, now: Duration, key: &str) -> Option<&FirstAnswer> {
        let first = self.answers.get(key)?;
        let is_forgotten = first.forgotten_from.is_some_and(|from| from <= now);
        (!is_forgotten).then_some(first)
    }

    fn take_effect(&mut self, now: Duration, order: &Order, settle: Duration) -> String {
        self.last_reference += 1;
        let id = &order.payment_id;
        let times = self.times_effective.entry(id.clone()).or_default();
        *times += 1;
        // A payment that can be seen does not disappear when it is doubled.
        if *times == 1 && !settle.is_zero() {
            self.visible_from.insert(id.clone(), now + settle);
        }
        let (count, sum) = self.totals.entry(order.currency.clone()).or_default();
        *count += 1;
        *sum += order.amount;
        json!({
            "paymentId": order.payment_id,
            "status": "accepted",
            "bankReference": format!("bank-{}", self.last_reference),
            "amount": order.amount_text,
            "currency": order.currency,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests;
