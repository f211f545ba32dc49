//! What waits for a person, counted from indexes that hold nothing else, and only so far; and what a person has
//! seen of it.

use async_trait::async_trait;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    Amount, Author, ByTime, HeldItem, MOST_COUNTED, MOST_LOOKED_UP, Need, NeedsYou, NewSeen, Page,
    PageFrom, PageToken, Pile, Seen, StoreResult, Worklists, WorklistsAsked, rows_needed,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::audit::audit;
use crate::audit::Entry;
use crate::sql::{Params, Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

/// What is accepted is planned within seconds.
const PLANNED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

#[async_trait]
impl<D: Database> NeedsYou for StoreOn<D> {
    async fn worklists(&self, asked: WorklistsAsked) -> StoreResult<Worklists> {
        self.read(move |tx| async move { worklists(&tx, &asked).await })
            .await
    }

    async fn mark_seen(&self, kind: Need, seen: NewSeen, author: Author) -> StoreResult<()> {
        const SEEN: &str = "INSERT INTO need_seen (kind, seen_count, mark, actor, reason, seen_at)
             VALUES ($1, $2, $3, $4, $5, tg_now())
             ON CONFLICT (kind) DO UPDATE SET seen_count = excluded.seen_count,
                 mark = excluded.mark, actor = excluded.actor, reason = excluded.reason,
                 seen_at = excluded.seen_at";
        self.write(Urgency::Normal, move |tx| async move {
            let (kind, Author { actor, reason }) = (kind.as_str(), &author);
            let row = params![kind, seen.count, seen.mark, actor, reason];
            tx.execute(SEEN, row).await;
            let detail = format!("{kind}, {} of them: {reason}", seen.count);
            let entry = Entry {
                action: "SEEN",
                actor,
                detail: &detail,
                ..Entry::default()
            };
            audit(&tx, &entry).await;
            Ok(())
        })
        .await
    }

    async fn lower_seen(&self, kind: Need, left: u64) -> StoreResult<()> {
        const NONE: &str = "DELETE FROM need_seen WHERE kind = $1";
        const FEWER: &str = "UPDATE need_seen SET seen_count = $2
             WHERE kind = $1 AND seen_count > $2";
        self.write_alone(Urgency::Normal, move |tx| async move {
            match left {
                0 => tx.execute(NONE, params![kind.as_str()]).await,
                left => tx.execute(FEWER, params![kind.as_str(), left]).await,
            };
            Ok(())
        })
        .await
    }

    async fn held(
        &self,
        item_type: &ItemType,
        order: ByTime,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<HeldItem, PageToken>> {
        let asked = rows_needed(limit, false);
        let (place, upwards) = from.clone().bounds(order == ByTime::Oldest);
        let sql = if upwards { DUE_LATER } else { DUE_EARLIER };
        let page = params![item_type, place.rank, place.id, asked];
        self.read(move |tx| async move {
            let rows = tx.rows(sql, page).await;
            let rows = rows.iter().map(held_from).collect::<StoreResult<_>>()?;
            let place = |it: &HeldItem| PageToken::new(it.due.as_microsecond(), &it.id);
            Ok(Page::beside(rows, asked, limit, &from, place))
        })
        .await
    }

    async fn held_sum(&self, item_type: &ItemType) -> StoreResult<Pile> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { pile(&tx, HELD, &item_type).await })
            .await
    }
}

const DUE_LATER: Sql = Sql::each(
    "SELECT item_id, currency, amount_minor, lane, scheduled_exec_time, deadline, held_by,
            last_error
     FROM item_queue INDEXED BY item_queue_held_due
     WHERE item_type = $1 AND queue_status = 'HELD' AND (scheduled_exec_time, item_id) > ($2, $3)
     ORDER BY scheduled_exec_time, item_id LIMIT $4",
    "SELECT item_id, currency, amount_minor, lane, scheduled_exec_time, deadline, held_by,
            last_error
     FROM item_queue
     WHERE item_type = $1 AND queue_part = 'H' AND (scheduled_exec_time, item_id) > ($2, $3)
     ORDER BY scheduled_exec_time, item_id LIMIT $4",
);

