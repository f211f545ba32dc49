//! The proof of a lane's rate, read from its send log without holding it in memory.

use std::pin::pin;

use deadpool_postgres::Transaction;
use futures::TryStreamExt;
use tollgate_core::Timestamp;
use tollgate_core::certificate::{Certificate, LimitInForce, WorstSecond};
use tollgate_core::id::LaneName;
use tollgate_core::ports::{SettingKind, StoreResult};

use super::error::store_error;
use super::run::Params;
use super::value::Us;
use super::{lanes, settings};

pub(super) async fn certify(
    tx: &Transaction<'_>,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Certificate> {
    const LOG: &str = "SELECT turn_at FROM send_log
         WHERE lane = $1 AND turn_at >= $2 AND turn_at < $3 ORDER BY turn_at";
    let mut worst = WorstSecond::default();
    let (mut first_send, mut last_send) = (None, None);
    let log = tx.prepare_cached(LOG).await.map_err(store_error)?;
    let params: Params<'_> = &[&name.as_str(), &Us(from), &Us(to)];
    let turns = tx
        .query_raw(&log, params.iter().copied())
        .await
        .map_err(store_error)?;
    let mut turns = pin!(turns);
    while let Some(row) = turns.try_next().await.map_err(store_error)? {
        let turn = row.get::<_, Us>(0).0;
        first_send.get_or_insert(turn);
        last_send = Some(turn);
        worst.add(turn);
    }
    Ok(Certificate {
        lane: name.to_string(),
        from,
        to,
        sends: worst.sends(),
        first_send,
        last_send,
        worst_second: worst.worst(),
        limits: limits_in_force(tx, name, from, to).await?,
    })
}

/// The limits between two times, oldest first: those set in between, and the one set before.
async fn limits_in_force(
    tx: &Transaction<'_>,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Vec<LimitInForce>> {
    let mut limits = Vec::new();
    for setting in settings::history(tx, SettingKind::Lane, name.as_str(), u32::MAX).await? {
        if setting.created_at >= to {
            continue;
        }
        limits.push(LimitInForce {
            version: setting.version,
            since: setting.created_at,
            max_per_second: lanes::parse(&setting.body_json)?.max_per_second,
        });
        if setting.created_at <= from {
            break;
        }
    }
    limits.reverse();
    Ok(limits)
}
