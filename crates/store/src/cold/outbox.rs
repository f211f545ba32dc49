//! Events out. Triggers write them, and exist only while events are on: a move cannot forget its event, and a store
//! without events pays nothing (docs/decisions/0050).

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::Item;
use tollgate_core::ports::{
    Author, MOST_EVENTS_COUNTED, Outbox, OutboxEvent, OutboxTrouble, OutboxView, RelayHold,
    StoreResult, TurnedOff,
};

use super::audit::audit;
use crate::audit::Entry;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

/// Notifications are about items, and no events themselves.
const ADDED: Sql = Sql::each(
    "CREATE TRIGGER event_added AFTER INSERT ON item_queue
     WHEN NEW.item_type <> 'NOTIFICATION'
     BEGIN
         INSERT INTO outbox (item_type, item_id, status, at, currency, amount_minor, lane,
             scheduled_time)
         VALUES (NEW.item_type, NEW.item_id, NEW.status, tg_now(), NEW.currency,
             NEW.amount_minor, NEW.lane, NEW.scheduled_time);
     END",
    "SELECT tg_event_trigger('added', true)",
);

/// HELD, DEAD and CANCELLED are words of the queue; an item that leaves them is where its status says. A cancelled
/// item gets the same word as its status in the next statement: that is one move. A payment whose answer leaves nothing
/// to do is ACCEPTED and PROCESSING in one move: that is two events.
const MOVED: Sql = Sql::each(
    "CREATE TRIGGER event_moved AFTER UPDATE OF status, queue_status ON item_queue
     WHEN NEW.item_type <> 'NOTIFICATION' AND (
         (NEW.status <> OLD.status AND NEW.status <> NEW.queue_status)
         OR (NEW.queue_status <> OLD.queue_status
             AND (NEW.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                  OR (OLD.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                      AND NEW.status <> OLD.queue_status))))
     BEGIN
         INSERT INTO outbox (item_type, item_id, status, at, currency, amount_minor, lane,
             scheduled_time)
         SELECT NEW.item_type, NEW.item_id, 'ACCEPTED', tg_now(), NEW.currency,
             NEW.amount_minor, NEW.lane, NEW.scheduled_time
         WHERE NEW.status = 'PROCESSING' AND OLD.status NOT IN ('ACCEPTED', 'PROCESSING');
         INSERT INTO outbox (item_type, item_id, status, at, currency, amount_minor, lane,
             scheduled_time)
         VALUES (NEW.item_type, NEW.item_id,
             CASE WHEN NEW.queue_status <> OLD.queue_status
                   AND NEW.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                  THEN NEW.queue_status ELSE NEW.status END,
             tg_now(), NEW.currency, NEW.amount_minor, NEW.lane, NEW.scheduled_time);
     END",
    "SELECT tg_event_trigger('moved', true)",
);

/// A payment that was accepted, and withdrawn before it was planned.
const WITHDRAWN: Sql = Sql::each(
    "CREATE TRIGGER event_withdrawn AFTER UPDATE OF state ON request
     WHEN NEW.state = 'CANCELLED' AND OLD.state <> 'CANCELLED'
     BEGIN
         INSERT INTO outbox (item_type, item_id, status, at, currency, amount_minor)
         VALUES (NEW.item_type, NEW.item_id, NEW.state, tg_now(), NEW.currency,
             NEW.amount_minor);
     END",
    "SELECT tg_event_trigger('withdrawn', true)",
);

const NO_TRIGGERS: [Sql; 3] = [
    Sql::each(
        "DROP TRIGGER event_added",
        "SELECT tg_event_trigger('added', false)",
    ),
    Sql::each(
        "DROP TRIGGER event_moved",
        "SELECT tg_event_trigger('moved', false)",
    ),
    Sql::each(
        "DROP TRIGGER event_withdrawn",
        "SELECT tg_event_trigger('withdrawn', false)",
    ),
];

#[async_trait]
impl<D: Database> Outbox for StoreOn<D> {
    async fn turn_events_on(&self, author: Author) -> StoreResult<bool> {
        self.write(Urgency::Normal, move |tx| async move {
            turn_on(&tx, &author).await
        })
        .await
    }

    async fn turn_events_off(&self, author: Author) -> StoreResult<TurnedOff> {
        self.write(Urgency::Normal, move |tx| async move {
            turn_off(&tx, &author).await
        })
        .await
    }

