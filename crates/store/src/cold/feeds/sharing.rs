//! Who reads which partition of a feed: partitions are shared out by leases, one process at a time.

use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::ports::{
    Author, Division, HeldPartition, Holding, PartitionId, PartitionWish, Share, StoreResult,
    latest_end,
};

use super::forgetting::need_no_answers;
use super::{audit_feed, key, lock, paused};
use crate::sql::{Tx, params};
use crate::value::micros;

pub(super) async fn share(tx: &Tx, wish: &PartitionWish) -> StoreResult<Share> {
    lock(tx, &wish.feed).await;
    let now = tx.now().await?;
    known(tx, wish, now).await;
    let is_same = same_topic(tx, wish).await?;
    if let Some(why) = paused(tx, &wish.feed).await? {
        return Ok(Share {
            paused: Some(why),
            held: vec![],
        });
    }
    if wish.partitions.is_empty() || !is_same {
        let_go(tx, &wish.feed, &wish.owner).await;
        return Ok(Share::default());
    }
    let until = now.as_microsecond() + micros(wish.lease);
    let readers = readers(tx, wish, now, until).await?;
    add_partitions(tx, wish).await?;
    let holdings = holdings(tx, wish).await?;
    let division = Division::of(&holdings, &wish.owner, readers, now, wish.lease);
    divide(tx, wish, &division, until).await;
    let held = held(tx, wish).await?;
    Ok(Share { paused: None, held })
}

/// The feed's topic is the one that is configured now. While processes with the old configuration still read, it stays theirs:
/// it would change with every share. A topic that the feed had before is compared with the one whose positions are kept.
async fn known(tx: &Tx, wish: &PartitionWish, now: Timestamp) {
    const KNOWN: &str = "INSERT INTO feed (feed, topic, shared_at) VALUES ($1, $2, $3)
         ON CONFLICT (feed) DO UPDATE SET shared_at = excluded.shared_at";
    const CHANGE: &str = "UPDATE feed SET topic = $2, recreated = false,
                topic_id = (SELECT max(p.topic_id) FROM feed_partition p
                            WHERE p.feed = $1 AND p.topic = $2 AND NOT p.gone)
         WHERE feed = $1 AND topic <> $2 AND paused_why IS NULL AND NOT EXISTS (
             SELECT 1 FROM feed_reader r
             WHERE r.feed = $1 AND r.topic = feed.topic AND r.owner <> $3
               AND r.seen_until BETWEEN $4 AND $5)";
    let shared = params![&wish.feed, &wish.topic, now];
    tx.execute(KNOWN, shared).await;
    let latest = latest_end(now, wish.lease);
    let changed = params![&wish.feed, &wish.topic, &wish.owner, now, latest];
    tx.execute(CHANGE, changed).await;
}

/// A process that does not know the topic's partitions reads none of them, and takes no share away from those that do.
pub(super) async fn let_go(tx: &Tx, feed: &str, owner: &str) {
    const LEAVE: &str = "DELETE FROM feed_reader WHERE feed = $1 AND owner = $2";
    const FREE: &str = "UPDATE feed_partition SET owner = NULL WHERE feed = $1 AND owner = $2";
    tx.execute(LEAVE, params![feed, owner]).await;
    tx.execute(FREE, params![feed, owner]).await;
}

/// Pauses the feed if the topic is another one than before, also if it is paused already: the person who resumes it has to know.
/// False if the topic is not the feed's yet and another one than its positions are of: it is paused once it is the feed's.
async fn same_topic(tx: &Tx, wish: &PartitionWish) -> StoreResult<bool> {
    const TOPIC: &str = "SELECT topic_id, recreated FROM feed WHERE feed = $1 AND topic = $2";
    const KEEP: &str = "UPDATE feed SET topic_id = $2, recreated = false WHERE feed = $1";
    const KEEP_WITH_POSITIONS: &str = "UPDATE feed_partition SET topic_id = $3
         WHERE feed = $1 AND topic = $2 AND NOT gone";
    const OTHER: &str = "SELECT 1 FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND NOT gone AND topic_id <> $3 LIMIT 1";
    let Some(now) = &wish.topic_id else {
        return Ok(true);
    };
    let Some(row) = tx.row(TOPIC, params![&wish.feed, &wish.topic]).await else {
        let other = params![&wish.feed, &wish.topic, now];
        return Ok(tx.row(OTHER, other).await.is_none());
    };
    match row.get::<Option<String>>("topic_id")? {
        Some(before) if before == *now => {}
        Some(_) => {
            pause_recreated(tx, wish).await;
        }
        None if wish.partitions.is_empty() => {}
        None => {
            if row.get("recreated")? {
                part_with(tx, wish).await?;
            }
            tx.execute(KEEP, params![&wish.feed, now]).await;
            let kept = params![&wish.feed, &wish.topic, now];
            tx.execute(KEEP_WITH_POSITIONS, kept).await;
        }
    }
    Ok(true)
}

