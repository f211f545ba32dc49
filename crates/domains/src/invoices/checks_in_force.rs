//! The checks in force: a setting, read once per version and looked up again when it is older than a
//! moment, so that every node follows a reload within a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_core::ports::{Author, Setting, SettingKind, Store, StoreError, StoreResult};
use tollgate_dispatch::ReadAt;

use super::checks::{Chain, CheckText};
use super::item_type;

/// What a node knows of the checks is at most this old.
const MAX_AGE: Duration = Duration::from_millis(250);

pub struct ChecksInForce {
    store: Arc<dyn Store>,
    held: Mutex<Option<Held>>,
}

#[derive(Clone)]
struct Held {
    chain: Arc<Chain>,
    /// Zero if nobody has ever written any.
    version: i64,
    looked_up: ReadAt,
}

impl std::fmt::Debug for ChecksInForce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChecksInForce").finish_non_exhaustive()
    }
}

impl ChecksInForce {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            held: Mutex::default(),
        }
    }

    pub(super) async fn chain(&self) -> StoreResult<Arc<Chain>> {
        let held = self.lock().clone();
        if let Some(held) = &held
            && held.looked_up.is_within(MAX_AGE)
        {
            return Ok(Arc::clone(&held.chain));
        }
        let looked_up = ReadAt::now();
        let setting = self.setting().await?;
        let version = setting.as_ref().map_or(0, |setting| setting.version);
        let chain = match held.filter(|held| held.version == version) {
            Some(held) => held.chain,
            None => Arc::new(read(setting.as_ref())?),
        };
        *self.lock() = Some(Held {
            chain: Arc::clone(&chain),
            version,
            looked_up,
        });
        Ok(chain)
    }

    /// Puts checks in force that were read before; none if they are in force already.
    pub async fn put(&self, texts: &[CheckText], author: Author) -> StoreResult<Option<Setting>> {
        let in_force = texts_of(self.setting().await?.as_ref())?;
        if in_force == texts {
            return Ok(None);
        }
        let body = serde_json::to_string(texts).map_err(|e| StoreError::Bug(e.to_string()))?;
        let name = item_type();
        let put = self
            .store
            .put_setting(SettingKind::Checks, name.as_str(), body, author);
        let setting = put.await?;
        *self.lock() = None;
        Ok(Some(setting))
    }

    async fn setting(&self) -> StoreResult<Option<Setting>> {
        let name = item_type();
        self.store.setting(SettingKind::Checks, name.as_str()).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn texts_of(setting: Option<&Setting>) -> StoreResult<Vec<CheckText>> {
    let Some(setting) = setting else {
        return Ok(vec![]);
    };
    serde_json::from_str(&setting.body_json)
        .map_err(|e| StoreError::Bug(format!("checks of version {}: {e}", setting.version)))
}

/// Checks that this release cannot read are waited out: nothing is charged by older ones.
fn read(setting: Option<&Setting>) -> StoreResult<Chain> {
    Chain::read(&texts_of(setting)?)
        .map_err(|why| StoreError::Unavailable(format!("the checks in force: {why}")))
}
