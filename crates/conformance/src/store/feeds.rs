//! `Feeds`: a position moves with its records, for the holder of a partition only.

use std::time::Duration;

use futures::future::join_all;
use tollgate_core::id::BulkId;
use tollgate_core::ports::{
    ChunkId, ChunkToDo, FeedBatch, HeldPartition, NewChunk, PartitionId, PartitionWish, Share,
    Sought,
};

use super::fixture::{Fixture, HOUR, SECOND, ops, payments};

const LEASE: Duration = Duration::from_secs(10);
pub(super) const LONGER: Duration = Duration::from_secs(11);

pub(super) fn partition(number: u32) -> PartitionId {
    PartitionId {
        feed: "in".into(),
        topic: "t".into(),
        number,
    }
}

pub(super) fn batch(held: &HeldPartition, from: i64, next: i64) -> FeedBatch {
    FeedBatch {
        item_type: payments(),
        fence: held.fence,
        from,
        next,
        lines: u32::try_from(next - from).unwrap(),
        text: format!("{from} to {next}").into_bytes(),
        dead_letters: 0,
        answers: false,
        log_end: 100,
    }
}

pub(super) fn wish(owner: &str, partitions: u32, topic: Option<&str>) -> PartitionWish {
    PartitionWish {
        feed: "in".into(),
        topic: "t".into(),
        owner: owner.into(),
        topic_id: topic.map(str::to_owned),
        partitions: (0..partitions).collect(),
        log_ends: vec![(0, 7)],
        lease: LEASE,
    }
}

impl dyn Fixture + '_ {
    pub(super) async fn share_all(&self, owner: &str, partitions: u32) -> Share {
        self.share_of(owner, partitions, None).await
    }

    pub(super) async fn share_of(
        &self,
        owner: &str,
        partitions: u32,
        topic: Option<&str>,
    ) -> Share {
        let wish = wish(owner, partitions, topic);
        self.store().share_partitions(wish).await.unwrap()
    }

    /// The only partition, at its beginning.
    pub(super) async fn begun(&self, owner: &str) -> HeldPartition {
        let held = self.share_all(owner, 1).await.held[0];
        let begun = self
            .store()
            .begin_partition(&partition(0), held.fence, 0)
            .await;
        assert!(begun.unwrap());
        held
    }

    pub(super) async fn take(&self, batch: FeedBatch) -> bool {
        let taken = self.store().take_records(&partition(0), batch).await;
        taken.unwrap()
    }

    pub(super) async fn chunks_left(&self) -> u64 {
        let waiting = self.store().chunks_waiting(&partition(0)).await;
        waiting.unwrap().chunks
    }

    pub(super) async fn position(&self) -> Option<i64> {
        let feeds = self.store().feeds().await.unwrap();
        feeds[0].partitions[0].position
    }
}

pub(super) fn numbers(share: &Share) -> Vec<u32> {
    share.held.iter().map(|held| held.number).collect()
}

pub async fn partitions_are_shared_and_given_back_and_taken_from_the_silent(f: &dyn Fixture) {
    let alone = f.share_all("a", 4).await;
    assert_eq!(numbers(&alone), [0, 1, 2, 3]);
    assert!(alone.held.iter().all(|held| held.position.is_none()));
    assert_eq!(f.share_all("b", 4).await.held, [], "all are held");
    assert_eq!(
        numbers(&f.share_all("a", 4).await),
        [0, 1],
        "half is given back"
    );
    let second = f.share_all("b", 4).await;
    assert_eq!(numbers(&second), [2, 3]);
    assert!(second.held[0].fence > alone.held[2].fence);
    f.advance(LONGER).await;
    let taken = f.share_all("b", 4).await;
    assert_eq!(numbers(&taken), [0, 1, 2, 3], "the other is silent");
    assert!(taken.held[0].fence > alone.held[0].fence);
    assert_eq!(
        taken.held[2].fence, second.held[0].fence,
        "it kept this one"
    );
    f.store().leave_feed("in", "b").await.unwrap();
    assert_eq!(numbers(&f.share_all("a", 4).await), [0, 1, 2, 3]);
    assert_eq!(
        numbers(&f.share_all("a", 5).await),
        [0, 1, 2, 3, 4],
        "one more"
    );
}

