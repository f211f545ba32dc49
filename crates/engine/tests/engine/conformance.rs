//! The engine's shared cases, with the flows' memory in a real SQLite store.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

use std::sync::Arc;

use tollgate_conformance::cases::cases;
use tollgate_conformance::sample::{self, World};
use tollgate_engine::{Builder, EmbeddedEngine, Options};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises() {
    keeps_its_promises(Options::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises_with_room_for_one_flow() {
    let narrow = Options {
        max_running: 1,
        max_live: 1,
        ..Options::default()
    };
    keeps_its_promises(narrow).await;
}

async fn keeps_its_promises(options: Options) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::at(folder.path().join("t.db"))).unwrap();
    let world = Arc::new(World::default());
    let mut builder = Builder::new();
    sample::register(&mut builder, &world);
    let engine = EmbeddedEngine::start(Arc::new(store), builder, options)
        .await
        .unwrap();
    cases(&engine.handle(), &world, "sample", "embedded").await;
    engine.shutdown().await;
}
