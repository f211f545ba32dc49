//! The proof of a lane's rate, read from its send log without holding it in memory.

use std::pin::pin;

use deadpool_postgres::Transaction;
use futures::TryStreamExt;
use tollgate_core::certificate::{Certificate, Certifier, LimitInForce};
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::ports::{SettingKind, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

use super::error::store_error;
use super::run::Params;
use super::settings;
use super::value::Us;

pub(super) async fn certify(
    tx: &Transaction<'_>,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Certificate> {
    const LOG: &str = "SELECT turn_at FROM send_log
         WHERE lane = $1 AND turn_at >= $2 AND turn_at < $3 ORDER BY turn_at";
    let mut versions = vec![];
    for setting in settings::history(tx, SettingKind::Lane, name.as_str(), u32::MAX).await? {
        let lane: Lane = settings::parse(&setting.body_json)?;
        let (version, since) = (setting.version, setting.created_at);
        versions.push(LimitInForce::new(version, since, &lane, setting.author));
    }
    // A second that began before the stretch ends in it.
    let before = from - SignedDuration::from_secs(1);
    let mut certifier = Certifier::new(name.to_string(), from, to, versions.into_iter());
    let log = tx.prepare_cached(LOG).await.map_err(store_error)?;
    let params: Params<'_> = &[&name.as_str(), &Us(before), &Us(to)];
    let turns = tx
        .query_raw(&log, params.iter().copied())
        .await
        .map_err(store_error)?;
    let mut turns = pin!(turns);
    while let Some(row) = turns.try_next().await.map_err(store_error)? {
        certifier.add(row.get::<_, Us>(0).0);
    }
    Ok(certifier.finish())
}
