//! Who was told what became of a payment: one line of its timeline per notification.

use tollgate_contract as contract;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ItemView, StoreResult};
use tollgate_domains::notifications::{self, DELIVERED, Event, REFUSED, WITHDRAWN, news_id};
use tollgate_domains::payments::times_reopened;

use crate::App;

/// Only of receivers that are configured now: the others' ids cannot be known.
pub(super) async fn told_of(app: &App, payment: &ItemView) -> StoreResult<Vec<contract::Event>> {
    let mut events = vec![];
    if payment.finished_at.is_none() {
        return Ok(events);
    }
    for receiver in app.receivers.iter() {
        for event in Event::ALL {
            let rounds = match event {
                Event::Processing => 0,
                Event::Rejected => times_reopened(&payment.attempts),
            };
            for reopened in 0..=rounds {
                let id = news_id(event, payment.item.id.as_str(), &receiver.place, reopened);
                if let Some(view) = app.store.item(&notifications::item(&id)).await? {
                    events.push(in_words(&view, event, &receiver.place));
                }
            }
        }
    }
    Ok(events)
}

fn in_words(view: &ItemView, event: Event, place: &str) -> contract::Event {
    let news = format!("notification {} to {place}", event.name());
    let because = view.last_error.as_deref().unwrap_or("its turn");
    let (at, state) = match (view.status.as_str(), view.queue_status) {
        (DELIVERED, _) => (view.finished_at, "delivered".to_owned()),
        (REFUSED, _) => (view.finished_at, "refused by the receiver".to_owned()),
        (WITHDRAWN, _) => (
            view.finished_at,
            "cancelled: the payment was reopened".to_owned(),
        ),
        (_, QueueStatus::Dead) => (None, format!("given up ({because}); it can be replayed")),
        (_, QueueStatus::Cancelled) => (view.finished_at, "cancelled".to_owned()),
        (_, QueueStatus::Claimed | QueueStatus::Dispatched) => (None, "being sent".to_owned()),
        (_, QueueStatus::Ready | QueueStatus::Held) => {
            (None, format!("waits until {} ({because})", view.due))
        }
    };
    contract::Event {
        at: at.unwrap_or(view.created_at),
        what: format!("{news}: {state}"),
    }
}
