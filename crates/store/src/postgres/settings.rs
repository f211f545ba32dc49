//! Settings: every version is a row.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{
    Author, NamedSetting, Page, Setting, SettingKind, Settings, StoreError, StoreResult,
    rows_needed,
};

use super::accounts::audit;
use super::run::{Params, all, lock_name, one};
use super::value::{Us, storable};
use super::{PostgresStore, lanes};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Settings for PostgresStore {
    async fn setting(&self, kind: SettingKind, name: &str) -> StoreResult<Option<Setting>> {
        let name = name.to_owned();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { current(c, kind, &name).await })
            })
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
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move {
                    lock(tx, kind, &name).await?;
                    put(tx, kind, &name, body_json, author).await
                })
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
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move {
                    lock(tx, kind, &name).await?;
                    let in_force = current(tx, kind, &name).await?;
                    if in_force.map_or(0, |setting| setting.version) != version {
                        return Ok(None);
                    }
                    put(tx, kind, &name, body_json, author).await.map(Some)
                })
            })
            .await
    }

    async fn settings(
        &self,
        kind: SettingKind,
        after: Option<&str>,
        limit: u32,
    ) -> StoreResult<Page<NamedSetting, String>> {
        // From name to name by the index. As one query with a limit it was planned as a sort of all names.
        const NAMED: &str = "WITH RECURSIVE named AS (
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
             ORDER BY n.place";
        let after = after.unwrap_or_default().to_owned();
        let asked = rows_needed(limit, false);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let after = storable(&after);
                    let params: Params<'_> = &[&kind.as_str(), &&*after, &i64::from(asked)];
                    let rows = all(c, NAMED, params).await?;
                    let named = |row: &Row| NamedSetting {
                        name: row.get(5),
                        setting: setting_from(row),
                    };
                    let rows = rows.iter().map(named).collect();
                    Ok(NamedSetting::page(rows, asked, limit))
                })
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
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { history(c, kind, &name, limit).await })
            })
            .await
    }
}

pub(super) async fn current(
    c: &impl GenericClient,
    kind: SettingKind,
    name: &str,
) -> StoreResult<Option<Setting>> {
    Ok(history(c, kind, name, 1).await?.pop())
}

pub(super) async fn history(
    c: &impl GenericClient,
    kind: SettingKind,
    name: &str,
    limit: u32,
) -> StoreResult<Vec<Setting>> {
    const VERSIONS: &str = "SELECT version, body, actor, reason, created_at FROM setting
         WHERE kind = $1 AND name = $2 ORDER BY version DESC LIMIT $3";
    let rows = all(c, VERSIONS, &[&kind.as_str(), &name, &i64::from(limit)]).await?;
    Ok(rows.iter().map(setting_from).collect())
}

/// The body of a setting, as what it is.
pub(super) fn parse<T: serde::de::DeserializeOwned>(body: &str) -> StoreResult<T> {
    serde_json::from_str(body).map_err(|e| StoreError::Bug(format!("a setting: {e}")))
}

/// Versions of one setting are written one after the other. A lane is locked with its setting,
/// so that no slot and no turn is given by a version that is being replaced.
pub(super) async fn lock(tx: &Transaction<'_>, kind: SettingKind, name: &str) -> StoreResult<()> {
    lock_name(tx, &format!("tollgate/setting/{}/{name}", kind.as_str())).await?;
    match kind {
        SettingKind::Lane => lanes::lock(tx, &LaneName::new(name)).await,
        SettingKind::Calendar
        | SettingKind::ItemType
        | SettingKind::Proposal
        | SettingKind::Rules
        | SettingKind::Customer
        | SettingKind::Checks
        | SettingKind::Schedule => Ok(()),
    }
}

/// Writes the next version, and says so in the audit log. The setting must be locked.
pub(super) async fn put(
    tx: &Transaction<'_>,
    kind: SettingKind,
    name: &str,
    body_json: String,
    author: Author,
) -> StoreResult<Setting> {
    const NEXT: &str = "INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
         SELECT $1, $2, coalesce(max(version), 0) + 1, $3, $4, $5, (SELECT tg_now())
         FROM setting WHERE kind = $1 AND name = $2
         RETURNING version, body, actor, reason, created_at";
    let (actor, reason) = (storable(&author.actor), storable(&author.reason));
    let kind_name = kind.as_str();
    let row = one(
        tx,
        NEXT,
        &[&kind_name, &name, &body_json, &&*actor, &&*reason],
    )
    .await?;
    let setting = setting_from(&row);
    let detail = format!(
        "{kind_name} {name} version {}: {body_json} ({})",
        setting.version, author.reason
    );
    let entry = Entry {
        action: "SETTING_CHANGED",
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(setting)
}

fn setting_from(row: &Row) -> Setting {
    Setting {
        version: row.get(0),
        body_json: row.get(1),
        author: Author {
            actor: row.get(2),
            reason: row.get(3),
        },
        created_at: row.get::<_, Us>(4).0,
    }
}
