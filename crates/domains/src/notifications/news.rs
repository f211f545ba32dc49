//! What is told, to whom, and under which id. Pure. The id and the hash depend on nothing but event,
//! payment and receiver, so that telling twice is one notification.

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, Item, ItemId};
use tollgate_core::money::Money;
use tollgate_core::ports::{NewItem, NewRecord};

use super::{PENDING, Receiver};
use crate::digest;

/// This many digits of the hash make an id: 160 bits.
pub(super) const ID_DIGITS: usize = 40;

/// What happened to a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The bank has it.
    Processing,
    /// The bank has definitely refused it.
    Rejected,
}

impl Event {
    pub const ALL: [Self; 2] = [Self::Processing, Self::Rejected];

    /// The `type` in the envelope.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processing => "payment.processing",
            Self::Rejected => "payment.rejected",
        }
    }

    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Processing => "PROCESSING",
            Self::Rejected => "REJECTED",
        }
    }
}

/// An event, with what a receiver may know of the payment. No account, no name of a person, and
/// not the bank's words, which may hold either.
#[derive(Debug, Clone)]
pub struct News<'a> {
    pub event: Event,
    pub at: Timestamp,
    pub payment: &'a Item,
    pub payment_id: &'a str,
    pub amount: &'a str,
    pub currency: &'a str,
    pub gateway: &'a str,
    pub reference: Option<&'a str>,
    /// How often it was refused and reopened before.
    pub reopened: usize,
}

/// What the exec flow gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewsContext {
    /// The receiver's place.
    pub(super) receiver: String,
    /// As it is signed and sent, byte by byte.
    pub(super) body: String,
    /// The payment whose refusal it announces: not while that may be part of a storm, and not once
    /// it is reopened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Item>,
}

impl News<'_> {
    /// The notification of one receiver.
    pub fn item(&self, to: &Receiver, told_by: &FlowId) -> Result<NewItem, serde_json::Error> {
        let context = NewsContext {
            receiver: to.place.clone(),
            body: self.body(),
            refused: match self.event {
                Event::Rejected => Some(self.payment.clone()),
                Event::Processing => None,
            },
        };
        let hash = hash(self.event, self.payment_id, &to.place, self.reopened);
        let (id, lane) = (id_of(&hash), to.lane.clone());
        let record = NewRecord::new(self.payment_id, PENDING, Money::NONE, hash);
        let body = serde_json::to_string(&context)?;
        Ok(NewItem::new(id, lane, record, body, told_by.clone()))
    }

    /// The envelope of the Standard Webhooks specification.
    fn body(&self) -> String {
        let data = json!({
            "paymentId": self.payment_id,
            "status": self.event.status(),
            "amount": self.amount,
            "currency": self.currency,
            "gateway": self.gateway,
            "reference": self.reference,
        });
        json!({"type": self.event.name(), "timestamp": self.at, "data": data}).to_string()
    }
}

/// The notification's id, and its `webhook-id`. A payment that is rejected again after it was
/// reopened is announced again.
pub fn news_id(event: Event, payment_id: &str, place: &str, reopened: usize) -> ItemId {
    id_of(&hash(event, payment_id, place, reopened))
}

fn id_of(hash: &str) -> ItemId {
    ItemId::new(format!("msg_{}", &hash[..ID_DIGITS]))
}

/// 64 hexadecimal digits.
fn hash(event: Event, payment_id: &str, place: &str, reopened: usize) -> String {
    let named = match (event, reopened) {
        (Event::Processing, _) | (Event::Rejected, 0) => json!([event.name(), payment_id, place]),
        (Event::Rejected, reopened) => json!([event.name(), payment_id, place, reopened]),
    };
    digest::of(&named.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use tollgate_core::id::{ItemType, LaneName, check_item_id};

    use super::*;

    static PAYMENT: LazyLock<Item> =
        LazyLock::new(|| Item::new(&ItemType::new("PAYMENT"), &ItemId::new("pay_1")));

    fn news(at: &str) -> News<'static> {
        News {
            event: Event::Processing,
            at: at.parse().unwrap(),
            payment: &PAYMENT,
            reopened: 0,
            payment_id: "pay_1",
            amount: "125.50",
            currency: "USD",
            gateway: "default",
            reference: Some("rent"),
        }
    }
    fn receiver(place: &str) -> Receiver {
        Receiver {
            place: place.into(),
            lane: LaneName::new("notifications-shop"),
        }
    }
    fn item(news: &News<'_>, place: &str) -> NewItem {
        let flow = FlowId::new("exec-payment-pay_1");
        news.item(&receiver(place), &flow).unwrap()
    }

    #[test]
    fn a_receiver_gets_the_documented_envelope_and_no_account() {
        let item = item(&news("2026-11-16T16:00:00Z"), "shop:443/hooks");
        let context: NewsContext = serde_json::from_str(&item.body).unwrap();
        let body: serde_json::Value = serde_json::from_str(&context.body).unwrap();
        let expected = json!({
            "type": "payment.processing", "timestamp": "2026-11-16T16:00:00Z",
            "data": {"paymentId": "pay_1", "status": "PROCESSING", "amount": "125.50",
                     "currency": "USD", "gateway": "default", "reference": "rent"},
        });
        assert_eq!(
            (body, context.receiver.as_str()),
            (expected, "shop:443/hooks")
        );
        assert_eq!(item.record.money, Money::NONE);
    }

    #[test]
    fn telling_again_later_is_the_same_notification() {
        let one = item(&news("2026-11-16T16:00:00Z"), "shop:443/");
        let two = item(&news("2026-11-17T09:00:00Z"), "shop:443/");
        assert_eq!(one.id, two.id);
        assert_eq!(one.record.content_hash, two.record.content_hash);
        check_item_id(one.id.as_str()).unwrap();
        // The signed text is id.time.body: an id with a full stop could be read in two ways.
        assert!(!one.id.as_str().contains('.'));
    }

    #[test]
    fn another_event_payment_or_receiver_is_another_notification() {
        let all = [
            news_id(Event::Processing, "p", "a:1", 0),
            news_id(Event::Rejected, "p", "a:1", 0),
            news_id(Event::Processing, "q", "a:1", 0),
            news_id(Event::Processing, "p", "a:1/x", 0),
            news_id(Event::Rejected, "p", "a:1", 1),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let again = news_id(Event::Processing, "p", "a:1", 1);
        assert_eq!(again, all[0], "a payment is accepted once");
    }
}