    async fn hold_relay(&self, owner: &str, lease: Duration) -> StoreResult<Option<RelayHold>> {
        const HOLD: &str = "UPDATE event_relay SET owner = $1, leased_until = tg_now() + $2,
                    fence = CASE WHEN owner = $1 THEN fence ELSE fence + 1 END
             WHERE one = 1 AND (owner IS NULL OR owner = $1 OR leased_until < tg_now())
             RETURNING fence";
        let held = params![owner, micros(lease)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            match tx.row(HOLD, held).await {
                None => Ok(None),
                Some(row) => Ok(Some(RelayHold {
                    fence: row.get("fence")?,
                })),
            }
        })
        .await
    }

    async fn leave_relay(&self, owner: &str) -> StoreResult<()> {
        const LEAVE: &str = "UPDATE event_relay SET owner = NULL WHERE one = 1 AND owner = $1";
        let left = params![owner];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(LEAVE, left).await;
            Ok(())
        })
        .await
    }

    async fn relay_settings(&self, owner: &str, settings: &str) -> StoreResult<String> {
        const KEEP: &str = "UPDATE event_relay SET settings = $2 WHERE one = 1 AND owner = $1";
        const KEPT: &str = "SELECT settings FROM event_relay WHERE one = 1";
        let kept = params![owner, settings];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(KEEP, kept).await;
            tx.one(KEPT, params![]).await?.get("settings")
        })
        .await
    }

    async fn note_relay_difference(&self, what: &str, lease: Duration) -> StoreResult<()> {
        const NOTE: &str = "UPDATE event_relay SET difference = $1, differs_until = tg_now() + $2
             WHERE one = 1";
        let noted = params![what, micros(lease)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn events_to_publish(&self, limit: u32) -> StoreResult<Vec<OutboxEvent>> {
        const OLDEST: &str = "SELECT event_no, event_id, item_type, item_id, status, at, currency,
                    amount_minor, lane, scheduled_time
             FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1";
        self.read(move |tx| async move {
            let rows = tx.rows(OLDEST, params![limit]).await;
            rows.iter().map(event).collect()
        })
        .await
    }

    async fn events_published(&self, hold: RelayHold, numbers: Vec<i64>) -> StoreResult<bool> {
        const HELD: &str = "UPDATE event_relay SET published = published + $2,
                    last_published_at = tg_now()
             WHERE one = 1 AND fence = $1";
        const DROP: Sql = Sql::each(
            "DELETE FROM outbox WHERE event_no IN (SELECT value FROM json_each('[' || $1 || ']'))",
            "DELETE FROM outbox WHERE event_no = ANY(string_to_array($1, ',')::bigint[])",
        );
        let listed: Vec<String> = numbers.iter().map(i64::to_string).collect();
        self.write(Urgency::Normal, move |tx| async move {
            let ours = params![hold.fence, listed.len()];
            if tx.execute(HELD, ours).await == 0 {
                return Ok(false);
            }
            tx.execute(DROP, params![listed.join(",")]).await;
            Ok(true)
        })
        .await
    }

    async fn note_relay_trouble(&self, trouble: Option<String>) -> StoreResult<()> {
        const NOTE: &str =
            "UPDATE event_relay SET trouble = $1, trouble_at = tg_now() WHERE one = 1";
        let noted = params![trouble];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn outbox(&self) -> StoreResult<OutboxView> {
        self.read(move |tx| async move { view(&tx).await }).await
    }
}

/// Held until the transaction ends: events are turned on or off by one process at a time.
async fn is_on(tx: &Tx) -> StoreResult<bool> {
    const STATE: &str = "SELECT is_on FROM event_relay WHERE one = 1";
    let row = tx.locked_row(STATE, params![]).await;
    row.map_or(Ok(false), |row| row.get("is_on"))
}

async fn set(tx: &Tx, on: bool, action: &str, author: &Author) {
    const SET: &str = "UPDATE event_relay SET is_on = $1, trouble = NULL WHERE one = 1";
    tx.execute(SET, params![on]).await;
    let entry = Entry {
        action,
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await;
}

async fn turn_on(tx: &Tx, author: &Author) -> StoreResult<bool> {
    if is_on(tx).await? {
        return Ok(false);
    }
    for trigger in [ADDED, MOVED, WITHDRAWN] {
        tx.execute(trigger, params![]).await;
    }
    set(tx, true, "EVENTS_ON", author).await;
    Ok(true)
}

async fn turn_off(tx: &Tx, author: &Author) -> StoreResult<TurnedOff> {
    const OWNER: &str = "SELECT owner FROM event_relay
         WHERE one = 1 AND owner IS NOT NULL AND leased_until >= tg_now()";
    const DROP_ALL: &str = "DELETE FROM outbox WHERE event_no > 0";
    if !is_on(tx).await? {
        return Ok(TurnedOff::WereOff);
    }
    if let Some(row) = tx.row(OWNER, params![]).await {
        return Ok(TurnedOff::InUse(row.get("owner")?));
    }
    for trigger in NO_TRIGGERS {
        tx.execute(trigger, params![]).await;
    }
    let dropped = tx.execute(DROP_ALL, params![]).await;
    set(tx, false, "EVENTS_OFF", author).await;
    Ok(TurnedOff::Yes { dropped })
}

async fn view(tx: &Tx) -> StoreResult<OutboxView> {
    const RELAY: &str = "SELECT is_on, published, last_published_at, trouble, trouble_at,
                CASE WHEN leased_until >= tg_now() THEN owner END AS owner,
                CASE WHEN differs_until >= tg_now() THEN difference END AS difference
         FROM event_relay WHERE one = 1";
    const OLDEST: &str = "SELECT at FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT 1";
    const BACKLOG: Sql = Sql::each(
        "SELECT count(*) AS n FROM (
             SELECT event_no FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1)",
        "SELECT count(*) AS n FROM (
             SELECT event_no FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1) t",
    );
    let relay = tx.one(RELAY, params![]).await?;
    let oldest = tx.row(OLDEST, params![]).await;
    let counted = params![MOST_EVENTS_COUNTED + 1];
    let backlog: u64 = tx.one(BACKLOG, counted).await?.get("n")?;
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
        oldest: oldest.map(|row| row.get("at")).transpose()?,
        owner: relay.get("owner")?,
        published: relay.get("published")?,
        last_published_at: relay.get("last_published_at")?,
        trouble,
        difference: relay.get("difference")?,
    })
}

fn event(row: &Row) -> StoreResult<OutboxEvent> {
    Ok(OutboxEvent {
        number: row.get("event_no")?,
        id: row.get("event_id")?,
        item: Item::new(&row.get("item_type")?, &row.get("item_id")?),
        status: row.get("status")?,
        at: row.get("at")?,
        money: row.money()?,
        lane: row.get("lane")?,
        scheduled: row.get("scheduled_time")?,
    })
}
