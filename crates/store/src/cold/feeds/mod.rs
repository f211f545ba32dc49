//! Feeds: who holds which partition, and its position, which moves with the records that it counts. `sharing.rs` shares
//! partitions out, `views.rs` is what people read, `forgetting.rs` deletes what is not configured any more.

mod forgetting;
mod sharing;
mod views;

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::ports::{
    Author, ChunksWaiting, FeedBatch, FeedView, Feeds, Forgotten, LineError, PartitionId,
    PartitionWish, ReadingAt, Share, Sought, StoreError, StoreResult,
};

use super::audit::audit;
use crate::audit::Entry;
use crate::cold::imports::packing::pack;
use crate::sql::{Params, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> Feeds for StoreOn<D> {
    async fn share_partitions(&self, wish: PartitionWish) -> StoreResult<Share> {
        self.write(Urgency::Normal, move |tx| async move {
            sharing::share(&tx, &wish).await
        })
        .await
    }

    async fn leave_feed(&self, feed: &str, owner: &str) -> StoreResult<()> {
        let (feed, owner) = (feed.to_owned(), owner.to_owned());
        self.write(Urgency::Normal, move |tx| async move {
            lock(&tx, &feed).await;
            sharing::let_go(&tx, &feed, &owner).await;
            Ok(())
        })
        .await
    }

    async fn begin_partition(
        &self,
        partition: &PartitionId,
        fence: u64,
        position: i64,
    ) -> StoreResult<bool> {
        const BEGIN: &str = "UPDATE feed_partition SET position = $5
             WHERE feed = $1 AND topic = $2 AND partition_no = $3 AND fence = $4
               AND position IS NULL";
        let mut begun = key(partition);
        begun.extend(params![fence, position]);
        self.write_alone(Urgency::Normal, move |tx| async move {
            Ok(tx.execute(BEGIN, begun).await == 1)
        })
        .await
    }

    async fn take_records(&self, partition: &PartitionId, records: FeedBatch) -> StoreResult<bool> {
        // Packed before the transaction begins: on SQLite everybody else's writes wait for it.
        let (partition, text) = (partition.clone(), pack(&records.text)?);
        let records = FeedBatch { text, ..records };
        self.write(Urgency::Normal, move |tx| async move {
            take(&tx, &partition, records).await
        })
        .await
    }

    async fn chunks_waiting(&self, partition: &PartitionId) -> StoreResult<ChunksWaiting> {
        const WAITING: &str = "SELECT chunks_left, item_type FROM bulk WHERE bulk_id = $1";
        let bulk = params![&partition.bulk()];
        self.read(move |tx| async move {
            let Some(row) = tx.row(WAITING, bulk).await else {
                return Ok(ChunksWaiting::default());
            };
            Ok(ChunksWaiting {
                chunks: row.get("chunks_left")?,
                item_type: row.get("item_type")?,
            })
        })
        .await
    }

    async fn unanswered(&self, partition: &PartitionId, limit: u32) -> StoreResult<Vec<LineError>> {
        let partition = partition.clone();
        self.read(move |tx| async move { views::unanswered(&tx, &partition, limit).await })
            .await
    }

    async fn answered(&self, partition: &PartitionId, lines: Vec<u64>) -> StoreResult<()> {
        const ANSWERED: &str = "UPDATE bulk_error SET unanswered = false, answered_at = tg_now()
             WHERE bulk_id = $1 AND line_no = $2";
        let bulk = partition.bulk();
        let lines = lines.iter().map(|line| params![&bulk, *line]).collect();
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute_each(ANSWERED, lines).await;
            Ok(())
        })
        .await
    }

    async fn note_trouble(&self, feed: &str, trouble: Option<String>) -> StoreResult<()> {
        // Since when there is trouble, however its sentence changes: a person is needed after a while.
        const NOTE: &str = "UPDATE feed SET trouble = $2, said_at = tg_now(), trouble_at =
                 CASE WHEN trouble IS NULL OR said_at + $3 < tg_now()
                          OR trouble_at > tg_now() THEN tg_now()
                      ELSE trouble_at END
             WHERE feed = $1";
        let noted = params![feed, trouble, micros(views::SAID_FOR)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn pause_feed(&self, feed: &str, author: Author) -> StoreResult<bool> {
        let feed = feed.to_owned();
        self.write(Urgency::Normal, move |tx| async move {
            Ok(pause(&tx, &feed, &author).await)
        })
        .await
    }

    async fn pause_feed_at(&self, at: ReadingAt, author: Author) -> StoreResult<bool> {
        self.write(Urgency::Normal, move |tx| async move {
            let PartitionId { feed, .. } = &at.partition;
            // Neither shared out nor sought between the look and the pause.
            lock(&tx, feed).await;
            Ok(stands(&tx, &at).await && pause(&tx, feed, &author).await)
        })
        .await
    }

    async fn resume_feed(&self, feed: &str, author: Author) -> StoreResult<bool> {
        // Another topic is accepted only by resuming a feed that was paused because of it; the next share learns which.
        const RESUME: &str =
            "UPDATE feed SET paused_why = NULL, paused_by = NULL, paused_at = NULL,
                    topic_id = CASE WHEN recreated THEN NULL ELSE topic_id END
             WHERE feed = $1 AND paused_why IS NOT NULL";
        // From now on its partitions are without a reader, not since it was paused.
        const FREE: &str = "UPDATE feed_partition SET leased_until = tg_now()
             WHERE feed = $1 AND leased_until < tg_now()";
        let feed = feed.to_owned();
        self.write(Urgency::Normal, move |tx| async move {
            let resumed = tx.execute(RESUME, params![&feed]).await == 1;
            if resumed {
                tx.execute(FREE, params![&feed]).await;
                audit_feed(&tx, "RESUME_FEED", &feed, &author).await;
            }
            Ok(resumed)
        })
        .await
    }

    async fn seek_feed(
        &self,
        partition: &PartitionId,
        position: i64,
        author: Author,
    ) -> StoreResult<Sought> {
        let partition = partition.clone();
        self.write(Urgency::Normal, move |tx| async move {
            seek(&tx, &partition, position, &author).await
        })
        .await
    }

    async fn forget_feed(&self, feed: &str, author: Author) -> StoreResult<Forgotten> {
        let feed = feed.to_owned();
        self.write(Urgency::Normal, move |tx| async move {
            forgetting::forget(&tx, &feed, &author).await
        })
        .await
    }

    async fn feeds(&self) -> StoreResult<Vec<FeedView>> {
        self.read(move |tx| async move { views::feeds(&tx).await })
            .await
    }
}

fn key(partition: &PartitionId) -> Params {
    params![&partition.feed, &partition.topic, partition.number]
}

/// Partitions of a feed are shared out by one process at a time.
async fn lock(tx: &Tx, feed: &str) {
    tx.lock_name(format!("tollgate/feed/{feed}")).await;
}

/// The row is not locked: in this order, resuming the feed would wait for us and we for it.
async fn stands(tx: &Tx, at: &ReadingAt) -> bool {
    const STANDS: &str = "SELECT 1 FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND partition_no = $3 AND fence = $4
           AND position IS NOT DISTINCT FROM $5";
    let mut wanted = key(&at.partition);
    wanted.extend(params![at.fence, at.position]);
    tx.row(STANDS, wanted).await.is_some()
}

async fn pause(tx: &Tx, feed: &str, author: &Author) -> bool {
    const PAUSE: &str = "UPDATE feed SET paused_why = $2, paused_by = $3, paused_at = tg_now()
         WHERE feed = $1 AND paused_why IS NULL";
    let paused = params![feed, &author.reason, &author.actor];
    let paused = tx.execute(PAUSE, paused).await == 1;
    if paused {
        audit_feed(tx, "PAUSE_FEED", feed, author).await;
    }
    paused
}

async fn paused(tx: &Tx, feed: &str) -> StoreResult<Option<String>> {
    const PAUSED: &str = "SELECT paused_why FROM feed WHERE feed = $1";
    match tx.row(PAUSED, params![feed]).await {
        Some(row) => row.get("paused_why"),
        None => Ok(None),
    }
}

/// The partition's row is the right to move it: whoever lost it finds another fence or another position.
async fn take(tx: &Tx, partition: &PartitionId, batch: FeedBatch) -> StoreResult<bool> {
    const STANDS: &str = "SELECT chunks FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND partition_no = $3 AND fence = $4 AND position = $5";
    const MOVE: &str = "UPDATE feed_partition SET position = $4, chunks = $5,
                records = records + $6, dead_letters = dead_letters + $7, log_end = $8,
                last_record_at = CASE WHEN $6 > 0 THEN CAST($9 AS bigint) ELSE last_record_at END
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    // Of records that are read again; what they come to now is the verdict. Behind the bulk's row, as where chunks end.
    const JUDGED: &str = "DELETE FROM bulk_error
         WHERE bulk_id = $1 AND line_no >= $2 AND line_no < $3";
    if paused(tx, &partition.feed).await?.is_some() {
        return Ok(false);
    }
    let mut stands = key(partition);
    stands.extend(params![batch.fence, batch.from]);
    let Some(row) = tx.locked_row(STANDS, stands).await else {
        return Ok(false);
    };
    let has_lines = u64::from(batch.lines > 0);
    let chunks = row.get::<u64>("chunks")? + has_lines;
    let now = tx.now().await?;
    let records = u64::from(batch.lines) + u64::from(batch.dead_letters);
    let (first, behind) = (PartitionId::line(batch.from), PartitionId::line(batch.next));
    let judged = params![&partition.bulk(), first, behind];
    let mut moved = key(partition);
    moved.extend(params![
        batch.next,
        chunks,
        records,
        batch.dead_letters,
        batch.log_end,
        now
    ]);
    if has_lines > 0 {
        let number =
            u32::try_from(chunks).map_err(|_| StoreError::Bug("too many chunks".into()))?;
        if !add_chunk(tx, partition, number, batch, now).await {
            return Ok(false);
        }
    }
    tx.execute(JUDGED, judged).await;
    tx.execute(MOVE, moved).await;
    Ok(true)
}

/// A bulk that runs from its first chunk on, and again whenever more comes. Chunks are found by their bulk's item type, so
/// another one begins when nothing of the former waits; until then nothing is added (false).
async fn add_chunk(
    tx: &Tx,
    partition: &PartitionId,
    number: u32,
    batch: FeedBatch,
    now: Timestamp,
) -> bool {
    const COUNT: &str = "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left,
             accepted, duplicate, rejected, answers, opened_at, touched_at, started_at)
         VALUES ($1, $2, 'RUNNING', $3, 1, 0, 0, 0, $4, $5, $5, $5)
         ON CONFLICT (bulk_id) DO UPDATE SET state = 'RUNNING', item_type = excluded.item_type,
             lines = bulk.lines + excluded.lines, chunks_left = bulk.chunks_left + 1,
             answers = excluded.answers, touched_at = excluded.touched_at,
             started_at = excluded.started_at, ended_at = NULL
         WHERE bulk.item_type = excluded.item_type OR bulk.chunks_left = 0";
    const ADD: &str =
        "INSERT INTO bulk_chunk (bulk_id, chunk_no, added_at, text) VALUES ($1, $2, $3, $4)";
    let bulk = partition.bulk();
    let counted = params![&bulk, &batch.item_type, batch.lines, batch.answers, now];
    let is_counted = tx.execute(COUNT, counted).await == 1;
    if is_counted {
        let added = params![&bulk, number, now, batch.text];
        tx.execute(ADD, added).await;
    }
    is_counted
}

