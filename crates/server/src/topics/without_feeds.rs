//! Stands in for feeds in a build without the feature `kafka`: a configuration that asks for one is refused.

use std::sync::Arc;

use anyhow::ensure;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_config::Config;
use tollgate_core::ports::{EventSink, Store};
use tollgate_dispatch::Wake;

pub(crate) struct Feeds;

impl Feeds {
    pub(crate) fn connect(config: &Config) -> anyhow::Result<Self> {
        ensure!(
            config.feeds.is_empty(),
            "feeds: this build has no feeds; use a release, or build with the feature \"kafka\""
        );
        Ok(Self)
    }

    pub(crate) fn start(
        self,
        _: &Arc<dyn Store>,
        _: &Wake,
        _: &watch::Receiver<bool>,
        _: &mut JoinSet<()>,
    ) {
    }
}

pub(crate) fn event_sink(config: &Config) -> anyhow::Result<Option<Arc<dyn EventSink>>> {
    ensure!(
        config.events.is_none(),
        "events: this build has no events; use a release, or build with the feature \"kafka\""
    );
    Ok(None)
}
