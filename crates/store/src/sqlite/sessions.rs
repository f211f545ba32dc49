//! Sessions of the console.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::ports::{MOST_SESSIONS, NewSession, Sessions, StoreResult};

use super::SqliteStore;
use super::value::Us;
use crate::urgency::Urgency;

#[async_trait]
impl Sessions for SqliteStore {
    async fn begin_session(&self, session: NewSession) -> StoreResult<()> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| begin(c, &session, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn session(&self, secret_sha256: &str) -> StoreResult<Option<String>> {
        let (secret, now) = (secret_sha256.to_owned(), Us(self.clock.now()));
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT token_sha256 FROM session WHERE secret_sha256 = ?1 AND ends_at > ?2",
            )?
            .query_row(params![secret, now], |row| row.get(0))
            .optional()
        };
        self.readers.read(read).await
    }

    async fn end_session(&self, secret_sha256: &str) -> StoreResult<()> {
        let secret = secret_sha256.to_owned();
        let write = move |c: &Connection| {
            c.prepare_cached("DELETE FROM session WHERE secret_sha256 = ?1")?
                .execute([secret.as_str()])
                .map(drop)
        };
        self.writer.write(Urgency::Normal, write).await
    }
}

fn begin(c: &Connection, session: &NewSession, now: Us) -> rusqlite::Result<()> {
    let ends_at = Us(now.0.saturating_add(session.lasts).unwrap_or(now.0));
    c.prepare_cached("DELETE FROM session WHERE ends_at <= ?1")?
        .execute([now])?;
    c.prepare_cached(
        "DELETE FROM session WHERE secret_sha256 IN (
             SELECT secret_sha256 FROM session WHERE token_sha256 = ?1
             ORDER BY ends_at DESC, secret_sha256 LIMIT -1 OFFSET ?2)",
    )?
    .execute(params![session.token_sha256, MOST_SESSIONS - 1])?;
    c.prepare_cached(
        "INSERT INTO session (secret_sha256, token_sha256, ends_at) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![
        session.secret_sha256,
        session.token_sha256,
        ends_at
    ])?;
    Ok(())
}