const DUE_EARLIER: Sql = Sql::each(
    "SELECT item_id, currency, amount_minor, lane, scheduled_exec_time, deadline, held_by,
            last_error
     FROM item_queue INDEXED BY item_queue_held_due
     WHERE item_type = $1 AND queue_status = 'HELD' AND (scheduled_exec_time, item_id) < ($2, $3)
     ORDER BY scheduled_exec_time DESC, item_id DESC LIMIT $4",
    "SELECT item_id, currency, amount_minor, lane, scheduled_exec_time, deadline, held_by,
            last_error
     FROM item_queue
     WHERE item_type = $1 AND queue_part = 'H' AND (scheduled_exec_time, item_id) < ($2, $3)
     ORDER BY scheduled_exec_time DESC, item_id DESC LIMIT $4",
);

/// The longest due first, up to a number of them. SQLite keeps no statistics, and would take another index.
const HELD: Sql = Sql::each(
    "SELECT currency, count(*) AS n, sum(amount_minor) AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, scheduled_exec_time AS since
         FROM item_queue INDEXED BY item_queue_held_due
         WHERE item_type = $1 AND queue_status = 'HELD'
         ORDER BY scheduled_exec_time, item_id LIMIT $2)
     GROUP BY currency",
    "SELECT currency, count(*) AS n, sum(amount_minor)::bigint AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, scheduled_exec_time AS since FROM item_queue
         WHERE item_type = $1 AND queue_part = 'H'
         ORDER BY scheduled_exec_time, item_id LIMIT $2) t
     GROUP BY currency",
);

const IN_DOUBT: Sql = Sql::each(
    "SELECT currency, count(*) AS n, sum(amount_minor) AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, updated_at AS since
         FROM item_queue INDEXED BY item_queue_doubt_age
         WHERE item_type = $1 AND status = 'IN_DOUBT'
         ORDER BY updated_at, item_id LIMIT $2)
     GROUP BY currency",
    "SELECT currency, count(*) AS n, sum(amount_minor)::bigint AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, updated_at AS since FROM item_queue
         WHERE item_type = $1 AND status = 'IN_DOUBT'
         ORDER BY updated_at, item_id LIMIT $2) t
     GROUP BY currency",
);

const DEAD: Sql = Sql::each(
    "SELECT currency, count(*) AS n, sum(amount_minor) AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, scheduled_exec_time AS since
         FROM item_queue INDEXED BY item_queue_dead
         WHERE item_type = $1 AND queue_status = 'DEAD'
         ORDER BY item_id LIMIT $2)
     GROUP BY currency",
    "SELECT currency, count(*) AS n, sum(amount_minor)::bigint AS amount, min(since) AS since FROM (
         SELECT currency, amount_minor, scheduled_exec_time AS since FROM item_queue
         WHERE item_type = $1 AND queue_part = 'D'
         ORDER BY item_id LIMIT $2) t
     GROUP BY currency",
);

async fn worklists(tx: &Tx, asked: &WorklistsAsked) -> StoreResult<Worklists> {
    let now = tx.now().await?;
    let seen = seen(tx).await?;
    let mark = |kind| {
        seen.iter()
            .find(|it| it.kind == kind)
            .map_or(0, |it| it.mark)
    };
    let (mut held, mut in_doubt, mut dead) = (Pile::default(), Pile::default(), Pile::default());
    for item_type in &asked.money {
        held = held.with(pile(tx, HELD, item_type).await?.all_of(item_type));
        in_doubt = in_doubt.with(pile(tx, IN_DOUBT, item_type).await?.all_of(item_type));
        dead = dead.with(pile(tx, DEAD, item_type).await?.all_of(item_type));
    }
    let (requests, chunks) = not_planned(tx, &asked.payments, now).await?;
    let lost = pile(tx, DEAD, &asked.notifications).await?;
    let failing = failing(tx, &asked.notifications).await?;
    let (rejected_imports, rejected_lines) =
        rejected(tx, &asked.payments, mark(Need::ImportsRejected)).await?;
    Ok(Worklists {
        now,
        held,
        in_doubt,
        dead,
        chunks: chunks.count,
        not_planned: requests.with(chunks),
        // Nothing is paid by a notification.
        failing_notifications: Pile {
            amounts: vec![],
            ..lost.with(failing)
        },
        differing: differing(tx, mark(Need::AnswersDiffer)).await?,
        rejected_imports,
        rejected_lines,
        seen,
    })
}

