//! The proof of a lane's rate, read from its send log row by row.

use rusqlite::{Connection, params};
use tollgate_core::certificate::{Certificate, Certifier, LimitInForce};
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::ports::SettingKind;
use tollgate_core::{SignedDuration, Timestamp};

use super::settings;
use super::value::Us;

pub(super) fn certify(
    c: &Connection,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> rusqlite::Result<Certificate> {
    let mut versions = vec![];
    for setting in settings::history(c, SettingKind::Lane, name.as_str(), u32::MAX)? {
        let lane: Lane = settings::parse(&setting.body_json)?;
        let (version, since) = (setting.version, setting.created_at);
        versions.push(LimitInForce::new(version, since, &lane, setting.author));
    }
    // A second that began before the stretch ends in it.
    let before = from - SignedDuration::from_secs(1);
    let mut certifier = Certifier::new(name.to_string(), from, to, versions.into_iter());
    let mut log = c.prepare_cached(
        "SELECT turn_at FROM send_log WHERE lane = ?1 AND turn_at >= ?2 AND turn_at < ?3
         ORDER BY turn_at",
    )?;
    let turns = log.query_map(params![name.as_str(), Us(before), Us(to)], |row| {
        row.get::<_, Us>(0)
    })?;
    for turn in turns {
        certifier.add(turn?.0);
    }
    Ok(certifier.finish())
}
