//! An event as others read it: a CloudEvent. No account, no name of a person, and not the bank's words, which may hold
//! either. Pure.

use serde_json::json;
use tollgate_core::ports::{EventRecord, OutboxEvent};

/// The key is the item's id, so that its events have one order.
pub fn cloud_event(event: &OutboxEvent, source: &str) -> EventRecord {
    let id = event.item.id.as_str();
    let kind = event.item.item_type.as_str().to_ascii_lowercase();
    let mut data = json!({
        "status": event.status,
        "amount": event.money.decimal(),
        "currency": event.money.currency.code(),
        "lane": event.lane.as_ref().map(ToString::to_string),
        "scheduledTime": event.scheduled,
    });
    data[format!("{kind}Id")] = json!(id);
    let body = json!({
        "specversion": "1.0",
        "id": event.id,
        "source": source,
        "type": format!("{kind}.{}", event.status.to_ascii_lowercase()),
        "subject": id,
        "time": event.at,
        "sequence": event.number.to_string(),
        "datacontenttype": "application/json",
        "data": data,
    });
    EventRecord {
        key: id.to_owned(),
        body_json: body.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
    use tollgate_core::money::{Currency, Money};

    use super::*;

    #[test]
    fn an_event_says_which_item_moved_where() {
        let event = OutboxEvent {
            number: 7,
            id: "0b5e".into(),
            item: Item::new(&ItemType::new("PAYMENT"), &ItemId::new("pay_1")),
            status: "IN_DOUBT".into(),
            at: "2026-11-16T16:00:00Z".parse().unwrap(),
            money: Money {
                minor: 12_550,
                currency: Currency::from_code("USD").unwrap(),
            },
            lane: Some(LaneName::new("default")),
            scheduled: None,
            is_behind: false,
        };
        let record = cloud_event(&event, "/tollgate");
        let body: Value = serde_json::from_str(&record.body_json).unwrap();
        let expected = json!({
            "specversion": "1.0", "id": "0b5e", "source": "/tollgate", "type": "payment.in_doubt",
            "subject": "pay_1", "time": "2026-11-16T16:00:00Z", "sequence": "7",
            "datacontenttype": "application/json",
            "data": {"paymentId": "pay_1", "status": "IN_DOUBT", "amount": "125.50",
                     "currency": "USD", "lane": "default", "scheduledTime": null},
        });
        assert_eq!((record.key.as_str(), body), ("pay_1", expected));
    }
}
