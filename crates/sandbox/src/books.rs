//! What the bank remembers: every arrival, the keys it has answered, and what took effect. Plain
//! state behind the ledger's lock; it reads no clock and speaks no HTTP.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use rust_decimal::Decimal;
use serde_json::json;

use crate::{
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
    /// The arrivals of the last second that were within the limit.
    admitted: VecDeque<Duration>,
    last_reference: u64,
}

struct FirstAnswer {
    body_sha256: String,
    answer: String,
}

/// The place of an arrival in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) number: usize,
    pub(crate) within_limit: bool,
}

/// What the bank says to an order it could read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted { answer: String },
    KeyHasAnotherBody,
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
            answered: false,
        });
        Arrival {
            number: self.entries.len() - 1,
            within_limit,
        }
    }

    /// Carries out an order that was described in its entry: once per key if keys are honoured,
    /// otherwise each time.
    pub(crate) fn pay(&mut self, number: usize, order: &Order, honours_keys: bool) -> Verdict {
        let entry = &mut self.entries[number];
        let body_sha256 = entry.body_sha256.clone().unwrap_or_default();
        let key = entry.key.clone().filter(|_| honours_keys);
        if let Some(first) = key.as_ref().and_then(|key| self.answers.get(key)) {
            if first.body_sha256 != body_sha256 {
                entry.effect = Effect::RefusedOther;
                return Verdict::KeyHasAnotherBody;
            }
            entry.effect = Effect::Repeated;
            let answer = first.answer.clone();
            return Verdict::Accepted { answer };
        }
        entry.effect = Effect::Took;
        let answer = self.take_effect(order);
        if let Some(key) = key {
            let first = FirstAnswer {
                body_sha256,
                answer: answer.clone(),
            };
            self.answers.insert(key, first);
        }
        Verdict::Accepted { answer }
    }

    fn take_effect(&mut self, order: &Order) -> String {
        self.last_reference += 1;
        *self
            .times_effective
            .entry(order.payment_id.clone())
            .or_default() += 1;
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
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_the_admitted_arrivals_of_the_last_second() {
        let mut books = Books::default();
        let millis_and_within_limit = [
            (0, true),
            (500, true),
            (500, false),
            (999, false),
            (1_000, true), // the one at 0 is exactly a second old, and out
            (1_499, false),
            (1_500, true),
            (9_000, true),
        ];
        for (millis, within_limit) in millis_and_within_limit {
            let at = Duration::from_millis(millis);
            let arrival = books.arrive(at, Kind::Send, None, Some(2));
            assert_eq!(arrival.within_limit, within_limit, "at {millis} ms");
        }
    }
}
