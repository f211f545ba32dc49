//! The matrix: every fault of the bank, at every edge where the sender can die, with keys
//! honoured and not.

use tokio::task::JoinSet;

use crate::cutting::{Edge, SURE};
use crate::money::Street;

/// About as many waits as a life has: it is cut at each, and sometimes it has ended before.
const WAITS: usize = 10;

/// What strikes each payment's first sends, and what its first probes.
const FAULTS: [&str; 19] = [
    "",
    "all: latency 20ms",
    "send 1 of each payment: 500 before",
    "send 1 of each payment: 500 after",
    "send 1 of each payment: reset before",
    "send 1 of each payment: reset after",
    "send 1 of each payment: stall before",
    "send 1 of each payment: stall after",
    "send 1 of each payment: half after",
    "send 1 of each payment: garbage after",
    "send 1 of each payment: wrong-id after",
    "send 1 of each payment: wrong-id before",
    "send 1 of each payment: huge 2 after",
    "send 1 of each payment: 429",
    "send 1 of each payment: 429 retry-after 3",
    "send 1 of each payment: 401",
    "send 1 of each payment: reset after; send 2 of each payment: 409",
    "send 1 of each payment: reset after; probe 1 of each payment: 404",
    "send 1 of each payment: reset after; probe 1 of each payment: reset; send 2 of each payment: 429",
];

async fn every_edge(faults: &'static str, honours_keys: bool) {
    let street = Street::new(faults, honours_keys).await;
    let edges = SURE.into_iter().chain((0..WAITS).map(Edge::Wait));
    for (n, edge) in edges.chain([Edge::Never]).enumerate() {
        let prefix = format!("c{n}-");
        street.town.admit(&prefix, "default", 1).await;
        let id = format!("{prefix}0");
        let case = format!("\"{faults}\", keys honoured: {honours_keys}, {edge:?}");
        let was_cut = street.pay(&id, edge).await;
        assert!(was_cut || !SURE.contains(&edge), "{case}: not cut");
        street.repeat(&id).await;
        let wrong = street.check(&id).await;
        assert_eq!(wrong, Vec::<String>::new(), "{case}");
        let status = street.town.item(&id).await.status;
        assert_ne!(status, "IN_DOUBT", "{case}: the bank has recovered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_the_bank_does_and_wherever_the_sender_dies_a_payment_is_paid_once() {
    for honours_keys in [true, false] {
        let mut streets = JoinSet::new();
        for faults in FAULTS {
            streets.spawn(every_edge(faults, honours_keys));
        }
        streets.join_all().await;
    }
}
