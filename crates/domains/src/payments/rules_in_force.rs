//! The rules in force: a setting, compiled once per version and looked up again when it is older
//! than a moment, so that every node follows a change within a second.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tollgate_core::ports::{Author, Setting, SettingKind, Store, StoreError};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::ReadAt;

use super::rule_text::{Problem, RulesText};
use super::rulebook::Rulebook;
use super::{DEFAULT_GATEWAY, item_type};

/// What a node knows of the rules is at most this old.
const MAX_AGE: SignedDuration = SignedDuration::from_millis(250);
/// The same by this node's own clock.
const MAX_AGE_HERE: Duration = Duration::from_millis(250);

pub struct RulesInForce {
    store: Arc<dyn Store>,
    gateways: BTreeSet<String>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    book: Arc<Rulebook>,
    /// By the shared clock; None if it must be looked up.
    looked_up: Option<Timestamp>,
    /// When, by this node's own clock: before a send nobody asks for the shared one.
    looked_up_here: Option<ReadAt>,
}

#[derive(Debug, Error)]
pub enum RulesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// They contradict themselves, or this node does not know what they speak of.
    #[error("{}", first_of(.0))]
    Wrong(Vec<Problem>),
}

fn first_of(problems: &[Problem]) -> String {
    match problems {
        [] => "nothing is wrong".to_owned(),
        [only] => only.to_string(),
        [first, others @ ..] => format!(
            "{first} (and {} more: `tollgate config check` lists them)",
            others.len()
        ),
    }
}

impl std::fmt::Debug for RulesInForce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RulesInForce").finish_non_exhaustive()
    }
}

impl RulesInForce {
    /// With the gateways that are connected here, the default one aside.
    pub fn new(store: Arc<dyn Store>, gateways: impl IntoIterator<Item = String>) -> Self {
        Self {
            store,
            gateways: gateways.into_iter().collect(),
            held: Mutex::default(),
        }
    }

    /// The rules of a moment that the shared clock has just told.
    pub async fn at(&self, now: Timestamp) -> Result<Arc<Rulebook>, RulesError> {
        let held = self.held();
        let is_fresh = |at: Timestamp| at <= now && now.duration_since(at) < MAX_AGE;
        if held.1.is_some_and(is_fresh) {
            return Ok(held.0);
        }
        let asked = ReadAt::now();
        let book = match self.setting().await? {
            None => Arc::default(),
            Some(setting) if setting.version == held.0.version => held.0,
            Some(setting) => Arc::new(self.read(&text_of(&setting)?, setting.version)?),
        };
        *self.lock() = Held {
            book: Arc::clone(&book),
            looked_up: Some(now),
            looked_up_here: Some(asked),
        };
        Ok(book)
    }

    /// The rules in force, for those who need no other clock than their own.
    pub async fn latest(&self) -> Result<Arc<Rulebook>, RulesError> {
        let (book, looked_up_here) = {
            let held = self.lock();
            (Arc::clone(&held.book), held.looked_up_here)
        };
        if looked_up_here.is_some_and(|at| at.is_within(MAX_AGE_HERE)) {
            return Ok(book);
        }
        self.at(self.store.now().await?).await
    }

    /// Reads what somebody has written, as version `version`.
    pub fn read(&self, text: &RulesText, version: i64) -> Result<Rulebook, RulesError> {
        let is_gateway = |name: &str| name == DEFAULT_GATEWAY || self.gateways.contains(name);
        Rulebook::read(text, version, is_gateway).map_err(RulesError::Wrong)
    }

    pub async fn is_in_force(&self, text: &RulesText) -> Result<bool, StoreError> {
        let now = match self.setting().await? {
            Some(setting) => text_of(&setting).unwrap_or_default(),
            None => RulesText::default(),
        };
        Ok(now == *text)
    }

    /// Puts rules in force, all or none of them. None if they are in force already.
    pub async fn put(
        &self,
        text: &RulesText,
        author: Author,
    ) -> Result<Option<Setting>, RulesError> {
        self.read(text, 0)?;
        if self.is_in_force(text).await? {
            return Ok(None);
        }
        let body = serde_json::to_string(text).map_err(|e| StoreError::Bug(e.to_string()))?;
        let (kind, name) = (SettingKind::Rules, item_type());
        let put = self.store.put_setting(kind, name.as_str(), body, author);
        let setting = put.await?;
        let mut held = self.lock();
        (held.looked_up, held.looked_up_here) = (None, None);
        drop(held);
        Ok(Some(setting))
    }

    /// The version in force, as it was written. None if there are no rules.
    pub async fn setting(&self) -> Result<Option<Setting>, StoreError> {
        let (kind, name) = (SettingKind::Rules, item_type());
        self.store.setting(kind, name.as_str()).await
    }

    /// Every version, newest first.
    pub async fn history(&self, limit: u32) -> Result<Vec<Setting>, StoreError> {
        let (kind, name) = (SettingKind::Rules, item_type());
        self.store.setting_history(kind, name.as_str(), limit).await
    }

    fn held(&self) -> (Arc<Rulebook>, Option<Timestamp>) {
        let held = self.lock();
        (Arc::clone(&held.book), held.looked_up)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rules and routes of a setting.
pub fn text_of(setting: &Setting) -> Result<RulesText, StoreError> {
    serde_json::from_str(&setting.body_json)
        .map_err(|e| StoreError::Bug(format!("rules of version {}: {e}", setting.version)))
}
