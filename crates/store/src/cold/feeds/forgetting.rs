//! What is left of a feed that no process configures any more, and how it is forgotten.

use tollgate_core::ports::{Author, Forgotten, Need, PartitionId, StoreResult};

use super::{audit_feed, lock, views};
use crate::sql::{Row, Tx, params};

/// The rows of its partitions stay, as of a topic that has lost them: fences and numbers of chunks are never given twice.
pub(super) async fn forget(tx: &Tx, feed: &str, author: &Author) -> StoreResult<Forgotten> {
    const SHARED: &str = "SELECT shared_at FROM feed WHERE feed = $1";
    const READERS: &str = "DELETE FROM feed_reader WHERE feed = $1";
    const GONE: &str = "UPDATE feed_partition SET gone = true, fence = fence + 1, owner = NULL,
                position = NULL, log_end = NULL, records = 0, dead_letters = 0, last_record_at = NULL
         WHERE feed = $1";
    const FORGET: &str = "DELETE FROM feed WHERE feed = $1";
    lock(tx, feed).await;
    let Some(row) = tx.locked_row(SHARED, params![feed]).await else {
        return Ok(Forgotten::Unknown);
    };
    let now = tx.now().await?;
    if views::unread_since(row.get("shared_at")?, now).is_none() {
        return Ok(Forgotten::Configured);
    }
    uncount_dead_letters(tx, feed).await?;
    need_no_answers(tx, partitions(tx, feed).await?).await;
    for sql in [READERS, GONE, FORGET] {
        tx.execute(sql, params![feed]).await;
    }
    audit_feed(tx, "FORGET_FEED", feed, author).await;
    Ok(Forgotten::Done)
}

async fn partitions(tx: &Tx, feed: &str) -> StoreResult<Vec<PartitionId>> {
    const KNOWN: &str = "SELECT topic, partition_no FROM feed_partition WHERE feed = $1";
    let rows = tx.rows(KNOWN, params![feed]).await;
    let partition = |row: &Row| {
        Ok(PartitionId {
            feed: feed.to_owned(),
            topic: row.get("topic")?,
            number: row.get("partition_no")?,
        })
    };
    rows.iter().map(partition).collect()
}

/// No process answers the rejected lines of these partitions any more, so the lines age like those that were answered.
pub(super) async fn need_no_answers(tx: &Tx, partitions: Vec<PartitionId>) {
    const AGE: &str = "UPDATE bulk_error SET unanswered = false, answered_at = tg_now()
         WHERE bulk_id = $1 AND unanswered";
    let bulks = partitions.iter().map(|it| params![&it.bulk()]).collect();
    tx.execute_each(AGE, bulks).await;
}

/// Dead letters of all feeds are seen up to a number. Without this one's, as many new ones of others would pass unseen;
/// now some that were seen may be shown once more.
async fn uncount_dead_letters(tx: &Tx, feed: &str) -> StoreResult<()> {
    const COUNTED: &str = "SELECT CAST(coalesce(sum(dead_letters), 0) AS bigint) AS n
         FROM feed_partition WHERE feed = $1";
    const UNCOUNT: &str =
        "UPDATE need_seen SET mark = CASE WHEN mark > $2 THEN mark - $2 ELSE 0 END
         WHERE kind = $1";
    let counted: i64 = tx.one(COUNTED, params![feed]).await?.get("n")?;
    let kind = Need::FeedDeadLetters.as_str();
    tx.execute(UNCOUNT, params![kind, counted]).await;
    Ok(())
}