pub async fn who_knows_no_partitions_does_not_count(f: &dyn Fixture) {
    assert_eq!(numbers(&f.share_all("a", 4).await), [0, 1, 2, 3]);
    assert_eq!(f.share_all("b", 0).await, Share::default());
    assert_eq!(numbers(&f.share_all("a", 4).await), [0, 1, 2, 3]);
    // It had some, and lost the brokers.
    f.share_all("b", 4).await;
    f.share_all("a", 4).await;
    assert_eq!(numbers(&f.share_all("b", 4).await), [2, 3]);
    assert_eq!(f.share_all("b", 0).await, Share::default());
    assert_eq!(numbers(&f.share_all("a", 4).await), [0, 1, 2, 3]);
}

pub async fn two_topics_of_a_feed_are_shared_out_each_for_itself(f: &dyn Fixture) {
    let share = |owner: &'static str, topic: &'static str, id: &'static str| async move {
        let wish = PartitionWish {
            topic: topic.into(),
            ..wish(owner, 4, Some(id))
        };
        f.store().share_partitions(wish).await.unwrap()
    };
    let topic = || async { f.store().feeds().await.unwrap().remove(0).topic };
    assert_eq!(numbers(&share("a", "t", "old").await), [0, 1, 2, 3]);
    assert_eq!(numbers(&share("b", "u", "new").await), [0, 1, 2, 3]);
    assert_eq!(numbers(&share("a", "t", "old").await), [0, 1, 2, 3]);
    assert_eq!(topic().await, "t", "somebody reads it");
    assert!(share("a", "t", "another").await.paused.is_some());
    assert!(f.store().resume_feed("in", ops()).await.unwrap());
    f.store().leave_feed("in", "a").await.unwrap();
    assert_eq!(share("b", "u", "new").await.paused, None);
    assert_eq!(topic().await, "u");
    assert!(share("b", "u", "newer").await.paused.is_some());
}

pub async fn a_feed_or_a_partition_that_nobody_reads_is_shown(f: &dyn Fixture) {
    const THREE_LEASES: Duration = Duration::from_secs(31);
    f.share_all("a", 3).await;
    let view = || async { f.store().feeds().await.unwrap().remove(0) };
    let fine = view().await;
    assert_eq!((fine.trouble, fine.unread_since), (None, None));
    assert_eq!(fine.partitions[0].owner.as_deref(), Some("a"));

    // Another one takes its share, and dies with it.
    f.share_all("b", 3).await;
    f.share_all("a", 3).await;
    assert_eq!(numbers(&f.share_all("b", 3).await), [2]);
    for _ in 0..3 {
        f.advance(LONGER).await;
        f.share_all("a", 2).await;
    }
    let half = view().await;
    let trouble = half.trouble.unwrap().what;
    assert_eq!(trouble, "partition 2 of topic t has no reader");
    assert_eq!(half.partitions[2].owner, None, "its lease has ended");

    f.store().pause_feed("in", ops()).await.unwrap();
    let paused = view().await;
    assert_eq!((paused.trouble, &paused.partitions[0].owner), (None, &None));
    f.store().resume_feed("in", ops()).await.unwrap();
    assert_eq!(view().await.trouble, None, "it has just been resumed");
    f.advance(THREE_LEASES).await;
    let trouble = view().await.trouble.unwrap().what;
    assert_eq!(trouble, "partitions 0, 1 and 2 of topic t have no reader");

    let away = Some("the broker is away".to_owned());
    f.store().note_trouble("in", away).await.unwrap();
    f.advance(Duration::from_mins(1)).await;
    let gone = view().await;
    assert!(gone.unread_since.is_some());
    assert_eq!(gone.trouble, None, "no process tries");
}

pub async fn partitions_that_are_added_later_are_read_from_their_beginning(f: &dyn Fixture) {
    let from_first = |owner: &'static str, partitions| async move {
        let held = f.share_all(owner, partitions).await.held;
        held.iter().map(|held| held.from_first).collect::<Vec<_>>()
    };
    assert_eq!(from_first("a", 2).await, [false, false]);
    assert_eq!(from_first("a", 3).await, [false, false, true]);
    f.advance(LONGER).await;
    let another = from_first("b", 3).await;
    assert_eq!(another, [false, false, true], "whichever process reads it");
}

