//! `Feeds`: rejected records are kept with the lines of imports, answered, and deleted by their age.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::ports::{BulkState, ChunkEnd, ChunkId, Forgotten, LineError, Old, Sought};

use super::feeds::{LONGER, batch, partition};
use super::fixture::{Fixture, SECOND, ops};

fn rejected(line: u64) -> LineError {
    LineError {
        line,
        id: Some(format!("p{line}")),
        details: BTreeMap::from([("amount".to_owned(), "is wrong".to_owned())]),
        text: None,
    }
}

pub async fn rejected_records_are_answered_once_each_and_judged_again_when_read_again(
    f: &dyn Fixture,
) {
    let held = f.begun("a").await;
    let mut first = batch(&held, 0, 3);
    first.answers = true;
    assert!(f.take(first).await);
    let store = f.store();
    let end = ChunkEnd {
        rejected: vec![rejected(1), rejected(3)],
        duplicate: 1,
        ..ChunkEnd::default()
    };
    let chunk = |number| ChunkId {
        bulk: partition(0).bulk(),
        number,
    };
    assert!(store.finish_chunk(&chunk(1), end.clone()).await.unwrap());
    let lines = |limit| {
        let store = f.store();
        async move {
            let found = store.unanswered(&partition(0), limit).await.unwrap();
            found.iter().map(|error| error.line).collect::<Vec<_>>()
        }
    };
    assert_eq!(lines(1).await, [1]);
    assert_eq!(lines(9).await, [1, 3]);
    store.answered(&partition(0), vec![1]).await.unwrap();
    assert_eq!(lines(9).await, [3]);
    let bulk = store.bulk(&partition(0).bulk()).await.unwrap().unwrap();
    assert_eq!(bulk.state, BulkState::Done);

    // More records: it runs again. A record that is read again has its last verdict.
    let mut more = batch(&held, 3, 6);
    more.answers = true;
    assert!(f.take(more).await);
    let bulk = store.bulk(&partition(0).bulk()).await.unwrap().unwrap();
    assert_eq!(
        (bulk.state, bulk.lines, bulk.ended_at),
        (BulkState::Running, 6, None)
    );
    assert!(store.finish_chunk(&chunk(2), end).await.unwrap());
    assert_eq!(lines(9).await, [1, 3]);
}

/// They were rejected, and are accepted after a person has put something right and moved the position back.
pub async fn records_that_are_read_again_have_their_last_verdict_only(f: &dyn Fixture) {
    let (store, bulk) = (f.store(), partition(0).bulk());
    let take = async |held, from, next| {
        let mut records = batch(&held, from, next);
        records.answers = true;
        assert!(f.take(records).await);
    };
    let chunk = |number| ChunkId {
        bulk: bulk.clone(),
        number,
    };
    let end = |lines: &[u64]| ChunkEnd {
        rejected: lines.iter().copied().map(rejected).collect(),
        ..ChunkEnd::default()
    };
    let unanswered = async || {
        let found = f.store().unanswered(&partition(0), 9).await.unwrap();
        found.iter().map(|error| error.line).collect::<Vec<_>>()
    };
    let listed = async || {
        let found = f.store().bulk_errors(&bulk, 0, 9).await.unwrap();
        found.iter().map(|error| error.line).collect::<Vec<_>>()
    };
    let seek = async |position| {
        f.store().pause_feed("in", ops()).await.unwrap();
        let sought = f.store().seek_feed(&partition(0), position, ops()).await;
        assert!(matches!(sought.unwrap(), Sought::Moved(_)));
        f.store().resume_feed("in", ops()).await.unwrap();
    };
    let held = f.begun("a").await;
    take(held, 0, 4).await;
    let all = end(&[1, 2, 3, 4]);
    assert!(store.finish_chunk(&chunk(1), all).await.unwrap());
    assert_eq!(unanswered().await, [1, 2, 3, 4]);

    seek(1).await;
    assert_eq!(unanswered().await, [1], "the others are judged again");
    seek(4).await;
    assert_eq!(unanswered().await, [1, 2, 3, 4], "they are not");
    seek(1).await;
    let held = f.share_all("a", 1).await.held[0];
    take(held, 1, 3).await;
    assert_eq!((unanswered().await, listed().await), (vec![1], vec![1, 4]));
    assert!(store.finish_chunk(&chunk(2), end(&[3])).await.unwrap());
    assert_eq!(unanswered().await, [1, 3]);
    // What was a line before is a dead letter now.
    let mut dead = batch(&held, 3, 4);
    (dead.lines, dead.dead_letters, dead.text) = (0, 1, vec![]);
    assert!(f.take(dead).await);
    assert_eq!(
        (unanswered().await, listed().await),
        (vec![1, 3], vec![1, 3])
    );
}

