//! Opening the configured store, and what a new one needs before the first payment.

use std::sync::Arc;

use tollgate_config::{Config, StoreAt};
use tollgate_core::actor;
use tollgate_core::id::LaneName;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Leadership, SettingKind, Store, StoreError};
use tollgate_operations::item_types;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// The lane that exists from the start, with 100 items per 4 seconds.
const DEFAULT_LANE: &str = "default";

/// The store, and what else it can do if several processes may open it.
pub(crate) type Opened = (Arc<dyn Store>, Option<Arc<dyn Leadership>>);

pub(crate) async fn open(config: &Config) -> anyhow::Result<Opened> {
    let gate_margin = config.gate.margin;
    Ok(match config.store.at()? {
        StoreAt::Sqlite(path) => {
            let options = SqliteOptions {
                gate_margin,
                ..SqliteOptions::at(path)
            };
            let store = SqliteStore::open(options).map_err(wrong_store)?;
            (Arc::new(store), None)
        }
        StoreAt::Postgres(url) => {
            let options = PostgresOptions {
                gate_margin,
                connections: config.store.connections,
                ..PostgresOptions::at(url)
            };
            let opened = PostgresStore::open(options).await;
            let store = Arc::new(opened.map_err(wrong_store)?);
            (Arc::clone(&store) as _, Some(store as _))
        }
    })
}

fn wrong_store(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Unavailable(why) | StoreError::Invalid(why) => {
            anyhow::anyhow!("store.url: {why}")
        }
        StoreError::Fenced(_) | StoreError::Bug(_) => anyhow::anyhow!("store.url: {error}"),
    }
}

/// What a new database needs before the first payment: the default lane and the item types.
pub(crate) async fn seed_settings(store: &dyn Store) -> anyhow::Result<()> {
    let author = || Author::new(actor::TOLLGATE, "first start");
    let lane = LaneName::new(DEFAULT_LANE);
    if store.lane(&lane).await?.is_none() {
        let change = LaneChange {
            max_per_window: Some(100),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        store.change_lane(&lane, change, author()).await?;
    }
    for (item_type, config) in item_types() {
        let (kind, name) = (SettingKind::ItemType, item_type.as_str());
        if store.setting(kind, name).await?.is_none() {
            let body = serde_json::to_string(&config)?;
            store.put_setting(kind, name, body, author()).await?;
        }
    }
    Ok(())
}
