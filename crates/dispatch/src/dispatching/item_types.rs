//! Item types as people change them: read, changed and written as one, whoever else does the same.

use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::item_type::{ItemTypeChange, ItemTypeConfig};
use tollgate_core::ports::{Author, Setting, SettingKind, Store, StoreError, StoreResult};

/// A change is tried at most this often because somebody else came first.
const MOST_TRIES: u32 = 10;

/// An item type's configuration, and the version that it is.
#[derive(Debug, Clone)]
pub struct ItemTypeInForce {
    pub config: ItemTypeConfig,
    pub setting: Setting,
}

/// What is in force; `None` for a type that was never configured.
pub async fn item_type(store: &dyn Store, name: &ItemType) -> StoreResult<Option<ItemTypeInForce>> {
    let setting = store.setting(SettingKind::ItemType, name.as_str()).await?;
    setting.map(|setting| read(name, setting)).transpose()
}

/// Changes what is in force, as a new version. The dispatcher reads it before it claims.
pub async fn change_item_type(
    store: &dyn Store,
    name: &ItemType,
    change: &ItemTypeChange,
    author: Author,
) -> StoreResult<ItemTypeInForce> {
    for _ in 0..MOST_TRIES {
        let old = item_type(store, name)
            .await?
            .ok_or_else(|| StoreError::Invalid(format!("there is no item type \"{name}\"")))?;
        let new = change.applied_to(old.config).map_err(StoreError::Invalid)?;
        let body = serde_json::to_string(&new).map_err(|e| StoreError::Bug(e.to_string()))?;
        let (kind, version) = (SettingKind::ItemType, old.setting.version);
        let written = store.replace_setting(kind, name.as_str(), version, body, author.clone());
        if let Some(setting) = written.await? {
            return read(name, setting);
        }
    }
    let why = format!("item type {name} is being changed by other requests");
    Err(StoreError::Unavailable(why))
}

fn read(name: &ItemType, setting: Setting) -> StoreResult<ItemTypeInForce> {
    let config = serde_json::from_str(&setting.body_json)
        .map_err(|e| StoreError::Bug(format!("item type {name}: {e}")))?;
    Ok(ItemTypeInForce { config, setting })
}

/// Who switched the dispatch of an item type off, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchedOff {
    pub by: Author,
    pub since: Timestamp,
}

impl SwitchedOff {
    pub fn sentence(&self, item_type: &ItemType) -> String {
        let Author { actor, reason } = &self.by;
        let since = self.since;
        format!("dispatch of {item_type} was disabled by {actor} at {since}: {reason}")
    }
}

/// A type that has been off for more versions than this counts as switched off by the oldest of them.
const MOST_VERSIONS: u32 = 100;

/// The task queues of the last versions of an item type; what was started on any of them may still run there.
pub async fn exec_task_queues(store: &dyn Store, name: &ItemType) -> StoreResult<Vec<String>> {
    let history = store.setting_history(SettingKind::ItemType, name.as_str(), MOST_VERSIONS);
    let versions = history.await?.into_iter();
    versions
        .map(|setting| Ok(read(name, setting)?.config.exec_task_queue))
        .collect()
}

/// `None` while items of this type are dispatched.
pub async fn switched_off(store: &dyn Store, name: &ItemType) -> StoreResult<Option<SwitchedOff>> {
    let Some(found) = item_type(store, name).await? else {
        return Ok(None);
    };
    if found.config.enabled {
        return Ok(None);
    }
    let history = store.setting_history(SettingKind::ItemType, name.as_str(), MOST_VERSIONS);
    let mut first = found.setting;
    for setting in history.await? {
        if read(name, setting.clone())?.config.enabled {
            break;
        }
        first = setting;
    }
    Ok(Some(SwitchedOff {
        by: first.author,
        since: first.created_at,
    }))
}
