//! The operations about feeds.

use std::time::Duration;

use tollgate_core::ports::{
    Author, Bulks, ChunkEnd, ChunkId, FeedBatch, Feeds, Forgotten, LineError, PartitionId,
    PartitionWish, ReadingAt, Sought,
};
use tollgate_store::postgres::PostgresStore;

use crate::trouble::payments;

fn partition() -> PartitionId {
    PartitionId {
        feed: "in".into(),
        topic: "t".into(),
        number: 0,
    }
}

fn wish(owner: &str) -> PartitionWish {
    PartitionWish {
        feed: "in".into(),
        topic: "t".into(),
        owner: owner.into(),
        topic_id: Some("id".into()),
        partitions: vec![0, 1],
        log_ends: vec![(0, 9), (1, 9)],
        lease: Duration::from_mins(1),
    }
}

pub(super) async fn run_all(store: &PostgresStore) {
    reading(store).await;
    pausing(store).await;
    store.leave_feed("in", "a").await.unwrap();
}

async fn reading(store: &PostgresStore) {
    let partition = partition();
    let held = store.share_partitions(wish("a")).await.unwrap().held;
    store.share_partitions(wish("b")).await.unwrap();
    // It has another topic, which the first two do not read yet.
    let other = PartitionWish {
        topic: "u".into(),
        ..wish("c")
    };
    store.share_partitions(other).await.unwrap();
    store.leave_feed("in", "c").await.unwrap();
    // One is given back.
    store.share_partitions(wish("a")).await.unwrap();
    let fence = held[0].fence;
    assert!(store.begin_partition(&partition, fence, 0).await.unwrap());
    let batch = FeedBatch {
        item_type: payments(),
        fence,
        from: 0,
        next: 2,
        lines: 2,
        text: b"lines".to_vec(),
        dead_letters: 0,
        answers: true,
        log_end: 2,
    };
    assert!(store.take_records(&partition, batch).await.unwrap());
    assert_eq!(store.chunks_waiting(&partition).await.unwrap().chunks, 1);
    let chunk = ChunkId {
        bulk: partition.bulk(),
        number: 1,
    };
    let rejected = LineError {
        line: 1,
        id: None,
        details: [("amount".to_owned(), "is wrong".to_owned())].into(),
        text: None,
    };
    let end = ChunkEnd {
        rejected: vec![rejected],
        ..ChunkEnd::default()
    };
    assert!(store.finish_chunk(&chunk, end).await.unwrap());
    assert_eq!(store.unanswered(&partition, 10).await.unwrap().len(), 1);
    store.answered(&partition, vec![1]).await.unwrap();
}

async fn pausing(store: &PostgresStore) {
    let partition = partition();
    store
        .note_trouble("in", Some("no broker".into()))
        .await
        .unwrap();
    let author = || Author::new("ops", "because");
    let elsewhere = ReadingAt {
        partition: partition.clone(),
        fence: 0,
        position: None,
    };
    assert!(!store.pause_feed_at(elsewhere, author()).await.unwrap());
    assert!(store.pause_feed("in", author()).await.unwrap());
    let sought = store.seek_feed(&partition, 0, author()).await.unwrap();
    assert_eq!(sought, Sought::Moved(Some(2)));
    assert!(store.resume_feed("in", author()).await.unwrap());
    let another = PartitionWish {
        topic_id: Some("another".into()),
        ..wish("a")
    };
    assert!(
        store
            .share_partitions(another)
            .await
            .unwrap()
            .paused
            .is_some()
    );
    assert!(store.resume_feed("in", author()).await.unwrap());
    let smaller = PartitionWish {
        topic_id: Some("another".into()),
        partitions: vec![0],
        ..wish("a")
    };
    assert_eq!(store.share_partitions(smaller).await.unwrap().paused, None);
    let lost = PartitionWish {
        partitions: vec![],
        ..wish("a")
    };
    assert_eq!(store.share_partitions(lost).await.unwrap().held, []);
    let configured = store.forget_feed("in", author()).await.unwrap();
    assert_eq!(configured, Forgotten::Configured);
    let retired = store.forget_feed("retired", author()).await.unwrap();
    assert_eq!(retired, Forgotten::Done);
    assert_eq!(
        store.feeds().await.unwrap().len(),
        2,
        "the planted one, too"
    );
}
