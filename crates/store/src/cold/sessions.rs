//! Sessions of the console.

use async_trait::async_trait;
use tollgate_core::ports::{MOST_SESSIONS, NewSession, Sessions, StoreResult};

use crate::sql::{Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Sessions for StoreOn<D> {
    async fn begin_session(&self, session: NewSession) -> StoreResult<()> {
        self.write(Urgency::Normal, move |tx| async move {
            begin(&tx, &session).await
        })
        .await
    }

    async fn session(&self, secret_sha256: &str) -> StoreResult<Option<String>> {
        const SESSION: &str = "SELECT token_sha256 FROM session
             WHERE secret_sha256 = $1 AND ends_at > (SELECT tg_now())";
        let secret = params![secret_sha256];
        self.read(move |tx| async move {
            let found = tx.row(SESSION, secret).await;
            found.map(|row| row.get("token_sha256")).transpose()
        })
        .await
    }

    async fn end_session(&self, secret_sha256: &str) -> StoreResult<()> {
        const END: &str = "DELETE FROM session WHERE secret_sha256 = $1";
        let secret = params![secret_sha256];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(END, secret).await;
            Ok(())
        })
        .await
    }
}

async fn begin(tx: &Tx, session: &NewSession) -> StoreResult<()> {
    const OVER: &str = "DELETE FROM session WHERE ends_at <= $1";
    // SQLite knows no OFFSET without a LIMIT.
    const TOO_MANY: Sql = Sql::each(
        "DELETE FROM session WHERE secret_sha256 IN (
             SELECT secret_sha256 FROM session WHERE token_sha256 = $1
             ORDER BY ends_at DESC, secret_sha256 LIMIT -1 OFFSET $2)",
        "DELETE FROM session WHERE secret_sha256 IN (
             SELECT secret_sha256 FROM session WHERE token_sha256 = $1
             ORDER BY ends_at DESC, secret_sha256 OFFSET $2)",
    );
    const BEGIN: &str =
        "INSERT INTO session (secret_sha256, token_sha256, ends_at) VALUES ($1, $2, $3)";
    // Two that begin at once would both find room for one more.
    tx.lock_name("sessions".to_owned()).await;
    let now = tx.now().await?;
    let ends_at = now.saturating_add(session.lasts).unwrap_or(now);
    let (secret, token) = (&session.secret_sha256, &session.token_sha256);
    tx.execute(OVER, params![now]).await;
    tx.execute(TOO_MANY, params![token, MOST_SESSIONS - 1])
        .await;
    tx.execute(BEGIN, params![secret, token, ends_at]).await;
    Ok(())
}
