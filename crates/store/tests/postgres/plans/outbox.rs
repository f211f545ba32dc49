//! The operations about events.

use std::time::Duration;

use tollgate_core::ports::{Author, Outbox, RetriedUpTo, TurnedOff};
use tollgate_store::postgres::PostgresStore;

pub(super) async fn run_all(store: &PostgresStore) {
    let author = || Author::new("ops", "because");
    assert!(store.turn_events_on(author()).await.unwrap());
    let hold = store.hold_relay("me", Duration::from_mins(1)).await;
    let hold = hold.unwrap().unwrap();
    assert_eq!(store.relay_settings("me", "a = 1").await.unwrap(), "a = 1");
    let lease = Duration::from_secs(10);
    store.note_relay_difference("a", lease).await.unwrap();
    let events = store.events_to_publish(500).await.unwrap();
    let numbers = events.iter().map(|event| event.number).collect();
    assert!(store.events_published(hold, numbers).await.unwrap());
    let events = store.events_to_publish(500).await.unwrap();
    let numbers = events.iter().map(|event| event.number).collect();
    assert!(store.events_refused(hold, numbers).await.unwrap());
    let after = RetriedUpTo::event(&events[0]);
    let again = store.events_to_retry(after, 500).await.unwrap();
    assert_eq!(again.len(), 500);
    let trouble = Some("no broker".to_owned());
    store.note_relay_trouble(trouble).await.unwrap();
    assert!(store.outbox().await.unwrap().backlog > 10_000);
    store.leave_relay("me").await.unwrap();
    let off = store.turn_events_off(author()).await.unwrap();
    assert!(matches!(off, TurnedOff::Yes { .. }), "{off:?}");
}
