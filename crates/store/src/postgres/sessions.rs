//! Sessions of the console.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tollgate_core::ports::{MOST_SESSIONS, NewSession, Sessions, StoreResult};

use super::PostgresStore;
use super::run::{execute, lock_name, now, optional};
use super::value::Us;
use crate::urgency::Urgency;

#[async_trait]
impl Sessions for PostgresStore {
    async fn begin_session(&self, session: NewSession) -> StoreResult<()> {
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { begin(tx, &session).await })
            })
            .await
    }

    async fn session(&self, secret_sha256: &str) -> StoreResult<Option<String>> {
        const SESSION: &str = "SELECT token_sha256 FROM session
             WHERE secret_sha256 = $1 AND ends_at > tg_now()";
        let secret = secret_sha256.to_owned();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let found = optional(c, SESSION, &[&secret]).await?;
                    Ok(found.map(|row| row.get(0)))
                })
            })
            .await
    }

    async fn end_session(&self, secret_sha256: &str) -> StoreResult<()> {
        const END: &str = "DELETE FROM session WHERE secret_sha256 = $1";
        let secret = secret_sha256.to_owned();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { execute(c, END, &[&secret]).await.map(drop) })
            })
            .await
    }
}

async fn begin(tx: &Transaction<'_>, session: &NewSession) -> StoreResult<()> {
    const OVER: &str = "DELETE FROM session WHERE ends_at <= $1";
    const TOO_MANY: &str = "DELETE FROM session WHERE secret_sha256 IN (
             SELECT secret_sha256 FROM session WHERE token_sha256 = $1
             ORDER BY ends_at DESC, secret_sha256 OFFSET $2)";
    const BEGIN: &str =
        "INSERT INTO session (secret_sha256, token_sha256, ends_at) VALUES ($1, $2, $3)";
    // Two that begin at once would both find room for one more.
    lock_name(tx, "sessions").await?;
    let now = now(tx).await?;
    let ends_at = Us(now.0.saturating_add(session.lasts).unwrap_or(now.0));
    execute(tx, OVER, &[&now]).await?;
    let room = i64::from(MOST_SESSIONS - 1);
    execute(tx, TOO_MANY, &[&session.token_sha256, &room]).await?;
    let begun = &[
        &session.secret_sha256 as _,
        &session.token_sha256 as _,
        &ends_at as _,
    ];
    execute(tx, BEGIN, begun).await.map(drop)
}
