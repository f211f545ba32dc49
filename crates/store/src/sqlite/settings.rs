//! Settings: every version is a row.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::ports::{
    Author, NamedSetting, Page, Setting, SettingKind, Settings, StoreResult, rows_needed,
};

use super::SqliteStore;
use super::accounts::audit;
use super::value::Us;
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Settings for SqliteStore {
    async fn setting(&self, kind: SettingKind, name: &str) -> StoreResult<Option<Setting>> {
        let name = name.to_owned();
        self.readers.read(move |c| current(c, kind, &name)).await
    }

    async fn put_setting(
        &self,
        kind: SettingKind,
        name: &str,
        body_json: String,
        author: Author,
    ) -> StoreResult<Setting> {
        let (name, clock) = (name.to_owned(), self.clock.clone());
        self.writer
            .write(Urgency::Urgent, move |c| {
                put(c, kind, &name, body_json, author, Us(clock.now()))
            })
            .await
    }

    async fn replace_setting(
        &self,
        kind: SettingKind,
        name: &str,
        version: i64,
        body_json: String,
        author: Author,
    ) -> StoreResult<Option<Setting>> {
        let (name, clock) = (name.to_owned(), self.clock.clone());
        let write = move |c: &Connection| {
            let in_force = current(c, kind, &name)?.map_or(0, |setting| setting.version);
            if in_force != version {
                return Ok(None);
            }
            put(c, kind, &name, body_json, author, Us(clock.now())).map(Some)
        };
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn settings(
        &self,
        kind: SettingKind,
        after: Option<&str>,
        limit: u32,
    ) -> StoreResult<Page<NamedSetting, String>> {
        let after = after.unwrap_or_default().to_owned();
        let asked = rows_needed(limit, false);
        let read = move |c: &Connection| {
            let rows = named(c, kind, &after, asked)?;
            Ok(NamedSetting::page(rows, asked, limit))
        };
        self.readers.read(read).await
    }

    async fn setting_history(
        &self,
        kind: SettingKind,
        name: &str,
        limit: u32,
    ) -> StoreResult<Vec<Setting>> {
        let name = name.to_owned();
        self.readers
            .read(move |c| history(c, kind, &name, limit))
            .await
    }
}

const COLUMNS: &str = "SELECT version, body, actor, reason, created_at FROM setting
     WHERE kind = ?1 AND name = ?2 ORDER BY version DESC LIMIT ?3";

pub(super) fn current(
    c: &Connection,
    kind: SettingKind,
    name: &str,
) -> rusqlite::Result<Option<Setting>> {
    c.prepare_cached(COLUMNS)?
        .query_row(params![kind.as_str(), name, 1], from_row)
        .optional()
}

pub(super) fn history(
    c: &Connection,
    kind: SettingKind,
    name: &str,
    limit: u32,
) -> rusqlite::Result<Vec<Setting>> {
    c.prepare_cached(COLUMNS)?
        .query_map(params![kind.as_str(), name, limit], from_row)?
        .collect()
}

fn named(
    c: &Connection,
    kind: SettingKind,
    after: &str,
    limit: u32,
) -> rusqlite::Result<Vec<NamedSetting>> {
    c.prepare_cached(
        "SELECT s.version, s.body, s.actor, s.reason, s.created_at, s.name FROM setting s
         WHERE s.kind = ?1 AND s.name > ?2
           AND s.version = (SELECT max(v.version) FROM setting v
                            WHERE v.kind = s.kind AND v.name = s.name)
         ORDER BY s.name LIMIT ?3",
    )?
    .query_map(params![kind.as_str(), after, limit], |row| {
        Ok(NamedSetting {
            name: row.get(5)?,
            setting: from_row(row)?,
        })
    })?
    .collect()
}

pub(super) fn names(c: &Connection, kind: SettingKind) -> rusqlite::Result<Vec<String>> {
    c.prepare_cached("SELECT DISTINCT name FROM setting WHERE kind = ?1 ORDER BY name")?
        .query_map([kind.as_str()], |row| row.get(0))?
        .collect()
}

/// The body of a setting, as what it is.
pub(super) fn parse<T: serde::de::DeserializeOwned>(body: &str) -> rusqlite::Result<T> {
    serde_json::from_str(body).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, e.into())
    })
}

/// Writes the next version, and says so in the audit log.
pub(super) fn put(
    c: &Connection,
    kind: SettingKind,
    name: &str,
    body_json: String,
    author: Author,
    now: Us,
) -> rusqlite::Result<Setting> {
    let version = current(c, kind, name)?.map_or(1, |setting| setting.version + 1);
    c.prepare_cached(
        "INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        kind.as_str(),
        name,
        version,
        body_json,
        author.actor,
        author.reason,
        now
    ])?;
    let detail = format!(
        "{} {name} version {version}: {body_json} ({})",
        kind.as_str(),
        author.reason
    );
    audit(
        c,
        now,
        &Entry {
            action: "SETTING_CHANGED",
            actor: &author.actor,
            detail: &detail,
            ..Entry::default()
        },
    )?;
    Ok(Setting {
        version,
        body_json,
        author,
        created_at: now.0,
    })
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Setting> {
    Ok(Setting {
        version: row.get(0)?,
        body_json: row.get(1)?,
        author: Author {
            actor: row.get(2)?,
            reason: row.get(3)?,
        },
        created_at: row.get::<_, Us>(4)?.0,
    })
}
