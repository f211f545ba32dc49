//! Turning events on and off: the triggers that write them, and the state that says so.

use tollgate_core::ports::{Author, LEASE, LEASES_AHEAD, StoreResult, TurnedOff};

use crate::audit::Entry;
use crate::cold::audit::audit;
use crate::sql::{Sql, Tx, params};
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
/// item gets the same word as its status in the next statement: that is one move. One that ends with another status, as an
/// invoice that is settled does, is where that says. A payment whose answer leaves nothing
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
                   AND (NEW.queue_status <> 'CANCELLED' OR NEW.status = OLD.status)
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

/// The trigger of requests comes first, here and when they are made: who changes a request waits for admissions, and these for
/// the table of items.
const NO_TRIGGERS: [Sql; 3] = [
    Sql::each(
        "DROP TRIGGER event_withdrawn",
        "SELECT tg_event_trigger('withdrawn', false)",
    ),
    Sql::each(
        "DROP TRIGGER event_added",
        "SELECT tg_event_trigger('added', false)",
    ),
    Sql::each(
        "DROP TRIGGER event_moved",
        "SELECT tg_event_trigger('moved', false)",
    ),
];

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

pub(super) async fn turn_on(tx: &Tx, author: &Author) -> StoreResult<bool> {
    if is_on(tx).await? {
        return Ok(false);
    }
    for trigger in [WITHDRAWN, ADDED, MOVED] {
        tx.execute(trigger, params![]).await;
    }
    set(tx, true, "EVENTS_ON", author).await;
    Ok(true)
}

pub(super) async fn turn_off(tx: &Tx, author: &Author) -> StoreResult<TurnedOff> {
    const OWNER: &str = "SELECT owner FROM event_relay
         WHERE one = 1 AND owner IS NOT NULL
           AND leased_until BETWEEN tg_now() AND tg_now() + $1";
    const DROP_ALL: [&str; 2] = [
        "DELETE FROM outbox WHERE event_no > 0",
        "DELETE FROM outbox_refused WHERE event_no > 0",
    ];
    if !is_on(tx).await? {
        return Ok(TurnedOff::WereOff);
    }
    if let Some(row) = tx.row(OWNER, params![micros(LEASE * LEASES_AHEAD)]).await {
        return Ok(TurnedOff::InUse(row.get("owner")?));
    }
    for trigger in NO_TRIGGERS {
        tx.execute(trigger, params![]).await;
    }
    let mut dropped = 0;
    for statement in DROP_ALL {
        dropped += tx.execute(statement, params![]).await;
    }
    set(tx, false, "EVENTS_OFF", author).await;
    Ok(TurnedOff::Yes { dropped })
}
