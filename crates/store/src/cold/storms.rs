//! Refusal storms, as people meet them: one that is lifted.

use tollgate_core::id::LaneName;
use tollgate_core::ports::StoreResult;

use crate::sql::{Sql, Tx, params};

/// A person resumes the lane: its connectors begin with a canary again.
pub(super) async fn lift(tx: &Tx, lane: &LaneName) -> StoreResult<()> {
    const STORM: &str = "SELECT storm_id FROM lane_cursor WHERE lane = $1 AND storm_id IS NOT NULL";
    const END: &str = "UPDATE storm SET lifted_at = $2,
                last_attempt = (SELECT coalesce(max(attempt_id), 0) FROM attempt)
         WHERE storm_id = $1 RETURNING last_attempt";
    const RESUME: &str = "UPDATE lane_cursor SET storm_id = NULL WHERE lane = $1";
    // Places are an array where there are any.
    const BEGIN_AGAIN: Sql = Sql::each(
        "UPDATE connector_watch SET passed = (canary = 0), places = '[]', since = $2
         WHERE lane = $1",
        "UPDATE connector_watch SET passed = (canary = 0), places = '{}', since = $2
         WHERE lane = $1",
    );
    let Some(row) = tx.row(STORM, params![lane]).await else {
        return Ok(());
    };
    let storm: i64 = row.get("storm_id")?;
    let ended = tx.one(END, params![storm, tx.now().await?]).await?;
    let last: i64 = ended.get("last_attempt")?;
    tx.execute(RESUME, params![lane]).await;
    tx.execute(BEGIN_AGAIN, params![lane, last]).await;
    Ok(())
}
