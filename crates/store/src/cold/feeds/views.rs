//! Feeds as people ask about them, and what is still to be answered.

use tollgate_core::Timestamp;
use tollgate_core::id::BulkId;
use tollgate_core::ports::{
    FeedPause, FeedTrouble, FeedView, LineError, PartitionView, StoreResult,
};

use crate::sql::{Row, Sql, Tx, params};

pub(super) async fn feeds(tx: &Tx) -> StoreResult<Vec<FeedView>> {
    const FEEDS: &str = "SELECT feed, topic, paused_why, paused_by, paused_at, trouble, trouble_at
         FROM feed WHERE feed > '' ORDER BY feed";
    let mut feeds = vec![];
    for row in tx.rows(FEEDS, params![]).await {
        let (feed, topic): (String, String) = (row.get("feed")?, row.get("topic")?);
        feeds.push(FeedView {
            paused: pause(&row)?,
            trouble: trouble(&row)?,
            partitions: partitions(tx, &feed, &topic).await?,
            feed,
            topic,
        });
    }
    Ok(feeds)
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

fn trouble(row: &Row) -> StoreResult<Option<FeedTrouble>> {
    let Some(what) = row.get("trouble")? else {
        return Ok(None);
    };
    let at: Timestamp = row.get("trouble_at")?;
    Ok(Some(FeedTrouble { what, at }))
}

async fn partitions(tx: &Tx, feed: &str, topic: &str) -> StoreResult<Vec<PartitionView>> {
    const PARTITIONS: &str = "SELECT p.partition_no, p.position, p.log_end, p.owner, p.records,
                p.dead_letters, p.last_record_at, b.item_type, coalesce(b.chunks_left, 0) AS waiting
         FROM feed_partition p LEFT JOIN bulk b ON b.bulk_id = p.bulk_id
         WHERE p.feed = $1 AND p.topic = $2 ORDER BY p.partition_no";
    let rows = tx.rows(PARTITIONS, params![feed, topic]).await;
    let partition = |row: &Row| {
        Ok(PartitionView {
            number: row.get("partition_no")?,
            item_type: row.get("item_type")?,
            position: row.get("position")?,
            log_end: row.get("log_end")?,
            owner: row.get("owner")?,
            records: row.get("records")?,
            dead_letters: row.get("dead_letters")?,
            waiting: row.get("waiting")?,
            last_record_at: row.get("last_record_at")?,
        })
    };
    rows.iter().map(partition).collect()
}

pub(super) async fn unanswered(tx: &Tx, bulk: &BulkId, limit: u32) -> StoreResult<Vec<LineError>> {
    const UNANSWERED: Sql = Sql::each(
        "SELECT line_no, item_id, details FROM bulk_error INDEXED BY bulk_error_unanswered
         WHERE bulk_id = $1 AND unanswered ORDER BY line_no LIMIT $2",
        "SELECT line_no, item_id, details FROM bulk_error
         WHERE bulk_id = $1 AND unanswered ORDER BY line_no LIMIT $2",
    );
    let rows = tx.rows(UNANSWERED, params![bulk, limit]).await;
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
