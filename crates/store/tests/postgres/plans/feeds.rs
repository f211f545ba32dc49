//! The operations about feeds.

use std::time::Duration;

use tollgate_core::ports::{
    Author, Bulks, ChunkEnd, ChunkId, FeedBatch, Feeds, LineError, PartitionId, PartitionWish,
    Sought,
};
use tollgate_store::postgres::PostgresStore;

use crate::trouble::payments;

pub(super) async fn run_all(store: &PostgresStore) {
    let partition = PartitionId {
        feed: "in".into(),
        topic: "t".into(),
        number: 0,
    };
    let wish = |owner: &str| PartitionWish {
        feed: "in".into(),
        topic: "t".into(),
        owner: owner.into(),
        topic_id: Some("id".into()),
        partitions: vec![0, 1],
        log_ends: vec![(0, 9), (1, 9)],
        lease: Duration::from_mins(1),
    };
    let held = store.share_partitions(wish("a")).await.unwrap().held;
    store.share_partitions(wish("b")).await.unwrap();
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
    assert_eq!(store.chunks_waiting(&partition).await.unwrap(), 1);
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
    store
        .note_trouble("in", Some("no broker".into()))
        .await
        .unwrap();
    let author = || Author::new("ops", "because");
    assert!(store.pause_feed("in", author()).await.unwrap());
    let sought = store.seek_feed(&partition, 0, author()).await.unwrap();
    assert_eq!(sought, Sought::Moved(Some(2)));
    assert!(store.resume_feed("in", author()).await.unwrap());
    assert_eq!(
        store.feeds().await.unwrap().len(),
        2,
        "the planted one, too"
    );
    store.leave_feed("in", "a").await.unwrap();
}
