//! Events on PostgreSQL, where a transaction with a lower number may commit after one with a higher number. The relay
//! publishes both; one that goes on above the highest number it has seen is found out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tollgate_conformance::postgres as cluster;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Author, EventRecord, EventSink, Lanes, NewItem, NewRecord, Outbox, OutboxEvent, Published,
    Queue, SinkTrouble, Store,
};
use tollgate_dispatch::{EventRelay, Outlets, cloud_event};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

/// Keeps what it is given, and fails as often as it is told.
#[derive(Default)]
struct Topic {
    bodies: Mutex<Vec<String>>,
    failures: Mutex<u32>,
}

#[async_trait]
impl EventSink for Topic {
    async fn publish(&self, events: &[EventRecord], _: Timestamp) -> Published {
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            // The first is durable, the rest is not.
            self.keep(&events[..1]);
            return Published {
                acknowledged: vec![0],
                trouble: Some(SinkTrouble("no leader".into())),
            };
        }
        self.keep(events);
        Published {
            acknowledged: (0..events.len()).collect(),
            trouble: None,
        }
    }
}

impl Topic {
    fn keep(&self, events: &[EventRecord]) {
        let mut bodies = self.bodies.lock().unwrap();
        bodies.extend(events.iter().map(|event| event.body_json.clone()));
    }
    fn ids(&self) -> BTreeSet<String> {
        let bodies = self.bodies.lock().unwrap();
        let id = |body: &String| {
            let event: serde_json::Value = serde_json::from_str(body).unwrap();
            event["id"].as_str().unwrap().to_owned()
        };
        bodies.iter().map(id).collect()
    }
}

/// A relay that is wrong on purpose.
struct AboveTheHighest {
    highest: i64,
}

impl AboveTheHighest {
    async fn look(&mut self, store: &PostgresStore, topic: &Topic) {
        let found = store.events_to_publish(100).await.unwrap();
        let new = found.into_iter().filter(|it| it.number > self.highest);
        let new: Vec<OutboxEvent> = new.collect();
        let records: Vec<_> = new.iter().map(|it| cloud_event(it, "/x")).collect();
        topic.keep(&records);
        self.highest = new.iter().map(|it| it.number).fold(self.highest, i64::max);
    }
}

fn item(id: &str) -> NewItem {
    let money = Money {
        minor: 100,
        currency: Currency::from_code("USD").unwrap(),
    };
    let record = NewRecord::new("acme", "SCHEDULED", money, id.into());
    let (id, lane) = (ItemId::new(id), LaneName::new("bank"));
    NewItem::new(id, lane, record, "{}", FlowId::new("f"))
}

async fn admit(store: &PostgresStore, id: &str) {
    let kind = ItemType::new("PAYMENT");
    store.admit(&kind, vec![item(id)]).await.unwrap();
}

/// Waits until the relay has published so many different events.
async fn until(topic: &Topic, count: usize) {
    let reached = async {
        while topic.ids().len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_mins(1), reached).await;
    assert!(reached.is_ok(), "{:?}", topic.bodies.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_committed_after_a_later_one_is_published() {
    let url = cluster::shared().database().await;
    let store = Arc::new(
        PostgresStore::open(PostgresOptions::at(&url))
            .await
            .unwrap(),
    );
    let author = || Author::new("ops", "because");
    let plan = LaneChange {
        max_per_window: Some(100),
        window_size_secs: Some(4),
        ..LaneChange::default()
    };
    let lane = LaneName::new("bank");
    store.change_lane(&lane, plan, author()).await.unwrap();
    assert!(store.turn_events_on(author()).await.unwrap());
    admit(&store, "slow").await;

    let topic = Arc::new(Topic {
        failures: Mutex::new(1),
        ..Topic::default()
    });
    let (mutant_topic, mut mutant) = (Topic::default(), AboveTheHighest { highest: 0 });
    mutant.look(&store, &mutant_topic).await;
    let (stop, stopped) = watch::channel(false);
    let relay = EventRelay::new(
        Arc::clone(&store) as Arc<dyn Store>,
        Outlets {
            sink: Some(Arc::clone(&topic) as Arc<dyn EventSink>),
            listener: None,
            source: "/x".into(),
            settings: "events.topic = x".into(),
        },
        "me".into(),
    );
    let relaying = tokio::spawn(relay.run(stopped));
    until(&topic, 1).await;

    // It has its number, and is not committed.
    let mut slow = cluster::connect(&url).await;
    let slow = slow.transaction().await.unwrap();
    let moved = "UPDATE item_queue SET status = 'ACCEPTED' WHERE item_id = 'slow'";
    assert_eq!(slow.execute(moved, &[]).await.unwrap(), 1);
    admit(&store, "fast").await;
    mutant.look(&store, &mutant_topic).await;
    until(&topic, 2).await;
    assert_eq!(topic.ids().len(), 2, "none before its commit");
    slow.commit().await.unwrap();
    mutant.look(&store, &mutant_topic).await;
    until(&topic, 3).await;
    assert_eq!(mutant_topic.ids().len(), 2, "the mutant has skipped one");
    stop.send(true).unwrap();
    relaying.await.unwrap();
    assert_eq!(store.outbox().await.unwrap().backlog, 0);
}