/// A person has accepted a topic that was created again, which may have fewer partitions. At no other time does a topic lose
/// one: a list that is too short means a broker that does not know all of them yet.
async fn part_with(tx: &Tx, wish: &PartitionWish) -> StoreResult<()> {
    const KNOWN: &str = "SELECT partition_no FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND NOT gone ORDER BY partition_no";
    // Who held it holds it no more.
    const GONE: &str = "UPDATE feed_partition SET gone = true, fence = fence + 1, owner = NULL,
                position = NULL, log_end = NULL
         WHERE feed = $1 AND topic = $2 AND partition_no = $3";
    let (feed, topic) = (&wish.feed, &wish.topic);
    let (mut gone, mut lost) = (vec![], vec![]);
    for row in tx.locked_rows(KNOWN, params![feed, topic]).await {
        let number: u32 = row.get("partition_no")?;
        if !wish.partitions.contains(&number) {
            gone.push(params![feed, topic, number]);
            lost.push(PartitionId {
                feed: feed.clone(),
                topic: topic.clone(),
                number,
            });
        }
    }
    tx.execute_each(GONE, gone).await;
    need_no_answers(tx, lost).await;
    Ok(())
}

async fn pause_recreated(tx: &Tx, wish: &PartitionWish) {
    const PAUSE: &str = "UPDATE feed SET recreated = true, paused_why = $2, paused_by = $3,
                paused_at = coalesce(paused_at, tg_now())
         WHERE feed = $1 AND NOT recreated";
    let author = Author::new(actor::FEED, wish.created_again());
    let paused = params![&wish.feed, &author.reason, &author.actor];
    if tx.execute(PAUSE, paused).await == 1 {
        audit_feed(tx, "PAUSE_FEED", &wish.feed, &author).await;
    }
}

/// How many processes read the topic, this one among them.
async fn readers(tx: &Tx, wish: &PartitionWish, now: Timestamp, until: i64) -> StoreResult<usize> {
    const SEEN: &str =
        "INSERT INTO feed_reader (feed, topic, owner, seen_until) VALUES ($1, $2, $3, $4)
         ON CONFLICT (feed, topic, owner) DO UPDATE SET seen_until = excluded.seen_until";
    const GONE: &str = "DELETE FROM feed_reader WHERE feed = $1
           AND (seen_until < $2 OR seen_until > $3)";
    const READERS: &str = "SELECT count(*) AS n FROM feed_reader WHERE feed = $1 AND topic = $2";
    let seen = params![&wish.feed, &wish.topic, &wish.owner, until];
    tx.execute(SEEN, seen).await;
    let gone = params![&wish.feed, now, latest_end(now, wish.lease)];
    tx.execute(GONE, gone).await;
    let readers: u64 = tx
        .one(READERS, params![&wish.feed, &wish.topic])
        .await?
        .get("n")?;
    Ok(usize::try_from(readers).unwrap_or(1))
}

/// Partitions that are added to the topic after the first look are read from their beginning, whatever the configured start:
/// what was written to them before the next look is new, too. One that was gone is added again only by a process that has seen
/// the topic as it is now.
async fn add_partitions(tx: &Tx, wish: &PartitionWish) -> StoreResult<()> {
    const KNOWN: &str = "SELECT count(*) AS n FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND NOT gone";
    const ADD: &str = "INSERT INTO feed_partition (feed, topic, partition_no, bulk_id, from_first,
             topic_id, leased_until)
         VALUES ($1, $2, $3, $4, $5, $6, tg_now())
         ON CONFLICT (feed, topic, partition_no) DO UPDATE SET gone = false,
             from_first = excluded.from_first, topic_id = excluded.topic_id,
             leased_until = excluded.leased_until
         WHERE feed_partition.gone AND EXISTS (SELECT 1 FROM feed f
             WHERE f.feed = $1 AND f.topic_id IS NOT DISTINCT FROM $6)";
    let known = tx.one(KNOWN, params![&wish.feed, &wish.topic]).await?;
    let from_first = known.get::<u64>("n")? > 0;
    let add = |number: &u32| {
        let partition = PartitionId {
            feed: wish.feed.clone(),
            topic: wish.topic.clone(),
            number: *number,
        };
        let mut added = key(&partition);
        added.extend(params![
            &partition.bulk(),
            from_first,
            wish.topic_id.as_deref()
        ]);
        added
    };
    tx.execute_each(ADD, wish.partitions.iter().map(add).collect())
        .await;
    Ok(())
}

/// Of the partitions that the topic has now.
async fn holdings(tx: &Tx, wish: &PartitionWish) -> StoreResult<Vec<Holding>> {
    const HOLDINGS: &str = "SELECT partition_no, owner, leased_until FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND NOT gone ORDER BY partition_no";
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
    const HELD: &str = "SELECT partition_no, fence, position, from_first FROM feed_partition
         WHERE feed = $1 AND topic = $2 AND owner = $3 ORDER BY partition_no";
    let mine = params![&wish.feed, &wish.topic, &wish.owner];
    let mut held = vec![];
    for row in tx.rows(HELD, mine).await {
        let one = HeldPartition {
            number: row.get("partition_no")?,
            fence: row.get("fence")?,
            position: row.get("position")?,
            from_first: row.get("from_first")?,
        };
        // A topic that was created again may have fewer.
        if wish.partitions.contains(&one.number) {
            held.push(one);
        }
    }
    Ok(held)
}
