//! A store with a lane and a few items, and an engine that does as it is told.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Admission, Author, Engine, FlowView, ItemView, NewItem, NewRecord, SettingKind, Start, Started,
    Store, Unreachable,
};
use tollgate_store::MovableTime;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

pub(crate) struct Town {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) time: MovableTime,
    folder: Option<TempDir>,
}

pub(crate) fn item_type() -> ItemType {
    ItemType::new("THING")
}

pub(crate) fn item(id: &str) -> Item {
    Item::new(&item_type(), &ItemId::new(id))
}

impl Town {
    /// One lane, "default", that sends `per_second`.
    pub(crate) async fn new(per_second: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let time = MovableTime::default();
        let options = SqliteOptions {
            time: time.clone(),
            ..SqliteOptions::at(folder.path().join("t.db"))
        };
        let store = Arc::new(SqliteStore::open(options).unwrap());
        Self::with(store, time, Some(folder), per_second).await
    }

    /// The same in a database of its own.
    pub(crate) async fn on_postgres(url: &str, per_second: u32) -> Self {
        let time = MovableTime::default();
        let options = PostgresOptions {
            // Many towns share the server, and the machine.
            connections: 5,
            wait_timeout: Duration::from_secs(30),
            time: time.clone(),
            ..PostgresOptions::at(url)
        };
        let store = Arc::new(PostgresStore::open(options).await.unwrap());
        Self::with(store, time, None, per_second).await
    }

    async fn with(
        store: Arc<dyn Store>,
        time: MovableTime,
        folder: Option<TempDir>,
        per_second: u32,
    ) -> Self {
        let town = Self {
            store,
            time,
            folder,
        };
        town.lane("default", per_second).await;
        town.configure(ItemTypeConfig::default()).await;
        town
    }

    /// Of a store in files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub(crate) async fn lane(&self, name: &str, per_second: u32) {
        let change = LaneChange {
            max_per_window: Some(per_second * 4),
            window_size_secs: Some(4),
            max_per_second: Some(per_second.into()),
            ..LaneChange::default()
        };
        self.change(name, change).await;
    }

    pub(crate) async fn change(&self, name: &str, change: LaneChange) {
        let author = Author::new("test", "because");
        self.store
            .change_lane(&LaneName::new(name), change, author)
            .await
            .unwrap();
    }

    pub(crate) async fn configure(&self, config: ItemTypeConfig) {
        let config = ItemTypeConfig {
            exec_workflow_type: "ThingFlow".into(),
            ..config
        };
        let body = serde_json::to_string(&config).unwrap();
        let author = Author::new("test", "because");
        let (kind, name) = (SettingKind::ItemType, item_type());
        self.store
            .put_setting(kind, name.as_str(), body, author)
            .await
            .unwrap();
    }

    /// Items `{prefix}0…`, due now.
    pub(crate) async fn admit(&self, prefix: &str, lane: &str, count: usize) {
        let new = |n: usize| new_item(&format!("{prefix}{n}"), lane);
        self.admit_all((0..count).map(new).collect()).await;
    }

    /// An item that is rather held than sent after this time.
    pub(crate) async fn admit_until(&self, id: &str, lane: &str, deadline: Timestamp) {
        let item = NewItem {
            deadline: Some(deadline),
            hold_if_late: true,
            ..new_item(id, lane)
        };
        self.admit_all(vec![item]).await;
    }

    /// One item that is due after a while.
    pub(crate) async fn admit_in(&self, id: &str, lane: &str, after: Duration) {
        let now = self.store.now().await.unwrap();
        let item = NewItem {
            requested: Some(now + after),
            ..new_item(id, lane)
        };
        self.admit_all(vec![item]).await;
    }

    async fn admit_all(&self, items: Vec<NewItem>) {
        let admitted = self.store.admit(&item_type(), items).await.unwrap();
        assert!(admitted.iter().all(|a| matches!(a, Admission::New(_))));
    }

    pub(crate) async fn item(&self, id: &str) -> ItemView {
        self.store.item(&item(id)).await.unwrap().unwrap()
    }
}

pub(crate) fn new_item(id: &str, lane: &str) -> NewItem {
    let money = Money {
        minor: 100,
        currency: Currency::from_code("EUR").unwrap(),
    };
    let record = NewRecord::new("o", "SCHEDULED", money, "h".into());
    let (id, lane) = (ItemId::new(id), LaneName::new(lane));
    NewItem::new(id, lane, record, "{}", FlowId::new("init"))
}

/// What the engine answers to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Willing,
    Failing,
    Away,
    /// Goes away after it has taken one.
    Leaving,
}

#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) mood: Mutex<Mood>,
    pub(crate) flows: Mutex<HashMap<FlowId, FlowView>>,
    pub(crate) starts: Mutex<Vec<Start>>,
}

impl Scripted {
    pub(crate) fn new(mood: Mood) -> Arc<Self> {
        Arc::new(Self {
            mood: Mutex::new(mood),
            flows: Mutex::default(),
            starts: Mutex::default(),
        })
    }
    pub(crate) fn started(&self) -> Vec<String> {
        self.starts
            .lock()
            .unwrap()
            .iter()
            .map(|start| start.id.to_string())
            .collect()
    }
    pub(crate) fn end(&self, flow: &str, view: FlowView) {
        self.flows.lock().unwrap().insert(FlowId::new(flow), view);
    }
}

#[async_trait]
impl Engine for Scripted {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let mood = *self.mood.lock().unwrap();
        if mood == Mood::Away {
            return Err(Unreachable("scripted".into()));
        }
        let mut known = self.flows.lock().unwrap();
        let mut answers = vec![];
        for start in flows {
            answers.push(match mood {
                Mood::Failing => Started::Failed("scripted".into()),
                _ if known.contains_key(&start.id) => Started::Already,
                _ => {
                    known.insert(
                        start.id.clone(),
                        FlowView::Running {
                            progress_json: None,
                        },
                    );
                    Started::New
                }
            });
            self.starts.lock().unwrap().push(start);
            if mood == Mood::Leaving {
                break;
            }
        }
        Ok(answers)
    }

    async fn view(&self, id: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        Ok(self
            .flows
            .lock()
            .unwrap()
            .get(id)
            .cloned()
            .unwrap_or(FlowView::NotFound))
    }
}
