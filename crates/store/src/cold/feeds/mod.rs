//! Feeds: who holds which partition, and its position, which moves with the records that it counts. `views.rs` is what people
//! read.

mod views;

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::ports::{
    Author, Division, FeedBatch, FeedView, Feeds, HeldPartition, Holding, LineError, PartitionId,
    PartitionWish, Share, Sought, StoreError, StoreResult,
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
        self.write(
            Urgency::Normal,
            move |tx| async move { share(&tx, &wish).await },
        )
        .await
    }

    async fn leave_feed(&self, feed: &str, owner: &str) -> StoreResult<()> {
        const LEAVE: &str = "DELETE FROM feed_reader WHERE feed = $1 AND owner = $2";
        const FREE: &str = "UPDATE feed_partition SET owner = NULL WHERE feed = $1 AND owner = $2";
        let (feed, owner) = (feed.to_owned(), owner.to_owned());
        self.write(Urgency::Normal, move |tx| async move {
            lock(&tx, &feed).await;
            tx.execute(LEAVE, params![&feed, &owner]).await;
            tx.execute(FREE, params![&feed, &owner]).await;
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

    async fn chunks_waiting(&self, partition: &PartitionId) -> StoreResult<u64> {
        const WAITING: &str = "SELECT chunks_left FROM bulk WHERE bulk_id = $1";
        let bulk = params![&partition.bulk()];
        self.read(move |tx| async move {
            let row = tx.row(WAITING, bulk).await;
            row.map_or(Ok(0), |row| row.get("chunks_left"))
        })
        .await
    }

    async fn unanswered(&self, partition: &PartitionId, limit: u32) -> StoreResult<Vec<LineError>> {
        let bulk = partition.bulk();
        self.read(move |tx| async move { views::unanswered(&tx, &bulk, limit).await })
            .await
    }

    async fn answered(&self, partition: &PartitionId, lines: Vec<u64>) -> StoreResult<()> {
        const ANSWERED: &str =
            "UPDATE bulk_error SET unanswered = false WHERE bulk_id = $1 AND line_no = $2";
        let bulk = partition.bulk();
        let lines = lines.iter().map(|line| params![&bulk, *line]).collect();
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute_each(ANSWERED, lines).await;
            Ok(())
        })
        .await
    }

    async fn note_trouble(&self, feed: &str, trouble: Option<String>) -> StoreResult<()> {
        const NOTE: &str = "UPDATE feed SET trouble = $2, trouble_at = tg_now() WHERE feed = $1";
        let noted = params![feed, trouble];
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

    async fn resume_feed(&self, feed: &str, author: Author) -> StoreResult<bool> {
        const RESUME: &str =
            "UPDATE feed SET paused_why = NULL, paused_by = NULL, paused_at = NULL,
                    topic_id = NULL
             WHERE feed = $1 AND paused_why IS NOT NULL";
        let feed = feed.to_owned();
        self.write(Urgency::Normal, move |tx| async move {
            let resumed = tx.execute(RESUME, params![&feed]).await == 1;
            if resumed {
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

async fn share(tx: &Tx, wish: &PartitionWish) -> StoreResult<Share> {
    const KNOWN: &str = "INSERT INTO feed (feed, topic) VALUES ($1, $2)
         ON CONFLICT (feed) DO UPDATE SET topic = excluded.topic, topic_id = NULL
         WHERE feed.topic <> excluded.topic";
    lock(tx, &wish.feed).await;
    tx.execute(KNOWN, params![&wish.feed, &wish.topic]).await;
    same_topic(tx, wish).await?;
    if let Some(why) = paused(tx, &wish.feed).await? {
        return Ok(Share {
            paused: Some(why),
            held: vec![],
        });
    }
    let now = tx.now().await?;
    let until = now.as_microsecond() + micros(wish.lease);
    let readers = readers(tx, wish, now, until).await?;
    add_partitions(tx, wish).await;
    let holdings = holdings(tx, wish).await?;
    let division = Division::of(&holdings, &wish.owner, readers, now);
    divide(tx, wish, &division, until).await;
    let held = held(tx, wish).await?;
    Ok(Share { paused: None, held })
}

/// Pauses the feed if the topic is another one than before.
async fn same_topic(tx: &Tx, wish: &PartitionWish) -> StoreResult<()> {
    const TOPIC: &str = "SELECT topic_id FROM feed WHERE feed = $1";
    const KEEP: &str = "UPDATE feed SET topic_id = $2 WHERE feed = $1";
    let Some(now) = &wish.topic_id else {
        return Ok(());
    };
    let row = tx.one(TOPIC, params![&wish.feed]).await?;
    match row.get::<Option<String>>("topic_id")? {
        Some(before) if before == *now => {}
        Some(_) => {
            let author = Author::new(actor::FEED, wish.created_again());
            pause(tx, &wish.feed, &author).await;
        }
        None => {
            tx.execute(KEEP, params![&wish.feed, now]).await;
        }
    }
    Ok(())
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

/// How many processes read the feed, this one among them.
async fn readers(tx: &Tx, wish: &PartitionWish, now: Timestamp, until: i64) -> StoreResult<usize> {
    const SEEN: &str = "INSERT INTO feed_reader (feed, owner, seen_until) VALUES ($1, $2, $3)
         ON CONFLICT (feed, owner) DO UPDATE SET seen_until = excluded.seen_until";
    const GONE: &str = "DELETE FROM feed_reader WHERE feed = $1 AND seen_until < $2";
    const READERS: &str = "SELECT count(*) AS n FROM feed_reader WHERE feed = $1";
    tx.execute(SEEN, params![&wish.feed, &wish.owner, until])
        .await;
    tx.execute(GONE, params![&wish.feed, now]).await;
    let readers: u64 = tx.one(READERS, params![&wish.feed]).await?.get("n")?;
    Ok(usize::try_from(readers).unwrap_or(1))
}

async fn add_partitions(tx: &Tx, wish: &PartitionWish) {
    const ADD: &str = "INSERT INTO feed_partition (feed, topic, partition_no, bulk_id)
         VALUES ($1, $2, $3, $4) ON CONFLICT (feed, topic, partition_no) DO NOTHING";
    let add = |number: &u32| {
        let partition = PartitionId {
            feed: wish.feed.clone(),
            topic: wish.topic.clone(),
            number: *number,
        };
        let mut added = key(&partition);
        added.extend(params![&partition.bulk()]);
        added
    };
    tx.execute_each(ADD, wish.partitions.iter().map(add).collect())
        .await;
}

/// Of the partitions that the topic has now.
async fn holdings(tx: &Tx, wish: &PartitionWish) -> StoreResult<Vec<Holding>> {
    const HOLDINGS: &str = "SELECT partition_no, owner, leased_until FROM feed_partition
         WHERE feed = $1 AND topic = $2 ORDER BY partition_no";
    let rows = tx
        .locked_rows(HOLDINGS, params![&wish.feed, &wish.topic])
        .await;
    let mut holdings = vec![];
    for row in rows {
        let holding = Holding {
            number: row.get("partition_no")?,
            owner: row.get("owner")?,
            leased_until: row.get("leased_until")?,
        };
        if wish.partitions.contains(&holding.number) {
            holdings.push(holding);
        }
    }
    Ok(holdings)
}

async fn divide(tx: &Tx, wish: &PartitionWish, division: &Division, until: i64) {
    const KEEP: &str = "UPDATE feed_partition SET leased_until = $4
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    const GIVE_BACK: &str = "UPDATE feed_partition SET owner = NULL
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    const TAKE: &str = "UPDATE feed_partition SET leased_until = $4, owner = $5, fence = fence + 1
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    const END: &str = "UPDATE feed_partition SET log_end = $4
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    let (feed, topic) = (&wish.feed, &wish.topic);
    let keep = division.keep.iter();
    let keep = keep.map(|number| params![feed, topic, *number, until]);
    tx.execute_each(KEEP, keep.collect()).await;
    let give_back = division.give_back.iter();
    let give_back = give_back.map(|number| params![feed, topic, *number]);
    tx.execute_each(GIVE_BACK, give_back.collect()).await;
    let take = division.take.iter();
    let take = take.map(|number| params![feed, topic, *number, until, &wish.owner]);
    tx.execute_each(TAKE, take.collect()).await;
    let seen = wish
        .log_ends
        .iter()
        .filter(|(number, _)| division.keep.contains(number));
    let ends = seen.map(|(number, end)| params![feed, topic, *number, *end]);
    tx.execute_each(END, ends.collect()).await;
}

async fn held(tx: &Tx, wish: &PartitionWish) -> StoreResult<Vec<HeldPartition>> {
    const HELD: &str = "SELECT partition_no, fence, position FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND owner = $3 ORDER BY partition_no";
    let mine = params![&wish.feed, &wish.topic, &wish.owner];
    let mut held = vec![];
    for row in tx.rows(HELD, mine).await {
        held.push(HeldPartition {
            number: row.get("partition_no")?,
            fence: row.get("fence")?,
            position: row.get("position")?,
        });
    }
    Ok(held)
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
    let mut moved = key(partition);
    moved.extend(params![
        batch.next,
        chunks,
        records,
        batch.dead_letters,
        batch.log_end,
        now
    ]);
    tx.execute(MOVE, moved).await;
    if has_lines > 0 {
        let number =
            u32::try_from(chunks).map_err(|_| StoreError::Bug("too many chunks".into()))?;
        add_chunk(tx, partition, number, batch, now).await;
    }
    Ok(true)
}

/// A bulk that runs from its first chunk on, and again whenever more comes.
async fn add_chunk(
    tx: &Tx,
    partition: &PartitionId,
    number: u32,
    batch: FeedBatch,
    now: Timestamp,
) {
    const COUNT: &str = "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left,
             accepted, duplicate, rejected, answers, opened_at, touched_at, started_at)
         VALUES ($1, $2, 'RUNNING', $3, 1, 0, 0, 0, $4, $5, $5, $5)
         ON CONFLICT (bulk_id) DO UPDATE SET state = 'RUNNING',
             lines = bulk.lines + excluded.lines, chunks_left = bulk.chunks_left + 1,
             answers = excluded.answers, touched_at = excluded.touched_at,
             started_at = excluded.started_at, ended_at = NULL";
    const ADD: &str =
        "INSERT INTO bulk_chunk (bulk_id, chunk_no, added_at, text) VALUES ($1, $2, $3, $4)";
    let bulk = partition.bulk();
    let counted = params![&bulk, &batch.item_type, batch.lines, batch.answers, now];
    tx.execute(COUNT, counted).await;
    tx.execute(ADD, params![&bulk, number, now, batch.text])
        .await;
}

async fn seek(
    tx: &Tx,
    partition: &PartitionId,
    position: i64,
    author: &Author,
) -> StoreResult<Sought> {
    const WAS: &str = "SELECT position FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
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
