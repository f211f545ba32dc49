//! Settings: whatever is configured at runtime. Every version stays readable, with its author.

use async_trait::async_trait;

use super::{Page, StoreResult};
use crate::Timestamp;

#[async_trait]
pub trait Settings: Send + Sync {
    /// The version in force.
    async fn setting(&self, kind: SettingKind, name: &str) -> StoreResult<Option<Setting>>;

    /// Writes the next version and its audit entry.
    async fn put_setting(
        &self,
        kind: SettingKind,
        name: &str,
        body_json: String,
        author: Author,
    ) -> StoreResult<Setting>;

    /// The same, if `version` is still in force (0: if there is none yet); `None`, and nothing
    /// written, if somebody else came first.
    async fn replace_setting(
        &self,
        kind: SettingKind,
        name: &str,
        version: i64,
        body_json: String,
        author: Author,
    ) -> StoreResult<Option<Setting>>;

    /// The settings of a kind in the order of their names, each in the version in force. Meant for kinds
    /// whose settings have few versions each: all of them are passed over.
    async fn settings(
        &self,
        kind: SettingKind,
        after: Option<&str>,
        limit: u32,
    ) -> StoreResult<Page<NamedSetting, String>>;

    /// All versions, newest first.
    async fn setting_history(
        &self,
        kind: SettingKind,
        name: &str,
        limit: u32,
    ) -> StoreResult<Vec<Setting>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    Lane,
    Calendar,
    ItemType,
    /// What one person wants to decide about an item in doubt, before a second one agrees.
    Proposal,
    /// Rules and routes of a domain.
    Rules,
    /// What is looked at before a charge.
    Checks,
    /// Who invoices are for.
    Customer,
    /// When invoices are charged: for all, for a customer's, for one.
    Schedule,
    /// The description of a bank by which one configuration of its connector sends; named by its watch.
    Description,
    /// How long items of a type stay where.
    Retention,
}

impl SettingKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Calendar => "calendar",
            Self::Proposal => "proposal",
            Self::ItemType => "item_type",
            Self::Rules => "rules",
            Self::Checks => "checks",
            Self::Customer => "customer",
            Self::Schedule => "schedule",
            Self::Description => "description",
            Self::Retention => "retention",
        }
    }
}

/// Who changes something, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub actor: String,
    pub reason: String,
}

impl Author {
    pub fn new(actor: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            reason: reason.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub version: i64,
    pub body_json: String,
    pub author: Author,
    pub created_at: Timestamp,
}

/// A setting in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSetting {
    pub name: String,
    pub setting: Setting,
}

impl NamedSetting {
    /// What of the rows belongs on the page.
    pub fn page(rows: Vec<Self>, asked: u32, limit: u32) -> Page<Self, String> {
        Page::of(rows, asked, limit, |_| true, |row| row.name.clone())
    }
}
