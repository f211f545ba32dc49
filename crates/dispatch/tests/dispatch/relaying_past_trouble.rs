//! Events while brokers refuse some or all of them: the others are published, listeners hear of all of them once, and
//! what was refused comes later, in the order of its item.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::Money;
use tollgate_core::ports::{
    Author, EventRecord, EventSink, Lanes, NewItem, NewRecord, OperatorActions, Outbox,
    OutboxEvent, Published, Queue, SinkTrouble, StatusMove, Store, StoreResult,
};
use tollgate_dispatch::{EventRelay, OnMoves, Outlets};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// More than one look reads.
const MANY: usize = 1_100;

/// Refuses the items whose ids begin like this, as a partition without a leader does.
#[derive(Default)]
struct Topic {
    refuses: Mutex<Option<&'static str>>,
    /// The moves of each item, in the order in which they came.
    moves: Mutex<BTreeMap<String, Vec<String>>>,
}

#[async_trait]
impl EventSink for Topic {
    async fn publish(&self, events: &[EventRecord], _: Timestamp) -> Published {
        let refuses = *self.refuses.lock().unwrap();
        let mut moves = self.moves.lock().unwrap();
        let mut published = Published::default();
        for (place, event) in events.iter().enumerate() {
            if refuses.is_some_and(|prefix| event.key.starts_with(prefix)) {
                published.trouble = Some(SinkTrouble("no leader".into()));
                continue;
            }
            let body: serde_json::Value = serde_json::from_str(&event.body_json).unwrap();
            let status = body["data"]["status"].as_str().unwrap().to_owned();
            moves.entry(event.key.clone()).or_default().push(status);
            published.acknowledged.push(place);
        }
        published
    }
}

impl Topic {
    fn refusing(prefix: &'static str) -> Arc<Self> {
        Arc::new(Self {
            refuses: Mutex::new(Some(prefix)),
            ..Self::default()
        })
    }
    /// How many items have been heard of, whose ids begin like this.
    fn items(&self, prefix: &str) -> usize {
        let moves = self.moves.lock().unwrap();
        moves.keys().filter(|id| id.starts_with(prefix)).count()
    }
    fn moves_of(&self, id: &str) -> Vec<String> {
        let moves = self.moves.lock().unwrap();
        moves.get(id).cloned().unwrap_or_default()
    }
}

/// How often each event was heard.
#[derive(Default)]
struct Ear(Mutex<BTreeMap<i64, u32>>);

#[async_trait]
impl OnMoves for Ear {
    async fn on_moves(&self, events: &[OutboxEvent]) -> StoreResult<()> {
        let mut heard = self.0.lock().unwrap();
        for event in events {
            *heard.entry(event.number).or_default() += 1;
        }
        Ok(())
    }
}

struct Fixture {
    store: Arc<SqliteStore>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::at(folder.path().join("t.db"));
        let store = Arc::new(SqliteStore::open(options).unwrap());
        let plan = LaneChange {
            max_per_window: Some(10_000),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let lane = LaneName::new("bank");
        store.change_lane(&lane, plan, author()).await.unwrap();
        assert!(store.turn_events_on(author()).await.unwrap());
        Self {
            store,
            _folder: folder,
        }
    }

    async fn admit(&self, prefix: &str, count: usize) {
        let items = (0..count).map(|n| {
            let id = format!("{prefix}-{n:04}");
            let record = NewRecord::new("acme", "SCHEDULED", Money::NONE, id.clone());
            let (id, lane) = (ItemId::new(id), LaneName::new("bank"));
            NewItem::new(id, lane, record, "{}", FlowId::new("f"))
        });
        let kind = ItemType::new("PAYMENT");
        self.store.admit(&kind, items.collect()).await.unwrap();
    }

    async fn cancel(&self, id: &str) {
        let item = Item::new(&ItemType::new("PAYMENT"), &ItemId::new(id));
        let withdrawn = StatusMove::new(&["SCHEDULED"], "CANCELLED");
        let done = self.store.cancel(&item, withdrawn, author()).await;
        done.unwrap();
    }

    async fn backlog(&self) -> u64 {
        self.store.outbox().await.unwrap().backlog
    }

