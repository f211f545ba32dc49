//! Feeds as people ask about them, and what is still to be answered.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::ports::{
    FeedPause, FeedTrouble, FeedView, LEASE, LineError, PartitionId, PartitionView, StoreResult,
    latest_end,
};

use super::key;
use crate::sql::{Row, Sql, Tx, params};

/// A feed for which no process has asked for so long is not read.
const UNREAD_AFTER: Duration = Duration::from_mins(1);
/// Trouble is repeated while it lasts; a process that died with it cannot say that it is over.
pub(super) const SAID_FOR: Duration = Duration::from_mins(1);
/// Two leases of a partition.
const FREE_AFTER: Duration = LEASE.saturating_mul(2);
const MOST_NAMED: usize = 20;

pub(super) async fn feeds(tx: &Tx) -> StoreResult<Vec<FeedView>> {
    const FEEDS: &str = "SELECT feed, topic, shared_at, paused_why, paused_by, paused_at, trouble,
                trouble_at, said_at,
                (SELECT CAST(coalesce(sum(p.dead_letters), 0) AS bigint) FROM feed_partition p
                 WHERE p.feed = feed.feed) AS dead_letters
         FROM feed WHERE feed > '' ORDER BY feed";
    let now = tx.now().await?;
    let mut feeds = vec![];
    for row in tx.rows(FEEDS, params![]).await {
        feeds.push(feed(tx, &row, now).await?);
    }
    Ok(feeds)
}

/// A feed that no process reads is not in trouble with its brokers: no process tries to reach them.
async fn feed(tx: &Tx, row: &Row, now: Timestamp) -> StoreResult<FeedView> {
    let (feed, topic): (String, String) = (row.get("feed")?, row.get("topic")?);
    let (paused, shared_at) = (pause(row)?, row.get("shared_at")?);
    let unread_since = unread_since(shared_at, now);
    let rows = partitions(tx, &feed, &topic).await;
    let is_read = paused.is_none() && unread_since.is_none();
    let trouble = match trouble(row, now)? {
        _ if unread_since.is_some() => None,
        None if is_read => without_reader(&topic, &rows, now)?,
        trouble => trouble,
    };
    let partition = |row: &Row| partition(row, paused.is_none(), now);
    Ok(FeedView {
        partitions: rows.iter().map(partition).collect::<StoreResult<_>>()?,
        dead_letters: row.get("dead_letters")?,
        unread_since,
        paused,
        trouble,
        feed,
        topic,
    })
}

/// Processes that configure a feed ask for its partitions even while it is paused.
pub(super) fn unread_since(shared_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    (!is_recent(shared_at, UNREAD_AFTER, now)).then(|| shared_at.min(now))
}

/// A clock that was ahead has written what lies far ahead.
fn is_recent(at: Timestamp, within: Duration, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() <= within
}

fn is_live(leased_until: Timestamp, now: Timestamp) -> bool {
    (now..=latest_end(now, LEASE)).contains(&leased_until)
}

/// Partitions that are free for longer than it takes to take them over.
fn without_reader(topic: &str, rows: &[Row], now: Timestamp) -> StoreResult<Option<FeedTrouble>> {
    let (mut numbers, mut since) = (Vec::<String>::new(), now);
    for row in rows {
        let leased_until: Timestamp = row.get("leased_until")?;
        let is_free = !is_recent(leased_until, FREE_AFTER, now);
        if is_free && !row.get::<bool>("gone")? {
            numbers.push(row.get::<u32>("partition_no")?.to_string());
            since = since.min(leased_until);
        }
    }
    let what = match numbers.as_slice() {
        [] => return Ok(None),
        [one] => format!("partition {one} of topic {topic} has no reader"),
        many if many.len() > MOST_NAMED => {
            format!("{} partitions of topic {topic} have no reader", many.len())
        }
        [many @ .., last] => {
            let many = many.join(", ");
            format!("partitions {many} and {last} of topic {topic} have no reader")
        }
    };
    Ok(Some(FeedTrouble { what, at: since }))
}

fn pause(row: &Row) -> StoreResult<Option<FeedPause>> {
    let Some(why) = row.get("paused_why")? else {
        return Ok(None);
    };
    Ok(Some(FeedPause {
        why,
        by: row.get("paused_by")?,
        at: row.get("paused_at")?,
    }))
}

fn trouble(row: &Row, now: Timestamp) -> StoreResult<Option<FeedTrouble>> {
    let Some(what) = row.get("trouble")? else {
        return Ok(None);
    };
    let said_at: Timestamp = row.get("said_at")?;
    if !is_recent(said_at, SAID_FOR, now) {
        return Ok(None);
    }
    let at: Timestamp = row.get("trouble_at")?;
    Ok(Some(FeedTrouble { what, at }))
}

async fn partitions(tx: &Tx, feed: &str, topic: &str) -> Vec<Row> {
    const PARTITIONS: &str = "SELECT p.partition_no, p.position, p.log_end, p.owner, p.leased_until,
                p.gone, p.records, p.dead_letters, p.last_record_at, b.item_type, coalesce(b.chunks_left, 0) AS waiting
         FROM feed_partition p LEFT JOIN bulk b ON b.bulk_id = p.bulk_id
         WHERE p.feed = $1 AND p.topic = $2 ORDER BY p.partition_no";
    tx.rows(PARTITIONS, params![feed, topic]).await
}

/// A feed that is paused has no reader, nor has a partition whose lease has ended.
fn partition(row: &Row, is_running: bool, now: Timestamp) -> StoreResult<PartitionView> {
    let owner: Option<String> = row.get("owner")?;
    let leased_until: Timestamp = row.get("leased_until")?;
    Ok(PartitionView {
        number: row.get("partition_no")?,
        is_gone: row.get("gone")?,
        item_type: row.get("item_type")?,
        position: row.get("position")?,
        log_end: row.get("log_end")?,
        owner: owner.filter(|_| is_running && is_live(leased_until, now)),
        records: row.get("records")?,
        dead_letters: row.get("dead_letters")?,
        waiting: row.get("waiting")?,
        last_record_at: row.get("last_record_at")?,
    })
}

/// What lies at the position or after it is judged again when it is read again: a person has moved the position back.
pub(super) async fn unanswered(
    tx: &Tx,
    partition: &PartitionId,
    limit: u32,
) -> StoreResult<Vec<LineError>> {
    const POSITION: &str = "SELECT position FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    const UNANSWERED: Sql = Sql::each(
        "SELECT line_no, item_id, details FROM bulk_error INDEXED BY bulk_error_unanswered
         WHERE bulk_id = $1 AND unanswered AND line_no < $2 ORDER BY line_no LIMIT $3",
        "SELECT line_no, item_id, details FROM bulk_error
         WHERE bulk_id = $1 AND unanswered AND line_no < $2 ORDER BY line_no LIMIT $3",
    );
    let position = match tx.row(POSITION, key(partition)).await {
        Some(row) => row.get::<Option<i64>>("position")?,
        None => None,
    };
    let Some(position) = position else {
        return Ok(vec![]);
    };
    let wanted = params![&partition.bulk(), PartitionId::line(position), limit];
    let rows = tx.rows(UNANSWERED, wanted).await;
    let error = |row: &Row| {
        Ok(LineError {
            line: row.get("line_no")?,
            id: row.get("item_id")?,
            details: row.json("details")?,
            text: None,
        })
    };
    rows.iter().map(error).collect()
}
