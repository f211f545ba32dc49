//! Settings: every version is a row.

use async_trait::async_trait;
use tollgate_core::ports::{
    Author, NamedSetting, Page, Setting, SettingKind, Settings, StoreError, StoreResult,
    rows_needed,
};

use super::audit::audit;
use super::lanes;
use crate::audit::Entry;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Settings for StoreOn<D> {
    async fn setting(&self, kind: SettingKind, name: &str) -> StoreResult<Option<Setting>> {
        let name = name.to_owned();
        self.read(move |tx| async move { current(&tx, kind, &name).await })
            .await
    }

    async fn put_setting(
        &self,
        kind: SettingKind,
        name: &str,
        body_json: String,
        author: Author,
    ) -> StoreResult<Setting> {
        let name = name.to_owned();
        self.write(Urgency::Urgent, move |tx| async move {
            lock(&tx, kind, &name).await;
            put(&tx, kind, &name, body_json, author).await
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
        let name = name.to_owned();
        self.write(Urgency::Urgent, move |tx| async move {
            lock(&tx, kind, &name).await;
            let in_force = current(&tx, kind, &name).await?;
            if in_force.map_or(0, |setting| setting.version) != version {
                return Ok(None);
            }
            put(&tx, kind, &name, body_json, author).await.map(Some)
        })
        .await
    }

    async fn settings(
        &self,
        kind: SettingKind,
        after: Option<&str>,
        limit: u32,
    ) -> StoreResult<Page<NamedSetting, String>> {
        let after = after.unwrap_or_default().to_owned();
        let asked = rows_needed(limit, false);
        self.read(move |tx| async move {
            let rows = named(&tx, kind, &after, asked).await?;
            Ok(NamedSetting::page(rows, asked, limit))
        })
        .await
    }

    async fn setting_history(
        &self,
        kind: SettingKind,
        name: &str,
        limit: u32,
    ) -> StoreResult<Vec<Setting>> {
        let name = name.to_owned();
        self.read(move |tx| async move { history(&tx, kind, &name, limit).await })
            .await
    }
}

pub(super) async fn current(
    tx: &Tx,
    kind: SettingKind,
    name: &str,
) -> StoreResult<Option<Setting>> {
    Ok(history(tx, kind, name, 1).await?.pop())
}

pub(super) async fn history(
    tx: &Tx,
    kind: SettingKind,
    name: &str,
    limit: u32,
) -> StoreResult<Vec<Setting>> {
    const VERSIONS: &str = "SELECT version, body, actor, reason, created_at FROM setting
         WHERE kind = $1 AND name = $2 ORDER BY version DESC LIMIT $3";
    let rows = tx.rows(VERSIONS, params![kind.as_str(), name, limit]).await;
    rows.iter().map(setting_from).collect()
}

/// The newest version of each name after this one.
pub(super) async fn named(
    tx: &Tx,
    kind: SettingKind,
    after: &str,
    limit: u32,
) -> StoreResult<Vec<NamedSetting>> {
    // PostgreSQL goes from name to name by the index: as one query with a limit it was planned as a
    // sort of all names. SQLite does that by itself.
    const NAMED: Sql = Sql::each(
        "SELECT s.version, s.body, s.actor, s.reason, s.created_at, s.name FROM setting s
         WHERE s.kind = $1 AND s.name > $2
           AND s.version = (SELECT max(v.version) FROM setting v
                            WHERE v.kind = s.kind AND v.name = s.name)
         ORDER BY s.name LIMIT $3",
        "WITH RECURSIVE named AS (
             (SELECT name, 1::bigint AS place FROM setting
              WHERE kind = $1 AND name > $2 ORDER BY name LIMIT 1)
             UNION ALL
             SELECT (SELECT s.name FROM setting s WHERE s.kind = $1 AND s.name > n.name
                     ORDER BY s.name LIMIT 1), n.place + 1
             FROM named n WHERE n.name IS NOT NULL AND n.place < $3
         )
         SELECT s.version, s.body, s.actor, s.reason, s.created_at, s.name FROM named n
         CROSS JOIN LATERAL (SELECT * FROM setting s
               WHERE s.kind = $1 AND s.name = n.name ORDER BY s.version DESC LIMIT 1) s
         ORDER BY n.place",
    );
    let rows = tx.rows(NAMED, params![kind.as_str(), after, limit]).await;
    let named = |row: &Row| {
        Ok(NamedSetting {
            name: row.get("name")?,
            setting: setting_from(row)?,
        })
    };
    rows.iter().map(named).collect()
}

/// The body of a setting, as what it is.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(body: &str) -> StoreResult<T> {
    serde_json::from_str(body).map_err(|e| StoreError::Bug(format!("a setting: {e}")))
}

/// Versions of one setting are written one after the other. A lane is locked with its setting,
/// so that no slot and no turn is given by a version that is being replaced.
pub(super) async fn lock(tx: &Tx, kind: SettingKind, name: &str) {
    tx.lock_name(format!("tollgate/setting/{}/{name}", kind.as_str()))
        .await;
    match kind {
        SettingKind::Lane => lanes::lock(tx, name).await,
        SettingKind::Calendar
        | SettingKind::ItemType
        | SettingKind::Proposal
        | SettingKind::Rules
        | SettingKind::Customer
        | SettingKind::Checks
        | SettingKind::Schedule
        | SettingKind::Description
        | SettingKind::Retention => {}
    }
}

/// Writes the next version, and says so in the audit log. The setting must be locked.
pub(super) async fn put(
    tx: &Tx,
    kind: SettingKind,
    name: &str,
    body_json: String,
    author: Author,
) -> StoreResult<Setting> {
    const NEXT: &str = "INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
         SELECT $1, $2, coalesce(max(version), 0) + 1, $3, $4, $5, (SELECT tg_now())
         FROM setting WHERE kind = $1 AND name = $2
         RETURNING version, body, actor, reason, created_at";
    let kind = kind.as_str();
    let next = params![kind, name, &body_json, &author.actor, &author.reason];
    let setting = setting_from(&tx.one(NEXT, next).await?)?;
    let version = setting.version;
    let detail = format!(
        "{kind} {name} version {version}: {body_json} ({})",
        author.reason
    );
    let entry = Entry {
        action: "SETTING_CHANGED",
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
    Ok(setting)
}

fn setting_from(row: &Row) -> StoreResult<Setting> {
    Ok(Setting {
        version: row.get("version")?,
        body_json: row.get("body")?,
        author: Author {
            actor: row.get("actor")?,
            reason: row.get("reason")?,
        },
        created_at: row.get("created_at")?,
    })
}
