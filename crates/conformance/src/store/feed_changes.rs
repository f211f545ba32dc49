//! `Feeds` whose configuration or whose topic has changed.

use std::time::Duration;

use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    ChunkEnd, ChunkId, FeedBatch, FeedView, Forgotten, HeldPartition, Need, NewSeen, PartitionId,
    PartitionWish, ReadingAt, Share, Sought,
};

use super::feeds::{LONGER, batch, numbers, partition, wish};
use super::fixture::{Fixture, ops, payments};

pub async fn records_of_a_corrected_item_type_follow_when_nothing_of_the_former_waits(
    f: &dyn Fixture,
) {
    let (store, bulk) = (f.store(), partition(0).bulk());
    let invoices = ItemType::new("INVOICE");
    let held = f.begun("a").await;
    assert!(f.take(batch(&held, 0, 3)).await);
    let corrected = || {
        let mut batch = batch(&held, 3, 5);
        batch.item_type = invoices.clone();
        batch
    };
    let waiting = store.chunks_waiting(&partition(0)).await.unwrap();
    assert_eq!(waiting.of_another_type(&invoices), Some(&payments()));
    assert_eq!(waiting.of_another_type(&payments()), None);
    assert!(!f.take(corrected()).await, "payments wait");
    assert_eq!((f.position().await, f.chunks_left().await), (Some(3), 1));

    let first = ChunkId {
        bulk: bulk.clone(),
        number: 1,
    };
    let ended = store.finish_chunk(&first, ChunkEnd::default()).await;
    assert!(ended.unwrap());
    let waiting = store.chunks_waiting(&partition(0)).await.unwrap();
    assert_eq!(waiting.of_another_type(&invoices), None, "all are decided");
    assert!(f.take(corrected()).await);
    let to_do = |item_type: ItemType| {
        let store = f.store();
        async move {
            let to_do = store.chunks_to_do(&item_type, 10).await.unwrap();
            let numbers = to_do.iter().map(|to_do| to_do.chunk.number);
            numbers.collect::<Vec<_>>()
        }
    };
    assert_eq!(
        (to_do(payments()).await, to_do(invoices.clone()).await),
        (vec![], vec![2])
    );
    let view = store.bulk(&bulk).await.unwrap().unwrap();
    assert_eq!((view.item_type, view.lines), (invoices, 5));
}

impl dyn Fixture + '_ {
    /// Three partitions, at their beginning; a record of the last one was read.
    async fn three(&self) -> Vec<HeldPartition> {
        let held = self.share_of("a", 3, Some("first")).await.held;
        for held in &held {
            let place = partition(held.number);
            let begun = self.store().begin_partition(&place, held.fence, 0).await;
            assert!(begun.unwrap());
        }
        assert!(self.take_of(2, batch(&held[2], 0, 1)).await);
        held
    }

    async fn take_of(&self, number: u32, batch: FeedBatch) -> bool {
        let taken = self.store().take_records(&partition(number), batch).await;
        taken.unwrap()
    }

    /// The topic is created again with so many partitions, which a person accepts.
    async fn recreate_and_accept(&self, partitions: u32) {
        let share = self.share_of("a", partitions, Some("second")).await;
        assert!(share.paused.is_some());
        let sought = self.store().seek_feed(&partition(0), 0, ops()).await;
        assert_eq!(sought.unwrap(), Sought::Moved(Some(0)));
        assert!(self.store().resume_feed("in", ops()).await.unwrap());
    }

    async fn feed(&self) -> FeedView {
        self.store().feeds().await.unwrap().remove(0)
    }
}

fn gone(feed: &FeedView) -> Vec<u32> {
    let partitions = feed.partitions.iter();
    let gone = partitions.filter(|one| one.is_gone);
    gone.map(|one| one.number).collect()
}

pub async fn partitions_that_a_topic_lacks_since_it_was_created_again_need_no_reader(
    f: &dyn Fixture,
) {
    let before = f.three().await;
    f.recreate_and_accept(2).await;
    // A process that cannot see the topic just now, and one that sees it.
    f.share_of("b", 3, None).await;
    f.store().leave_feed("in", "b").await.unwrap();
    let held = f.share_of("a", 2, Some("second")).await.held;
    assert_eq!(
        held.iter().map(|held| held.position).collect::<Vec<_>>(),
        [Some(0); 2]
    );
    assert_eq!(numbers(&f.share_of("b", 3, None).await), [0_u32; 0]);
    f.store().leave_feed("in", "b").await.unwrap();
    for _ in 0..3 {
        f.advance(LONGER).await;
        f.share_of("a", 2, Some("second")).await;
    }
    let feed = f.feed().await;
    assert_eq!((gone(&feed), feed.trouble), (vec![2], None));
    let records = feed.partitions.iter().map(|one| one.records);
    assert_eq!(records.sum::<u64>(), 1, "what was read counts");
    assert!(!f.take_of(2, batch(&before[2], 1, 2)).await);
    f.store().pause_feed("in", ops()).await.unwrap();
    let sought = f.store().seek_feed(&partition(2), 0, ops()).await;
    assert_eq!(sought.unwrap(), Sought::Unknown);
}

