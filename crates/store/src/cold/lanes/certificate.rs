//! The proof of a lane's rate, read from its send log a page at a time, so that a day of it is
//! never in memory at once.

use tollgate_core::certificate::{Certificate, Certifier, LimitInForce};
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::ports::{SettingKind, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

use crate::cold::archive::turns as archived;
use crate::cold::settings;
use crate::sql::{Tx, params};

const PAGE: usize = 5_000;

pub(super) async fn certify(
    tx: &Tx,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Certificate> {
    let mut versions = vec![];
    for setting in settings::history(tx, SettingKind::Lane, name.as_str(), u32::MAX).await? {
        let lane: Lane = settings::parse(&setting.body_json)?;
        let (version, since) = (setting.version, setting.created_at);
        versions.push(LimitInForce::new(version, since, &lane, setting.author));
    }
    let mut certifier = Certifier::new(name.to_string(), from, to, versions.into_iter());
    // A second that began before the stretch ends in it.
    let mut at = from - SignedDuration::from_secs(1);
    for hour in archived::hours(tx, name, at, to).await? {
        let (begin, end) = archived::bounds(hour);
        if begin > at {
            add_hot(tx, name, at, begin, &mut certifier).await?;
            at = begin;
        }
        let end = end.min(to);
        add_hour(tx, name, hour, at, end, &mut certifier).await?;
        at = end;
    }
    add_hot(tx, name, at, to, &mut certifier).await?;
    Ok(certifier.finish())
}

/// The turns of an hour of which some are in the archive: both parts, in their order.
async fn add_hour(
    tx: &Tx,
    name: &LaneName,
    hour: i64,
    from: Timestamp,
    to: Timestamp,
    certifier: &mut Certifier,
) -> StoreResult<()> {
    let mut turns = archived::turns(tx, name, hour).await?;
    turns.retain(|at| (from..to).contains(at));
    let mut after = (from, -1_i64);
    loop {
        let page = page(tx, name, &mut after, to).await?;
        turns.extend(&page);
        if page.len() < PAGE {
            break;
        }
    }
    turns.sort_unstable();
    for at in turns {
        certifier.add(at);
    }
    Ok(())
}

async fn add_hot(
    tx: &Tx,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
    certifier: &mut Certifier,
) -> StoreResult<()> {
    // No attempt has a number below 0.
    let mut after = (from, -1_i64);
    loop {
        let page = page(tx, name, &mut after, to).await?;
        for at in &page {
            certifier.add(*at);
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

async fn page(
    tx: &Tx,
    name: &LaneName,
    after: &mut (Timestamp, i64),
    to: Timestamp,
) -> StoreResult<Vec<Timestamp>> {
    const LOG: &str = "SELECT turn_at, attempt_id FROM attempt
         WHERE lane = $1 AND (turn_at, attempt_id) > ($2, $3) AND turn_at < $4
         ORDER BY turn_at, attempt_id LIMIT $5";
    let mut turns = vec![];
    for turn in tx
        .rows(LOG, params![name, after.0, after.1, to, PAGE])
        .await
    {
        *after = (turn.get("turn_at")?, turn.get("attempt_id")?);
        turns.push(after.0);
    }
    Ok(turns)
}
