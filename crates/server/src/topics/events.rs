//! Events as configured: turned on in the store at the start, and relayed by one process at a time, to a topic and to
//! receivers of webhooks that ask for more than two events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_config::Config;
use tollgate_core::actor;
use tollgate_core::ports::{Author, EventSink, Store};
use tollgate_core::shared_settings;
use tollgate_dispatch::{EventRelay, OnMoves, Outlets};
use tollgate_domains::notifications::{FurtherNews, Receiver};

use crate::topics::feeds;

/// Where events go, connected to nobody yet.
pub(crate) struct Events {
    sink: Option<Arc<dyn EventSink>>,
    source: String,
    settings: String,
    /// What receivers of webhooks ask for.
    further: BTreeSet<String>,
}

impl Events {
    /// Reads secrets and certificates, once.
    pub(crate) fn connect(config: &Config) -> anyhow::Result<Self> {
        let notifications = &config.downstream.notifications;
        let has_receivers = !notifications.urls.is_empty();
        let further = notifications.events.iter().filter(|_| has_receivers);
        let source = config.events.as_ref().map(|text| text.source.clone());
        let further: BTreeSet<String> = further.cloned().collect();
        Ok(Self {
            settings: settings(config, &further),
            sink: feeds::event_sink(config)?,
            source: source.unwrap_or_default(),
            further,
        })
    }

    fn go_nowhere(&self) -> bool {
        self.sink.is_none() && self.further.is_empty()
    }

    /// Before anything moves. A store whose events are on stays so: other processes may publish them.
    pub(crate) async fn turn_on(&self, store: &dyn Store) -> anyhow::Result<()> {
        if self.go_nowhere() {
            return Ok(());
        }
        let author = Author::new(actor::CONFIGURATION, "events are configured");
        let turned = store.turn_events_on(author).await;
        let is_new = turned.context("events cannot be turned on")?;
        if is_new {
            tracing::info!("events are on: every move of an item is published from now on");
        }
        Ok(())
    }

    pub(crate) fn start(
        self,
        store: &Arc<dyn Store>,
        receivers: &[Receiver],
        stopped: &watch::Receiver<bool>,
        background: &mut JoinSet<()>,
    ) {
        if self.go_nowhere() {
            return;
        }
        let further = (!self.further.is_empty()).then(|| FurtherNews {
            store: Arc::clone(store),
            receivers: receivers.to_vec(),
            wanted: self.further,
        });
        let outlets = Outlets {
            sink: self.sink,
            listener: further.map(|further| Arc::new(further) as Arc<dyn OnMoves>),
            source: self.source,
            settings: self.settings,
        };
        let owner = uuid::Uuid::new_v4().simple().to_string();
        let relay = EventRelay::new(Arc::clone(store), outlets, owner);
        background.spawn(relay.run(stopped.clone()));
    }
}

/// What all processes that publish must share.
fn settings(config: &Config, further: &BTreeSet<String>) -> String {
    let list = |words: &mut dyn Iterator<Item = &String>| {
        let words: BTreeSet<&str> = words.map(String::as_str).collect();
        format!("{words:?}")
    };
    let nowhere = || "none".to_owned();
    let events = config.events.as_ref();
    let settings = BTreeMap::from([
        (
            "events.topic",
            events.map_or_else(nowhere, |it| it.topic.clone()),
        ),
        (
            "events.brokers",
            events.map_or_else(nowhere, |it| list(&mut it.brokers.iter())),
        ),
        (
            "events.source",
            events.map_or_else(nowhere, |it| it.source.clone()),
        ),
        ("downstream.notifications.events", list(&mut further.iter())),
    ]);
    shared_settings::text(&settings)
}
