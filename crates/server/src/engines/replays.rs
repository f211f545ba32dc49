//! Recorded histories of every flow, replayed. A test that fails here says that flows which are
//! under way during an upgrade would break: put the steps back in their order, or drain first, delete
//! the history and record it anew, as for a new flow (CONTRIBUTING, "A new flow").

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tollgate_config::Config;
use tollgate_dispatch::Dispatchers;
use tollgate_temporal::Replay;

use crate::assemble::{Tollgate, register};

const RECORD: &str = "TGTEST_WRITE=1 cargo test -p tollgate-cli on_temporal";

/// All flows that a process on Temporal registers.
async fn all_flows(folder: &Path) -> Replay {
    let mut config = Config::load(None).unwrap();
    config.store.url = format!("sqlite:{}", folder.join("t.db").display());
    let tollgate = Tollgate::start(&config).await.unwrap();
    let mut replay = Replay::default();
    register(&mut replay, &tollgate.worlds);
    let (_stop, stopped) = watch::channel(false);
    Dispatchers::register(&mut replay, &Arc::new(Dispatchers::new([], stopped)));
    tollgate.shutdown().await;
    replay
}

/// By the flow: a file is named after it, and after what is special about it.
fn histories() -> BTreeMap<String, Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../temporal/tests/temporal/histories");
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let flow = name.split('-').next().unwrap_or_default().to_owned();
        found.entry(flow).or_default().push(path);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flow_has_a_recorded_history_and_still_goes_that_way() {
    let folder = tempfile::tempdir().unwrap();
    let replay = Box::pin(all_flows(folder.path())).await;
    let histories = histories();
    let recorded: BTreeSet<&str> = histories.keys().map(String::as_str).collect();
    let missing: Vec<_> = replay.names().difference(&recorded).collect();
    assert!(missing.is_empty(), "no history of {missing:?}: {RECORD}");
    let unknown: Vec<_> = recorded.difference(replay.names()).collect();
    assert!(unknown.is_empty(), "there is no flow {unknown:?} any more");
    for (flow, path) in histories
        .iter()
        .flat_map(|(flow, all)| all.iter().map(move |it| (flow, it)))
    {
        let history = std::fs::read(path).unwrap();
        let of_this_flow = format!("\"name\": \"{flow}\"");
        assert!(
            String::from_utf8_lossy(&history).contains(&of_this_flow),
            "{path:?}: not of {flow}"
        );
        let replayed = replay.replay(&history).await;
        replayed.unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
    }
}