async fn seek(
    tx: &Tx,
    partition: &PartitionId,
    position: i64,
    author: &Author,
) -> StoreResult<Sought> {
    const WAS: &str = "SELECT position FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND partition_no = $3 AND NOT gone";
    const SEEK: &str = "UPDATE feed_partition SET position = $4, owner = NULL, fence = fence + 1
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    lock(tx, &partition.feed).await;
    let Some(row) = tx.locked_row(WAS, key(partition)).await else {
        return Ok(Sought::Unknown);
    };
    if paused(tx, &partition.feed).await?.is_none() {
        return Ok(Sought::Running);
    }
    let was: Option<i64> = row.get("position")?;
    let mut sought = key(partition);
    sought.extend(params![position]);
    tx.execute(SEEK, sought).await;
    let before = was.map_or_else(|| "none".to_owned(), |was| was.to_string());
    let detail = format!("{} {partition}: {}", partition.feed, author.reason);
    let entry = Entry {
        action: "SEEK_FEED",
        before: Some(&before),
        after: Some(&position.to_string()),
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
    Ok(Sought::Moved(was))
}

async fn audit_feed(tx: &Tx, action: &str, feed: &str, author: &Author) {
    let detail = format!("{feed}: {}", author.reason);
    let entry = Entry {
        action,
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
}
