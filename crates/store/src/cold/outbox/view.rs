//! The outbox as people ask about it.

use tollgate_core::Timestamp;
use tollgate_core::ports::{
    LEASE, LEASES_AHEAD, MOST_EVENTS_COUNTED, OutboxTrouble, OutboxView, StoreResult,
};

use crate::sql::{Sql, Tx, params};
use crate::value::micros;

pub(super) async fn view(tx: &Tx) -> StoreResult<OutboxView> {
    const RELAY: &str = "SELECT is_on, published, last_published_at, trouble, trouble_at,
                CASE WHEN leased_until BETWEEN tg_now() AND tg_now() + $1 THEN owner END AS owner,
                CASE WHEN differs_until BETWEEN tg_now() AND tg_now() + $1
                     THEN difference END AS difference
         FROM event_relay WHERE one = 1";
    const OLDEST: [&str; 2] = [
        "SELECT at FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT 1",
        "SELECT at FROM outbox_refused WHERE event_no > 0 ORDER BY event_no LIMIT 1",
    ];
    const BACKLOG: [Sql; 2] = [
        Sql::each(
            "SELECT count(*) AS n FROM (
                 SELECT event_no FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1)",
            "SELECT count(*) AS n FROM (
                 SELECT event_no FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1) t",
        ),
        Sql::each(
            "SELECT count(*) AS n FROM (
                 SELECT event_no FROM outbox_refused WHERE event_no > 0 ORDER BY event_no LIMIT $1)",
            "SELECT count(*) AS n FROM (
                 SELECT event_no FROM outbox_refused WHERE event_no > 0 ORDER BY event_no LIMIT $1) t",
        ),
    ];
    let relay = tx.one(RELAY, params![micros(LEASE * LEASES_AHEAD)]).await?;
    let mut oldest: Option<Timestamp> = None;
    for statement in OLDEST {
        if let Some(row) = tx.row(statement, params![]).await {
            let at = row.get("at")?;
            oldest = Some(oldest.map_or(at, |other| other.min(at)));
        }
    }
    let mut backlog: u64 = 0;
    for statement in BACKLOG {
        let counted = params![MOST_EVENTS_COUNTED + 1];
        backlog += tx.one(statement, counted).await?.get::<u64>("n")?;
    }
    let trouble = match relay.get("trouble")? {
        None => None,
        Some(what) => Some(OutboxTrouble {
            what,
            at: relay.get("trouble_at")?,
        }),
    };
    Ok(OutboxView {
        is_on: relay.get("is_on")?,
        backlog: backlog.min(MOST_EVENTS_COUNTED),
        is_capped: backlog > MOST_EVENTS_COUNTED,
        oldest,
        owner: relay.get("owner")?,
        published: relay.get("published")?,
        last_published_at: relay.get("last_published_at")?,
        trouble,
        difference: relay.get("difference")?,
    })
}