pub async fn a_partition_that_is_added_again_is_another_one_with_new_chunks(f: &dyn Fixture) {
    let before = f.three().await;
    f.recreate_and_accept(2).await;
    f.share_of("a", 2, Some("second")).await;
    let held = f.share_of("a", 3, Some("second")).await.held[2];
    assert_eq!((held.position, held.from_first), (None, true));
    assert!(held.fence > before[2].fence);
    let place = partition(2);
    assert!(
        f.store()
            .begin_partition(&place, held.fence, 0)
            .await
            .unwrap()
    );
    assert!(
        !f.take_of(2, batch(&before[2], 0, 1)).await,
        "the old one's reader"
    );
    assert!(f.take_of(2, batch(&held, 0, 1)).await);
    let to_do = f.store().chunks_to_do(&payments(), 10).await.unwrap();
    let numbers: Vec<_> = to_do.iter().map(|to_do| to_do.chunk.number).collect();
    assert_eq!(numbers, [1, 2], "no number is given twice");
    assert_eq!(gone(&f.feed().await), [0_u32; 0]);
}

pub async fn a_partition_that_is_not_listed_for_a_while_keeps_its_position(f: &dyn Fixture) {
    f.three().await;
    f.share_of("a", 2, Some("first")).await;
    // Any other pause.
    f.store().pause_feed("in", ops()).await.unwrap();
    f.store().resume_feed("in", ops()).await.unwrap();
    f.share_of("a", 2, Some("first")).await;
    assert_eq!(gone(&f.feed().await), [0_u32; 0]);
    let held = f.share_of("a", 3, Some("first")).await.held;
    assert_eq!(held[2].position, Some(1));
}

pub async fn only_the_reader_of_a_position_pauses_its_feed_because_of_it(f: &dyn Fixture) {
    let held = f.share_all("a", 1).await.held[0];
    let pause = |fence, position| {
        let partition = partition(0);
        let at = ReadingAt {
            partition,
            fence,
            position,
        };
        let store = f.store();
        async move { store.pause_feed_at(at, ops()).await.unwrap() }
    };
    assert!(!pause(held.fence, Some(0)).await, "it has not begun");
    assert!(pause(held.fence, None).await);
    assert!(!pause(held.fence, None).await, "it is paused");
    assert!(f.store().resume_feed("in", ops()).await.unwrap());

    let place = partition(0);
    let begun = f.store().begin_partition(&place, held.fence, 0).await;
    assert!(begun.unwrap());
    assert!(!pause(held.fence, None).await, "it has begun");
    assert!(f.take(batch(&held, 0, 3)).await);
    assert!(!pause(held.fence, Some(0)).await, "it stands elsewhere");
    f.advance(LONGER).await;
    let heir = f.share_all("b", 1).await.held[0];
    assert!(!pause(held.fence, Some(3)).await, "another one reads it");
    assert_eq!(f.feed().await.paused, None);
    assert!(pause(heir.fence, Some(3)).await);
    let said = f.store().audit(None, 1).await.unwrap();
    assert_eq!(said[0].action, "PAUSE_FEED");
}

pub async fn a_feed_that_no_process_configures_is_forgotten(f: &dyn Fixture) {
    let before = f.three().await;
    let mut dead = batch(&before[0], 0, 4);
    (dead.lines, dead.dead_letters, dead.text) = (0, 4, vec![]);
    assert!(f.take(dead).await);
    let seen = NewSeen { count: 4, mark: 6 };
    let kind = Need::FeedDeadLetters;
    f.store().mark_seen(kind, seen, ops()).await.unwrap();
    let forget = |name: &'static str| async move {
        let forgotten = f.store().forget_feed(name, ops()).await;
        forgotten.unwrap()
    };
    assert_eq!(forget("other").await, Forgotten::Unknown);
    f.store().pause_feed("in", ops()).await.unwrap();
    assert_eq!(forget("in").await, Forgotten::Configured);
    f.advance(Duration::from_secs(61)).await;
    assert_eq!(forget("in").await, Forgotten::Done);
    assert_eq!(forget("in").await, Forgotten::Unknown);
    assert_eq!(f.store().feeds().await.unwrap(), []);
    let said = f.store().audit(None, 1).await.unwrap();
    assert_eq!(said[0].action, "FORGET_FEED");
    let seen = f.worklists().await.seen;
    assert_eq!(
        seen[0].mark, 2,
        "new dead letters of other feeds are not hidden"
    );

    // Configured again: as if it had never run, but what was stopped meanwhile stays out, and chunks go on.
    assert!(!f.take(batch(&before[0], 4, 5)).await);
    let share = f.share_of("a", 3, Some("second")).await;
    assert_eq!((share.paused, share.held.len()), (None, 3));
    assert!(
        share
            .held
            .iter()
            .all(|held| held.position.is_none() && !held.from_first)
    );
    assert!(share.held[2].fence > before[2].fence);
    let begun = f
        .store()
        .begin_partition(&partition(2), share.held[2].fence, 0)
        .await;
    assert!(begun.unwrap());
    assert!(f.take_of(2, batch(&share.held[2], 0, 1)).await);
    let to_do = f.store().chunks_to_do(&payments(), 10).await.unwrap();
    let numbers: Vec<_> = to_do.iter().map(|to_do| to_do.chunk.number).collect();
    assert_eq!(numbers, [1, 2]);
    let records = f
        .feed()
        .await
        .partitions
        .iter()
        .map(|one| one.records)
        .sum::<u64>();
    assert_eq!(records, 1);
}