pub async fn a_position_moves_with_its_records_and_by_compare_and_set(f: &dyn Fixture) {
    let held = f.begun("a").await;
    let (store, place) = (f.store(), partition(0));
    let again = store.begin_partition(&place, held.fence, 5).await;
    assert!(!again.unwrap(), "it has begun");
    assert!(f.take(batch(&held, 0, 3)).await);
    assert!(!f.take(batch(&held, 0, 3)).await, "it stands elsewhere");
    assert_eq!(f.position().await, Some(3));
    assert!(f.take(batch(&held, 3, 5)).await);
    let bulk = partition(0).bulk();
    let to_do = f.store().chunks_to_do(&payments(), 10).await.unwrap();
    let chunk = |number| ChunkId {
        bulk: bulk.clone(),
        number,
    };
    let to_do: Vec<_> = to_do.into_iter().map(|to_do| to_do.chunk).collect();
    assert_eq!(to_do, [chunk(1), chunk(2)]);
    let text = f.store().chunk(&chunk(2)).await.unwrap();
    assert_eq!(text.as_deref(), Some(&b"3 to 5"[..]));
    assert_eq!(f.chunks_left().await, 2);

    // Only dead letters, or nothing at all: the position moves without a chunk.
    let mut dead = batch(&held, 5, 9);
    (dead.lines, dead.dead_letters, dead.text) = (0, 4, vec![]);
    assert!(f.take(dead).await);
    let view = f
        .store()
        .feeds()
        .await
        .unwrap()
        .remove(0)
        .partitions
        .remove(0);
    assert_eq!((view.records, view.dead_letters, view.waiting), (9, 4, 2));
    assert_eq!((view.position, view.lag()), (Some(9), Some(91)));
    assert!(view.last_record_at.is_some());
}

pub async fn partitions_take_turns_after_files(f: &dyn Fixture) {
    let held = f.share_all("a", 2).await.held;
    let store = f.store();
    for held in &held {
        let place = partition(held.number);
        let begun = store.begin_partition(&place, held.fence, 0).await;
        assert!(begun.unwrap());
    }
    let take = |held: &HeldPartition, from| {
        let (store, batch) = (f.store(), batch(held, from, from + 1));
        let place = partition(held.number);
        async move {
            f.advance(SECOND).await;
            assert!(store.take_records(&place, batch).await.unwrap());
        }
    };
    let order = || async {
        let to_do = f.store().chunks_to_do(&payments(), 10).await.unwrap();
        let chunk = |to_do: ChunkToDo| format!("{} {}", to_do.chunk.bulk, to_do.chunk.number);
        to_do.into_iter().map(chunk).collect::<Vec<_>>()
    };
    take(&held[1], 0).await;
    take(&held[0], 0).await;
    assert_eq!(order().await, ["feed.in.t.1 1", "feed.in.t.0 1"]);
    take(&held[1], 1).await;
    assert_eq!(
        order().await,
        ["feed.in.t.1 1", "feed.in.t.0 1", "feed.in.t.1 2"]
    );
    let file = BulkId::new("z");
    assert!(store.open_bulk(&file, &payments()).await.unwrap());
    let chunk = NewChunk {
        number: 1,
        lines: 1,
        text: b"a line".to_vec(),
    };
    assert!(store.add_chunk(&file, chunk).await.unwrap());
    store.close_bulk(&file, None, "d".into()).await.unwrap();
    assert_eq!(order().await[0], "z 1");
}

pub async fn who_lost_a_partition_writes_nothing(f: &dyn Fixture) {
    let zombie = f.begun("a").await;
    assert!(f.take(batch(&zombie, 0, 3)).await);
    f.advance(LONGER).await;
    let heir = f.share_all("b", 1).await.held[0];
    assert_eq!(heir.position, Some(3), "it goes on where the other was");
    assert!(
        !f.take(batch(&zombie, 3, 4)).await,
        "it was stopped and woke up"
    );
    assert!(f.take(batch(&heir, 3, 4)).await);
    assert!(!f.take(batch(&zombie, 4, 5)).await);
    assert_eq!(f.position().await, Some(4));
    assert_eq!(f.chunks_left().await, 2);
}

