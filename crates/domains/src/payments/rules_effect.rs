//! What rules would do at execution to the payments that wait: counted before they are put in force.

use std::collections::BTreeMap;

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{Judged, Store, StoreResult};

use super::bulk::breathe;
use super::prepare::PaymentContext;
use super::rulebook::Rulebook;
use super::status::PaymentStatus;
use super::{PaymentRequest, item_type};

const PAGE: u32 = 1000;
/// At most this many payments are judged before others get their turn on the thread.
const PAYMENTS_AT_ONCE: usize = 32;

/// How many payments that wait would be stopped, each counted once and under every rule against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesEffect {
    pub held: u64,
    pub rejected: u64,
    pub by_rule: BTreeMap<String, u64>,
}

impl RulesEffect {
    /// Without an end, so that a count is never silently partial. Each payment is judged as of the
    /// time when it is due.
    pub async fn of(book: &Rulebook, store: &dyn Store) -> StoreResult<Self> {
        let mut effect = Self::default();
        if !book.judges_execution() {
            return Ok(effect);
        }
        let now = store.now().await?;
        let (kind, status) = (item_type(), PaymentStatus::Scheduled.as_str());
        let mut after = None;
        loop {
            let page = store
                .with_status(&kind, status, after.as_ref(), PAGE)
                .await?;
            for (n, judged) in page.iter().enumerate() {
                if n % PAYMENTS_AT_ONCE == 0 {
                    breathe().await;
                }
                effect.add(book, judged, now);
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.id),
                None => return Ok(effect),
            }
        }
    }

    fn add(&mut self, book: &Rulebook, judged: &Judged, now: Timestamp) {
        let waits = matches!(
            judged.queue_status,
            QueueStatus::Ready | QueueStatus::Claimed | QueueStatus::Dispatched
        );
        let body = judged.body.as_deref().unwrap_or_default();
        let payment = serde_json::from_str::<PaymentRequest>(body);
        let (true, false, Ok(payment)) = (waits, judged.has_ended, payment) else {
            return;
        };
        let Ok(context) = PaymentContext::read(body) else {
            return;
        };
        let payment = PaymentRequest {
            execute_at: Some(judged.requested),
            ..payment
        };
        let (at, passed) = (judged.due.max(now), &judged.passed_rules);
        let Some(objection) = book.objection(&payment, &context.gateway, &judged.lane, at, passed)
        else {
            return;
        };
        if objection.rejects {
            self.rejected += 1;
        } else {
            self.held += 1;
        }
        for rule in objection.names {
            *self.by_rule.entry(rule).or_insert(0) += 1;
        }
    }

    pub fn stopped(&self) -> u64 {
        self.held + self.rejected
    }
}
