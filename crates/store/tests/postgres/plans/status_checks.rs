//! The operations about status checks, beside two thousand of them.

use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    Attempts, CallGiven, CallWanted, CheckEnd, EndedParts, PageFrom, PartList, StatusChecks,
};
use tollgate_store::postgres::PostgresStore;

use super::operations::bank;

const CHUNKS: PartList = PartList::Chunks { gateway: 3 };

pub(super) async fn run_all(store: &PostgresStore) {
    call_turn(store).await;
    let check = FlowId::new("new check");
    let body = |n: u32| format!("[\"pay_{n}\"]");
    let lookups = (0..50).map(body).collect();
    assert!(store.open_check(&check, 10_000, lookups).await.unwrap());
    let chunks = (0..500).map(body).collect();
    store.add_parts(&check, CHUNKS, 0, chunks).await.unwrap();
    store.begin_gateways(&check, 1).await.unwrap();
    let parts = store.parts(&check, CHUNKS, 100, 40).await.unwrap();
    assert_eq!(parts.len(), 40);
    let ended = EndedParts {
        list: CHUNKS,
        from: 100,
        to: 101,
        outcome_json: "{}".to_owned(),
        failed: true,
    };
    store.end_parts(&check, ended).await.unwrap();
    store.begin_aggregation(&check).await.unwrap();
    let view = store.check(&check).await.unwrap().unwrap();
    assert_eq!((view.chunks, view.chunks_failed), (500, 1));
    let end = CheckEnd::Completed {
        result_json: "{}".to_owned(),
    };
    store.end_check(&check, end).await.unwrap();
    let known = FlowId::new("payment-check-77");
    assert_eq!(store.check(&known).await.unwrap().unwrap().chunks, 200);
    lists(store, &known).await;
    let forget = async || store.forget_checks(Duration::from_hours(24), 500).await;
    assert_eq!(forget().await.unwrap(), 251, "a whole check");
}

async fn lists(store: &PostgresStore, known: &FlowId) {
    let page = store.checks(PageFrom::Start, 100).await.unwrap();
    assert_eq!(page.items.len(), 100);
    let next = store.checks(page.next.into(), 100).await.unwrap();
    assert_eq!(next.items.len(), 100);
    let back = PageFrom::Before(next.previous.unwrap());
    assert_eq!(store.checks(back, 100).await.unwrap().items.len(), 100);
    let gateways = store.check_gateways(known, Some(4), 100).await.unwrap();
    assert_eq!(gateways.items.len(), 5);
}

/// The lane may have given turns a moment ago.
async fn call_turn(store: &PostgresStore) {
    for _ in 0..100 {
        let wanted = CallWanted {
            lane: bank(),
            lead: Duration::from_millis(5),
            share: Decimal::ONE,
        };
        match store.take_call_turn(wanted).await.unwrap().given {
            CallGiven::At(_) => return,
            CallGiven::AskAgainIn(pause) => tokio::time::sleep(pause).await,
            CallGiven::Closed { why } => panic!("{why}"),
        }
    }
    panic!("no turn for a call");
}
