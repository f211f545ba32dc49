//! `StoreHealth`: whether the store can be used.

use super::fixture::Fixture;

pub async fn a_store_that_can_be_written_says_so_and_counts_its_connections(f: &dyn Fixture) {
    let store = f.store();
    for _ in 0..3 {
        store.try_write().await.unwrap();
    }
    let connections = store.connections();
    assert!(connections.most > 1, "{connections:?}");
    assert!(connections.in_use <= connections.most, "{connections:?}");
    assert_eq!(connections.waiting, 0, "{connections:?}");
    let broken = tokio::time::timeout(std::time::Duration::ZERO, store.broken());
    assert!(broken.await.is_err(), "a sound store is not given up");
}
