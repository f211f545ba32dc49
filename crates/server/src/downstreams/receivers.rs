//! The configured receivers of notifications as connectors, and their lanes.

use std::sync::Arc;

use anyhow::{Context, ensure};
use tollgate_config::NotificationsConfig;
use tollgate_core::actor;
use tollgate_core::id::check_item_id;
use tollgate_core::ports::{Author, Connector, Store};
use tollgate_dispatch::{Gate, Sender};
use tollgate_domains::notifications::{self, Notifications, Receiver};
use tollgate_downstream::{Access, Signer, WebhookConnector, WebhookOptions};

const URLS: &str = "downstream.notifications.urls";

#[derive(Debug)]
pub(crate) struct Receivers {
    all: Vec<WebhookConnector>,
}

impl Receivers {
    /// Reads the secret and certificates; connects to nothing yet.
    pub(crate) fn connect(config: &NotificationsConfig) -> anyhow::Result<Self> {
        if config.urls.is_empty() {
            return Ok(Self { all: vec![] });
        }
        let secret = config.secret.value();
        let signer = secret
            .and_then(|secret| Signer::parse(&secret))
            .map_err(|why| anyhow::anyhow!("downstream.notifications.secret: {why}"))?;
        let mut all: Vec<WebhookConnector> = vec![];
        for url in &config.urls {
            let receiver = connect(config, url, &signer)?;
            let twice = all.iter().any(|other| other.place() == receiver.place());
            ensure!(
                !twice,
                "{URLS}: {} is listed twice; remove one of them",
                receiver.place()
            );
            all.push(receiver);
        }
        Ok(Self { all })
    }

    /// As the payments know them.
    pub(crate) fn named(&self) -> Vec<Receiver> {
        let named = |it: &WebhookConnector| Receiver {
            place: it.place().to_owned(),
            lane: it.lane().clone(),
        };
        self.all.iter().map(named).collect()
    }

    /// Creates the lanes that do not exist yet; what an operator has changed stays.
    pub(crate) async fn create_lanes(&self, store: &dyn Store) -> anyhow::Result<()> {
        for receiver in &self.all {
            if store.lane(receiver.lane()).await?.is_none() {
                let author = Author::new(actor::TOLLGATE, "a new receiver of notifications");
                let lane = notifications::default_lane();
                store.change_lane(receiver.lane(), lane, author).await?;
            }
        }
        Ok(())
    }

    /// The domain's view of them.
    pub(crate) fn world(self, store: &Arc<dyn Store>, gate: &Arc<Gate>) -> Notifications {
        let sender = |it: WebhookConnector| {
            let place = it.place().to_owned();
            let sender = Sender::new(Arc::clone(store), Arc::clone(gate), Arc::new(it));
            (place, sender.with_pauses(notifications::PAUSES))
        };
        Notifications {
            store: Arc::clone(store),
            receivers: self.all.into_iter().map(sender).collect(),
        }
    }
}

fn connect(
    config: &NotificationsConfig,
    url: &str,
    signer: &Signer,
) -> anyhow::Result<WebhookConnector> {
    let options = WebhookOptions {
        url: url.to_owned(),
        signer: signer.clone(),
    };
    // Of use for those with https; if there is none, that is worth an error.
    let encrypted = |url: &String| url.to_lowercase().starts_with("https:");
    let roots = config.root_certificates.clone();
    let roots = roots.filter(|_| encrypted(&options.url) || !config.urls.iter().any(encrypted));
    let access = Access::trusting(roots);
    let receiver = WebhookConnector::with_access(options, &access, notifications::lane_of)
        .map_err(|why| anyhow::anyhow!("{URLS}: {why}"))?;
    check_item_id(receiver.lane().as_str())
        .map_err(|why| anyhow::anyhow!("it {why}"))
        .with_context(|| format!("{URLS}: the host of {url:?} cannot be part of a lane's name"))?;
    Ok(receiver)
}
