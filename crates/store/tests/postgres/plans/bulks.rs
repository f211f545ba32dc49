//! The operations about files of items, beside a hundred thousand of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::ports::{
    BulkOrigin, BulkSum, Bulks, ChunkEnd, ChunkId, Closed, LineError, NewChunk, PageFrom,
};
use tollgate_store::postgres::PostgresStore;

use crate::trouble::payments;

const CHUNKS: u32 = 4;
const LINES: u32 = 1000;

pub(super) async fn run_all(store: &PostgresStore) {
    let bulk = upload(store, "c1", "new key").await;
    for number in 1..=CHUNKS {
        let chunk = ChunkId {
            bulk: bulk.clone(),
            number,
        };
        assert!(store.chunk(&chunk).await.unwrap().is_some());
        let failed = store.chunk_failed(&chunk, "no").await.unwrap();
        assert_eq!(failed, Some(1));
        store.chunks_before(&chunk).await.unwrap();
        store.hold_chunk(&chunk).await.unwrap();
        assert!(store.finish_chunk(&chunk, end(number)).await.unwrap());
    }
    store.order_lost(&bulk).await.unwrap();
    let view = store.bulk(&bulk).await.unwrap().unwrap();
    assert_eq!(view.rejected, u64::from(CHUNKS * LINES));
    let errors = store.bulk_errors(&bulk, 500, LINES).await.unwrap();
    assert_eq!(errors.len(), LINES as usize);
    let known = BulkId::new("b1000077");
    assert!(store.bulk(&known).await.unwrap().is_some());
    let by_key = store.bulk_by_key(&payments(), "key-77").await.unwrap();
    assert_eq!(by_key.map(|known| known.bulk), Some(known));
    let (kind, later) = (payments(), BulkId::new("b1000078"));
    let since = store.bulk_since(&kind, &later, 1000).await.unwrap();
    assert!(since.same_before.is_some());
    assert_eq!(store.bulks_running(&payments()).await.unwrap(), 20);
    let page = store
        .bulks(&payments(), PageFrom::Start, 100)
        .await
        .unwrap();
    let next = store
        .bulks(&payments(), page.next.into(), 100)
        .await
        .unwrap();
    assert_eq!((page.items.len(), next.items.len()), (100, 100));
    let back = PageFrom::Before(next.previous.unwrap());
    let page = store.bulks(&payments(), back, 100).await.unwrap();
    assert_eq!(page.items.len(), 100);
    let to_do = store.chunks_to_do(&payments(), 8).await.unwrap();
    assert_eq!(to_do.len(), 8);

    let second = BulkId::new("c2");
    assert!(store.open_bulk(&second, &payments()).await.unwrap());
    let closed = store.close_bulk(&second, Some("key-77".into()), "d".into());
    assert!(matches!(closed.await.unwrap(), Closed::Known(_)));
    store.drop_upload(&second).await.unwrap();
    // Less than one file has, and more.
    for most in [64, 600] {
        let swept = store.sweep_uploads(Duration::from_hours(1), most).await;
        assert_eq!(swept.unwrap(), u64::from(most));
    }
}

async fn upload(store: &PostgresStore, name: &str, key: &str) -> BulkId {
    let bulk = BulkId::new(name);
    assert!(store.open_bulk(&bulk, &payments()).await.unwrap());
    store.name_bulk(&bulk, BulkOrigin::default()).await.unwrap();
    for number in 1..=CHUNKS {
        let chunk = NewChunk {
            number,
            lines: LINES,
            text: vec![b'x'; 300_000],
        };
        assert!(store.add_chunk(&bulk, chunk).await.unwrap());
    }
    let closed = store.close_bulk(&bulk, Some(key.into()), "d".into()).await;
    assert_eq!(closed.unwrap(), Closed::Running);
    bulk
}

fn end(number: u32) -> ChunkEnd {
    let error = |line: u32| LineError {
        line: line.into(),
        id: Some("p".into()),
        details: BTreeMap::new(),
        text: None,
    };
    let from = number * LINES;
    ChunkEnd {
        sums: vec![BulkSum {
            lane: LaneName::new("bank"),
            currency: "USD".into(),
            accepted: 1,
            amount_minor: 1,
            met: 0,
            missed: 0,
            first_slot: Timestamp::UNIX_EPOCH,
            last_slot: Timestamp::UNIX_EPOCH,
            deadlines: None,
        }],
        duplicate: 0,
        rejected: (from..from + LINES).map(error).collect(),
    }
}
