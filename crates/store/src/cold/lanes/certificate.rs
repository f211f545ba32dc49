//! The proof of a lane's rate, read from its send log a page at a time, so that a day of it is
//! never in memory at once.

use tollgate_core::certificate::{Certificate, Certifier, LimitInForce};
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::ports::{SettingKind, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

use crate::cold::settings;
use crate::sql::{Tx, params};

const PAGE: usize = 5_000;

pub(super) async fn certify(
    tx: &Tx,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Certificate> {
    const LOG: &str = "SELECT turn_at, attempt_id FROM attempt
         WHERE lane = $1 AND (turn_at, attempt_id) > ($2, $3) AND turn_at < $4
         ORDER BY turn_at, attempt_id LIMIT $5";
    let mut versions = vec![];
    for setting in settings::history(tx, SettingKind::Lane, name.as_str(), u32::MAX).await? {
        let lane: Lane = settings::parse(&setting.body_json)?;
        let (version, since) = (setting.version, setting.created_at);
        versions.push(LimitInForce::new(version, since, &lane, setting.author));
    }
    let mut certifier = Certifier::new(name.to_string(), from, to, versions.into_iter());
    // A second that began before the stretch ends in it. No attempt has a number below 0.
    let mut after = (from - SignedDuration::from_secs(1), -1_i64);
    loop {
        let page = params![name, after.0, after.1, to, PAGE];
        let turns = tx.rows(LOG, page).await;
        for turn in &turns {
            after = (turn.get("turn_at")?, turn.get("attempt_id")?);
            certifier.add(after.0);
        }
        if turns.len() < PAGE {
            return Ok(certifier.finish());
        }
    }
}