async fn seen(tx: &Tx) -> StoreResult<Vec<Seen>> {
    const SEEN: &str = "SELECT kind, seen_count, mark, actor, reason, seen_at FROM need_seen
         WHERE kind >= $1";
    let rows = tx.rows(SEEN, params![""]).await;
    let seen = |row: &Row| {
        Ok(Seen {
            kind: row.word("kind", Need::parse)?,
            count: row.get("seen_count")?,
            mark: row.get("mark")?,
            author: Author {
                actor: row.get("actor")?,
                reason: row.get("reason")?,
            },
            at: row.get("seen_at")?,
        })
    };
    rows.iter().map(seen).collect()
}

async fn pile(tx: &Tx, sql: Sql, item_type: &ItemType) -> StoreResult<Pile> {
    let asked = params![item_type, MOST_COUNTED + 1];
    summed(tx, sql, asked, MOST_COUNTED).await
}

/// From rows by currency.
async fn summed(tx: &Tx, sql: impl Into<Sql>, asked: Params, most: u64) -> StoreResult<Pile> {
    let mut pile = Pile::default();
    for row in tx.rows(sql, asked).await {
        pile.add(Amount {
            currency: row.get("currency")?,
            count: row.get("n")?,
            amount_minor: row.get("amount")?,
        });
        let since: Option<Timestamp> = row.get("since")?;
        pile.oldest = [pile.oldest, since].into_iter().flatten().min();
    }
    pile.is_capped = pile.count > most;
    Ok(pile)
}

/// From one row without amounts.
async fn counted(tx: &Tx, sql: impl Into<Sql>, asked: Params, most: u64) -> StoreResult<Pile> {
    let row = tx.one(sql, asked).await?;
    let count = row.get("n")?;
    let pile = Pile::of(count, row.get("since")?);
    Ok(Pile {
        is_capped: count > most,
        ..pile
    })
}

/// Single payments, and parts of files. Of those that wait only so many are looked at: the longest due first.
async fn not_planned(tx: &Tx, item_type: &ItemType, now: Timestamp) -> StoreResult<(Pile, Pile)> {
    const REQUESTS: Sql = Sql::each(
        "SELECT currency, count(*) AS n, sum(amount_minor) AS amount, min(accepted_at) AS since
         FROM (SELECT currency, amount_minor, accepted_at, failed_try, tries
               FROM request INDEXED BY request_due
               WHERE item_type = $1 AND state = 'WAITING' AND due_at > 0
               ORDER BY due_at LIMIT $3)
         WHERE failed_try = tries OR accepted_at < $2
         GROUP BY currency",
        "SELECT currency, count(*) AS n, sum(amount_minor)::bigint AS amount,
                min(accepted_at) AS since
         FROM (SELECT currency, amount_minor, accepted_at, failed_try, tries FROM request
               WHERE item_type = $1 AND state = 'WAITING' AND due_at > 0
               ORDER BY due_at LIMIT $3) t
         WHERE failed_try = tries OR accepted_at < $2
         GROUP BY currency",
    );
    const CHUNKS: &str = "SELECT count(*) AS n, min(k.failing_since) AS since
         FROM bulk b JOIN bulk_chunk k ON k.bulk_id = b.bulk_id AND k.tries > 0
         WHERE b.item_type = $1 AND b.state = 'RUNNING'";
    let long_ago = now - PLANNED_WITHIN;
    let asked = params![item_type, long_ago, MOST_LOOKED_UP + 1];
    let requests = summed(tx, REQUESTS, asked, MOST_LOOKED_UP).await?;
    let chunks = counted(tx, CHUNKS, params![item_type], u64::MAX).await?;
    Ok((requests, chunks))
}

async fn failing(tx: &Tx, item_type: &ItemType) -> StoreResult<Pile> {
    const FAILING: Sql = Sql::each(
        "SELECT count(*) AS n, min(created_at) AS since FROM (
             SELECT created_at FROM item_queue INDEXED BY item_queue_failing
             WHERE item_type = $1 AND queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
               AND failures > 2
             ORDER BY created_at LIMIT $2)",
        "SELECT count(*) AS n, min(created_at) AS since FROM (
             SELECT created_at FROM item_queue
             WHERE item_type = $1 AND queue_part = 'O' AND failures > 2
             ORDER BY created_at LIMIT $2) t",
    );
    let asked = params![item_type, MOST_COUNTED + 1];
    counted(tx, FAILING, asked, MOST_COUNTED).await
}

