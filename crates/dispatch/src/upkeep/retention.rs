//! How long items of a type stay where: what the configuration says, until a person has changed it.

use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, Setting, SettingKind, Store, StoreError, StoreResult};
use tollgate_core::retention::Ages;

/// The ages of a type, and the change that they come from; none while they are those of the configuration.
#[derive(Debug, Clone)]
pub struct AgesInForce {
    pub ages: Ages,
    pub setting: Option<Setting>,
}

pub async fn ages_in_force(
    store: &dyn Store,
    item_type: &ItemType,
    configured: Ages,
) -> StoreResult<AgesInForce> {
    let setting = store
        .setting(SettingKind::Retention, item_type.as_str())
        .await?;
    let ages = match &setting {
        Some(setting) => read(item_type, setting)?,
        None => configured,
    };
    Ok(AgesInForce { ages, setting })
}

/// Puts other ages in force, as a new version.
pub async fn change_ages(
    store: &dyn Store,
    item_type: &ItemType,
    ages: Ages,
    author: Author,
) -> StoreResult<AgesInForce> {
    let body = serde_json::to_string(&ages).map_err(|e| StoreError::Bug(e.to_string()))?;
    let written = store.put_setting(SettingKind::Retention, item_type.as_str(), body, author);
    let setting = Some(written.await?);
    Ok(AgesInForce { ages, setting })
}

fn read(item_type: &ItemType, setting: &Setting) -> StoreResult<Ages> {
    serde_json::from_str(&setting.body_json)
        .map_err(|e| StoreError::Bug(format!("the retention of {item_type}: {e}")))
}