pub async fn rejected_records_are_deleted_by_their_age_once_they_need_no_answer(f: &dyn Fixture) {
    let held = f.begun("a").await;
    let (store, bulk) = (f.store(), partition(0).bulk());
    let end = |lines: [u64; 2]| ChunkEnd {
        rejected: lines.map(rejected).to_vec(),
        duplicate: 1,
        ..ChunkEnd::default()
    };
    let chunk = |number| ChunkId {
        bulk: bulk.clone(),
        number,
    };
    // Records of a feed that answers, then of one that does not.
    for (number, answers) in [(1, true), (2, false)] {
        let from = 3 * (i64::from(number) - 1);
        let mut records = batch(&held, from, from + 3);
        records.answers = answers;
        assert!(f.take(records).await);
        let line = from.unsigned_abs() + 1;
        let (chunk, end) = (chunk(number), end([line, line + 1]));
        assert!(store.finish_chunk(&chunk, end).await.unwrap());
    }
    f.advance(SECOND).await;
    let left = async |before| {
        while store.forget_old(Old::Imports, before, 1).await.unwrap() > 0 {}
        let left = store.bulk_errors(&bulk, 0, 10).await.unwrap();
        left.iter().map(|it| it.line).collect::<Vec<_>>()
    };
    assert_eq!(left(f.now().await - LONGER).await, [1, 2, 4, 5]);
    assert_eq!(left(f.now().await).await, [1, 2], "they are to be answered");
    let before = f.now().await;
    store.answered(&partition(0), vec![1]).await.unwrap();
    assert_eq!(left(before).await, [1, 2], "its age begins here");
    f.advance(SECOND).await;
    assert_eq!(left(f.now().await).await, [2]);
}

pub async fn rejected_records_of_a_forgotten_feed_are_deleted_by_their_age(f: &dyn Fixture) {
    let held = f.begun("a").await;
    let (store, bulk) = (f.store(), partition(0).bulk());
    let mut records = batch(&held, 0, 3);
    records.answers = true;
    assert!(f.take(records).await);
    let end = ChunkEnd {
        rejected: vec![rejected(1)],
        duplicate: 2,
        ..ChunkEnd::default()
    };
    let chunk = ChunkId {
        bulk: bulk.clone(),
        number: 1,
    };
    assert!(store.finish_chunk(&chunk, end).await.unwrap());
    store.pause_feed("in", ops()).await.unwrap();
    f.advance(Duration::from_secs(61)).await;
    let before = f.now().await;
    let forgotten = store.forget_feed("in", ops()).await.unwrap();
    assert_eq!(forgotten, Forgotten::Done);
    let left = async || store.bulk_errors(&bulk, 0, 10).await.unwrap().len();
    let delete = async |before| {
        while store.forget_old(Old::Imports, before, 1).await.unwrap() > 0 {}
    };
    delete(before).await;
    assert_eq!(left().await, 1, "its age begins here");
    f.advance(SECOND).await;
    delete(f.now().await).await;
    assert_eq!(left().await, 0);
}