    fn relay(&self, topic: &Arc<Topic>, ear: Option<&Arc<Ear>>) -> Relaying {
        let outlets = Outlets {
            sink: Some(Arc::clone(topic) as Arc<dyn EventSink>),
            listener: ear.map(|ear| Arc::clone(ear) as Arc<dyn OnMoves>),
            source: "/x".into(),
            settings: String::new(),
        };
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let (stop, stopped) = watch::channel(false);
        let relay = EventRelay::new(store, outlets, "me".into());
        Relaying {
            stop,
            task: tokio::spawn(relay.run(stopped)),
        }
    }
}

struct Relaying {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Relaying {
    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }
}

fn author() -> Author {
    Author::new("ops", "because")
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let reached = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(30), reached).await;
    assert!(reached.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_away_holds_up_its_own_events_only() {
    let f = Fixture::new().await;
    f.admit("away", MANY).await;
    f.admit("there", MANY).await;
    f.cancel("away-0000").await;
    let topic = Topic::refusing("away");
    let relaying = f.relay(&topic, None);
    until("the others are published", async || {
        topic.items("there") == MANY
    })
    .await;
    f.admit("there-later", 1).await;
    f.cancel("away-0001").await;
    until("so is what comes later", async || {
        topic.items("there-later") == 1
    })
    .await;
    let trouble = f.store.outbox().await.unwrap().trouble;
    assert_eq!(trouble.unwrap().what, "no leader");
    assert_eq!(topic.items("away"), 0);

    // Another process finds what this one has set aside.
    relaying.stop().await;
    *topic.refuses.lock().unwrap() = None;
    let relaying = f.relay(&topic, None);
    until("all is published", async || f.backlog().await == 0).await;
    until("the trouble is over", async || {
        f.store.outbox().await.unwrap().trouble.is_none()
    })
    .await;
    relaying.stop().await;
    assert_eq!(topic.items("away"), MANY);
    for id in ["away-0000", "away-0001"] {
        assert_eq!(topic.moves_of(id), ["SCHEDULED", "CANCELLED"], "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_hear_of_every_move_once_while_no_broker_answers() {
    let f = Fixture::new().await;
    f.admit("p", MANY).await;
    let (topic, ear) = (Topic::refusing(""), Arc::new(Ear::default()));
    let heard = || ear.0.lock().unwrap().len();
    let relaying = f.relay(&topic, Some(&ear));
    until("all is heard", async || heard() == MANY).await;
    f.cancel("p-0000").await;
    until("so is what comes later", async || heard() == MANY + 1).await;
    relaying.stop().await;
    assert_eq!(f.backlog().await, MANY as u64 + 1, "nothing is lost");
    *topic.refuses.lock().unwrap() = None;
    let relaying = f.relay(&topic, Some(&ear));
    until("all is published", async || f.backlog().await == 0).await;
    relaying.stop().await;
    assert_eq!(topic.moves_of("p-0000"), ["SCHEDULED", "CANCELLED"]);
    let heard = ear.0.lock().unwrap();
    assert!(heard.values().all(|times| *times == 1), "{heard:?}");
    assert_eq!(heard.len(), MANY + 1);
}

/// As for a process that was stopped for longer than its lease, and wakes up when the other has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_has_set_aside_and_said_meanwhile_is_looked_at_again() {
    let f = Fixture::new().await;
    f.admit("before", 1).await;
    let topic = Arc::new(Topic::default());
    let relaying = f.relay(&topic, None);
    until("it publishes", async || f.backlog().await == 0).await;
    let other = loop {
        f.store.leave_relay("me").await.unwrap();
        let held = f.store.hold_relay("other", Duration::from_secs(10)).await;
        if let Some(held) = held.unwrap() {
            break held;
        }
    };
    f.admit("aside", 1).await;
    let events = f.store.events_to_publish(10).await.unwrap();
    let numbers = events.iter().map(|event| event.number).collect();
    assert!(f.store.events_refused(other, numbers).await.unwrap());
    let why = Some("no leader".to_owned());
    f.store.note_relay_trouble(why).await.unwrap();
    f.store.leave_relay("other").await.unwrap();
    until("all is published", async || f.backlog().await == 0).await;
    until("the trouble is over", async || {
        f.store.outbox().await.unwrap().trouble.is_none()
    })
    .await;
    relaying.stop().await;
    assert_eq!(topic.items("aside"), 1);
}