pub async fn of_writers_at_once_one_moves_the_position(f: &dyn Fixture) {
    let held = f.begun("a").await;
    let writers = (0..8).map(|_| f.take(batch(&held, 0, 3)));
    let taken = join_all(writers).await;
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1);
    assert_eq!(f.chunks_left().await, 1);
}

pub async fn a_feed_that_is_paused_is_neither_held_nor_moved(f: &dyn Fixture) {
    let held = f.begun("a").await;
    let store = f.store();
    assert!(!store.pause_feed("other", ops()).await.unwrap());
    assert!(store.pause_feed("in", ops()).await.unwrap());
    assert!(!store.pause_feed("in", ops()).await.unwrap());
    assert!(!f.take(batch(&held, 0, 3)).await);
    let share = f.share_all("a", 1).await;
    assert_eq!(
        (share.paused.as_deref(), share.held),
        (Some("because"), vec![])
    );
    let pause = store.feeds().await.unwrap().remove(0).paused.unwrap();
    assert_eq!((pause.why.as_str(), pause.by.as_str()), ("because", "ops"));
    assert!(store.resume_feed("in", ops()).await.unwrap());
    assert!(!store.resume_feed("in", ops()).await.unwrap());
    assert!(f.take(batch(&held, 0, 3)).await);
    let said = store.audit(None, 10).await.unwrap();
    let said: Vec<_> = said.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(said, ["RESUME_FEED", "PAUSE_FEED"]);
}

pub async fn a_topic_that_was_created_again_pauses_its_feed(f: &dyn Fixture) {
    let share = |topic: Option<&'static str>| async move {
        let share = f.share_of("a", 1, topic).await;
        share.paused.is_some()
    };
    assert!(!share(None).await, "a broker without ids");
    assert!(!share(Some("first")).await);
    assert!(!share(Some("first")).await);
    assert!(share(Some("second")).await);
    assert!(share(Some("first")).await, "until a person has looked");
    let pause = f.store().feeds().await.unwrap().remove(0).paused.unwrap();
    assert!(pause.why.starts_with("topic t was created again"));
    assert!(f.store().resume_feed("in", ops()).await.unwrap());
    assert!(!share(Some("second")).await);
    assert!(share(Some("third")).await);
}

pub async fn a_topic_that_is_created_again_during_a_pause_is_not_resumed_unseen(f: &dyn Fixture) {
    let why = |topic: &'static str| async move { f.share_of("a", 1, Some(topic)).await.paused };
    assert_eq!(why("first").await, None);
    f.store().pause_feed("in", ops()).await.unwrap();
    assert_eq!(why("first").await.as_deref(), Some("because"));
    let again = why("second").await.unwrap();
    assert!(again.starts_with("topic t was created again"), "{again}");
    let said = f.store().audit(None, 10).await.unwrap();
    assert_eq!(said.len(), 2, "said once: {said:?}");
    assert!(f.store().resume_feed("in", ops()).await.unwrap());
    assert_eq!(why("second").await, None);

    // Created again and resumed while no process runs.
    f.store().pause_feed("in", ops()).await.unwrap();
    assert!(f.store().resume_feed("in", ops()).await.unwrap());
    assert!(why("third").await.is_some());
}

pub async fn partitions_that_the_topic_no_longer_has_are_not_held(f: &dyn Fixture) {
    assert_eq!(numbers(&f.share_all("a", 3).await), [0, 1, 2]);
    assert_eq!(numbers(&f.share_all("a", 2).await), [0, 1]);
}

