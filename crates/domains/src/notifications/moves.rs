//! Further events for receivers that ask for them: the moves of payments in the outbox, each as one notification per
//! receiver. Its id depends on the event and the receiver only, so that relaying twice is one notification.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use tollgate_core::actor;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::money::Money;
use tollgate_core::ports::{
    Admission, NewAudit, NewItem, NewRecord, OutboxEvent, Store, StoreError, StoreResult,
};
use tollgate_dispatch::OnMoves;

use super::news::{ID_DIGITS, NewsContext};
use super::{PENDING, Receiver, item_type};
use crate::digest;
use crate::payments;

/// What receivers may ask for besides `payment.processing` and `payment.rejected`, which they always get.
pub const FURTHER_EVENTS: [&str; 7] = [
    "payment.scheduled",
    "payment.accepted",
    "payment.in_doubt",
    "payment.held",
    "payment.dead",
    "payment.cancelled",
    "payment.failed",
];

/// Queues notifications of further events.
pub struct FurtherNews {
    pub store: Arc<dyn Store>,
    pub receivers: Vec<Receiver>,
    /// Some of [`FURTHER_EVENTS`].
    pub wanted: BTreeSet<String>,
}

impl std::fmt::Debug for FurtherNews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FurtherNews")
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl OnMoves for FurtherNews {
    async fn on_moves(&self, events: &[OutboxEvent]) -> StoreResult<()> {
        let mut news = vec![];
        for event in events {
            let name = name_of(event);
            if event.item.item_type == payments::item_type() && self.wanted.contains(&name) {
                let body = self.body(event, &name).await?;
                for to in &self.receivers {
                    news.push(notification(event, &body, to)?);
                }
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        for admission in self.store.admit(&item_type(), news).await? {
            if let Admission::Refused(why) | Admission::RefusedBy { message: why, .. } = admission {
                self.not_queued(why).await?;
            }
        }
        Ok(())
    }
}

impl FurtherNews {
    /// The envelope that all webhooks have.
    async fn body(&self, event: &OutboxEvent, name: &str) -> StoreResult<String> {
        let view = self.store.item(&event.item).await?;
        let gateway = view.as_ref().and_then(payments::gateway);
        let request = view.and_then(|view| payments::document(&view).ok());
        let reference = request.and_then(|request| request.reference);
        let data = json!({
            "paymentId": event.item.id.as_str(),
            "status": event.status,
            "amount": event.money.decimal(),
            "currency": event.money.currency.code(),
            "gateway": gateway,
            "reference": reference,
        });
        Ok(json!({"type": name, "timestamp": event.at, "data": data}).to_string())
    }

    /// Waiting would hold up all other events.
    async fn not_queued(&self, why: String) -> StoreResult<()> {
        let entry = NewAudit {
            item: None,
            action: "NOT_NOTIFIED".to_owned(),
            actor: actor::PAYMENTS.to_owned(),
            detail: why,
        };
        self.store.write_audit(entry).await
    }
}

fn name_of(event: &OutboxEvent) -> String {
    format!("payment.{}", event.status.to_ascii_lowercase())
}

fn notification(event: &OutboxEvent, body: &str, to: &Receiver) -> StoreResult<NewItem> {
    let context = NewsContext {
        receiver: to.place.clone(),
        body: body.to_owned(),
        refused: None,
    };
    let bug = |e: serde_json::Error| StoreError::Bug(format!("{}: {e}", event.item));
    let context = serde_json::to_string(&context).map_err(bug)?;
    let hash = digest::of(&json!([event.id, to.place]).to_string());
    let id = ItemId::new(format!("msg_{}", &hash[..ID_DIGITS]));
    let record = NewRecord::new(event.item.id.as_str(), PENDING, Money::NONE, hash);
    let flow = FlowId::new(format!("event-{}", event.id));
    Ok(NewItem::new(id, to.lane.clone(), record, context, flow))
}