impl dyn Fixture + '_ {
    async fn share_topic(&self, owner: &str, topic: &str, id: &str) -> Share {
        let wish = PartitionWish {
            topic: topic.into(),
            ..wish(owner, 1, Some(id))
        };
        self.store().share_partitions(wish).await.unwrap()
    }
}

pub async fn a_topic_that_is_created_again_while_another_one_is_configured_pauses_its_feed(
    f: &dyn Fixture,
) {
    let share = |topic: &'static str, id: &'static str| f.share_topic("a", topic, id);
    let held = share("t", "first").await.held[0];
    let place = partition(0);
    let begun = f.store().begin_partition(&place, held.fence, 0).await;
    assert!(begun.unwrap());
    assert!(f.take(batch(&held, 0, 3)).await);
    assert_eq!(share("u", "other").await.paused, None);
    let back = share("t", "first").await;
    assert_eq!((back.paused, back.held[0].position), (None, Some(3)));

    share("u", "other").await;
    let why = share("t", "second").await.paused.unwrap();
    assert!(why.starts_with("topic t was created again"), "{why}");
    assert!(f.store().resume_feed("in", ops()).await.unwrap());
    assert_eq!(share("t", "second").await.paused, None, "accepted");
    share("u", "other").await;
    assert_eq!(share("t", "second").await.paused, None, "it is the same");
    share("u", "other").await;
    assert!(share("t", "third").await.paused.is_some());
}

pub async fn a_topic_that_waits_to_be_the_feeds_is_not_read_if_it_was_created_again(
    f: &dyn Fixture,
) {
    f.share_topic("a", "t", "first").await;
    f.store().leave_feed("in", "a").await.unwrap();
    f.share_topic("a", "u", "other").await;
    // Another process has the configuration of before already.
    assert_eq!(f.share_topic("b", "t", "second").await, Share::default());
    assert_eq!(f.share_topic("b", "t", "first").await.held.len(), 1);
    assert_eq!(f.share_topic("b", "t", "second").await, Share::default());
    assert_eq!(numbers(&f.share_topic("a", "u", "other").await), [0]);
    f.store().leave_feed("in", "a").await.unwrap();
    assert!(f.share_topic("b", "t", "second").await.paused.is_some());
}

/// A person has seen a number of them, which must not become smaller when the topic is corrected.
pub async fn dead_letters_of_all_topics_of_a_feed_are_counted(f: &dyn Fixture) {
    for (topic, number) in [("t", 4), ("u", 1)] {
        let place = PartitionId {
            topic: topic.into(),
            ..partition(0)
        };
        let held = f.share_topic("a", topic, topic).await.held[0];
        let begun = f.store().begin_partition(&place, held.fence, 0).await;
        assert!(begun.unwrap());
        let mut dead = batch(&held, 0, i64::from(number));
        (dead.lines, dead.dead_letters, dead.text) = (0, number, vec![]);
        assert!(f.store().take_records(&place, dead).await.unwrap());
    }
    let feed = f.feed().await;
    assert_eq!((feed.topic.as_str(), feed.dead_letters), ("u", 5));
    assert_eq!(feed.partitions[0].dead_letters, 1);
    let seen = NewSeen { count: 5, mark: 7 };
    let kind = Need::FeedDeadLetters;
    f.store().mark_seen(kind, seen, ops()).await.unwrap();
    f.advance(Duration::from_secs(61)).await;
    let forgotten = f.store().forget_feed("in", ops()).await.unwrap();
    assert_eq!(forgotten, Forgotten::Done);
    assert_eq!(f.worklists().await.seen[0].mark, 2);
}