/// Each payment once, however often it was noted: a step may run twice.
async fn differing(tx: &Tx, mark: i64) -> StoreResult<Pile> {
    const DIFFERING: Sql = Sql::each(
        "SELECT q.currency, count(*) AS n, sum(q.amount_minor) AS amount, min(since) AS since,
                max(last) AS last
         FROM (SELECT item_type AS kind, item_id AS id, min(created_at) AS since,
                      max(audit_id) AS last
               FROM (SELECT item_type, item_id, created_at, audit_id
                     FROM audit_log INDEXED BY audit_log_action
                     WHERE action = 'ANSWER_DIFFERS' AND audit_id > $1
                     ORDER BY audit_id LIMIT $2)
               GROUP BY item_type, item_id)
         CROSS JOIN item_queue q ON q.item_type = kind AND q.item_id = id
         GROUP BY q.currency",
        "SELECT q.currency, count(*) AS n, sum(q.amount_minor)::bigint AS amount,
                min(d.since) AS since, max(d.last) AS last
         FROM (SELECT item_type, item_id, min(created_at) AS since, max(audit_id) AS last
               FROM (SELECT item_type, item_id, created_at, audit_id FROM audit_log
                     WHERE action = 'ANSWER_DIFFERS' AND audit_id > $1
                     ORDER BY audit_id LIMIT $2) a
               GROUP BY item_type, item_id) d
         CROSS JOIN LATERAL (SELECT currency, amount_minor FROM item_queue
              WHERE item_type = d.item_type AND item_id = d.item_id LIMIT 1) q
         GROUP BY q.currency",
    );
    let mut pile = Pile::default();
    for row in tx.rows(DIFFERING, params![mark, MOST_LOOKED_UP + 1]).await {
        let amount = Amount {
            currency: row.get("currency")?,
            count: row.get("n")?,
            amount_minor: row.get("amount")?,
        };
        let part = Pile {
            last: row.get("last")?,
            oldest: row.get("since")?,
            ..Pile::default()
        };
        pile = pile.with(part);
        pile.add(amount);
    }
    pile.is_capped = pile.count > MOST_LOOKED_UP;
    Ok(pile)
}

/// Files and feeds, and how many of their lines. The mark is when the last of those was rejected.
async fn rejected(tx: &Tx, item_type: &ItemType, mark: i64) -> StoreResult<(Pile, u64)> {
    const REJECTED: Sql = Sql::each(
        "SELECT count(*) AS n, CAST(coalesce(sum(rejected), 0) AS bigint) AS lines,
                min(rejected_at) AS since, coalesce(max(rejected_at), 0) AS last
         FROM (SELECT rejected, rejected_at FROM bulk INDEXED BY bulk_rejected
               WHERE item_type = $1 AND rejected_at > $2
               ORDER BY rejected_at LIMIT $3)",
        "SELECT count(*) AS n, CAST(coalesce(sum(rejected), 0) AS bigint) AS lines,
                min(rejected_at) AS since, coalesce(max(rejected_at), 0) AS last
         FROM (SELECT rejected, rejected_at FROM bulk
               WHERE item_type = $1 AND rejected_at > $2
               ORDER BY rejected_at LIMIT $3) t",
    );
    let asked = params![item_type, mark, MOST_LOOKED_UP + 1];
    let row = tx.one(REJECTED, asked).await?;
    let count: u64 = row.get("n")?;
    let pile = Pile {
        is_capped: count > MOST_LOOKED_UP,
        last: row.get("last")?,
        ..Pile::of(count, row.get("since")?)
    };
    Ok((pile, row.get("lines")?))
}

fn held_from(row: &Row) -> StoreResult<HeldItem> {
    Ok(HeldItem {
        id: row.get("item_id")?,
        money: row.money()?,
        lane: row.get("lane")?,
        due: row.get("scheduled_exec_time")?,
        deadline: row.get("deadline")?,
        rules: row.get("held_by")?,
        why: row.get("last_error")?,
    })
}