pub async fn a_seek_moves_a_paused_feed_and_ends_its_holding(f: &dyn Fixture) {
    let held = f.begun("a").await;
    assert!(f.take(batch(&held, 0, 3)).await);
    let seek = |number, position| {
        let store = f.store();
        async move {
            let sought = store.seek_feed(&partition(number), position, ops()).await;
            sought.unwrap()
        }
    };
    assert_eq!(seek(0, 1).await, Sought::Running);
    assert_eq!(seek(7, 1).await, Sought::Unknown);
    f.store().pause_feed("in", ops()).await.unwrap();
    assert_eq!(seek(0, 1).await, Sought::Moved(Some(3)));
    f.store().resume_feed("in", ops()).await.unwrap();
    assert!(!f.take(batch(&held, 1, 2)).await, "under another fence");
    let held = f.share_all("a", 1).await.held[0];
    assert_eq!(held.position, Some(1));
    assert!(f.take(batch(&held, 1, 2)).await);
    let entry = f.store().audit(None, 2).await.unwrap().remove(1);
    assert_eq!(entry.action, "SEEK_FEED");
}

pub async fn trouble_with_a_feed_is_told_until_it_is_over(f: &dyn Fixture) {
    f.share_all("a", 1).await;
    let store = f.store();
    let trouble = || async {
        let feed = f.store().feeds().await.unwrap().remove(0);
        feed.trouble.map(|trouble| trouble.what)
    };
    assert_eq!(trouble().await, None);
    assert_eq!(store.feeds().await.unwrap()[0].partitions[0].log_end, None);
    let away = Some("the broker is away".to_owned());
    store.note_trouble("in", away.clone()).await.unwrap();
    assert_eq!(trouble().await, away);
    let since = || async {
        let feed = f.store().feeds().await.unwrap().remove(0);
        feed.trouble.map(|trouble| trouble.at)
    };
    let began = since().await;
    f.advance(SECOND).await;
    let other = Some("another broker is away".to_owned());
    store.note_trouble("in", other.clone()).await.unwrap();
    assert_eq!((trouble().await, since().await), (other.clone(), began));
    for _ in 0..6 {
        f.advance(LONGER).await;
        f.share_all("a", 1).await;
    }
    assert_eq!(trouble().await, None, "who said it has died");
    store.note_trouble("in", other).await.unwrap();
    assert!(since().await > began, "it began again");
    store.note_trouble("in", None).await.unwrap();
    assert_eq!(trouble().await, None);
    f.share_all("a", 1).await;
    assert_eq!(
        store.feeds().await.unwrap()[0].partitions[0].log_end,
        Some(7)
    );
}

/// The process has died with it, and the clock was put right.
pub async fn a_clock_that_was_ahead_holds_no_partition_and_hides_no_trouble(f: &dyn Fixture) {
    let away = || Some("the broker is away".to_owned());
    let view = || async { f.store().feeds().await.unwrap().remove(0) };
    f.advance(2 * HOUR).await;
    let before = f.begun("a").await;
    f.store().note_trouble("in", away()).await.unwrap();
    f.turn_back(2 * HOUR).await;
    let dead = view().await;
    assert_eq!((&dead.partitions[0].owner, &dead.trouble), (&None, &None));
    assert!(dead.unread_since.unwrap() <= f.now().await);

    let held = f.share_all("b", 1).await.held;
    assert_eq!((held.len(), held[0].position), (1, Some(0)));
    assert!(!f.take(batch(&before, 0, 3)).await);
    assert!(f.take(batch(&held[0], 0, 3)).await);
    f.store().note_trouble("in", away()).await.unwrap();
    let live = view().await;
    assert_eq!(live.partitions[0].owner.as_deref(), Some("b"));
    assert!(live.trouble.unwrap().at <= f.now().await, "its age counts");
    assert_eq!(live.unread_since, None);
    // A small step back takes nothing away from it.
    f.turn_back(LEASE / 2).await;
    assert_eq!(f.share_all("c", 1).await.held, []);
    assert_eq!(view().await.partitions[0].owner.as_deref(), Some("b"));

    f.advance(2 * HOUR).await;
    f.share_all("d", 1).await;
    f.turn_back(2 * HOUR).await;
    let corrected = PartitionWish {
        topic: "u".into(),
        ..wish("e", 1, None)
    };
    let share = f.store().share_partitions(corrected).await.unwrap();
    assert_eq!(numbers(&share), [0]);
    assert_eq!(view().await.topic, "u", "no process reads the other");
}
