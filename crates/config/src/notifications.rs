//! Who is told what becomes of payments: `[downstream.notifications]`.

use std::path::PathBuf;

use anyhow::ensure;
use serde::Deserialize;
use tollgate_core::id::LaneName;
use tollgate_domains::notifications::{Event, FURTHER_EVENTS, MAX_RECEIVERS, lane_of};

use super::secret::Secret;

pub(super) const KEY: &str = "downstream.notifications";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notifications {
    pub urls: Vec<String>,
    /// Besides the two that are always sent.
    pub events: Vec<String>,
    pub secret: Secret,
    pub root_certificates: Option<PathBuf>,
}

impl Notifications {
    pub(super) fn validate<'a>(
        &self,
        banks_lanes: impl Iterator<Item = &'a LaneName>,
    ) -> anyhow::Result<()> {
        ensure!(
            self.urls.len() <= MAX_RECEIVERS,
            "{KEY}.urls: {} URLs are too many; at most {MAX_RECEIVERS} are allowed",
            self.urls.len()
        );
        ensure!(
            self.urls.is_empty() || !self.secret.is_empty(),
            "{KEY}.secret is missing: receivers need it to verify webhooks; set \"env:NAME\" or \"file:PATH\" of a whsec_ secret"
        );
        for event in &self.events {
            let is_always_sent = Event::ALL.iter().any(|always| always.name() == event);
            ensure!(
                !is_always_sent,
                "{KEY}.events: {event} is always sent; remove it"
            );
            ensure!(
                FURTHER_EVENTS.contains(&event.as_str()),
                "{KEY}.events: unknown event {event:?}; known: {}",
                FURTHER_EVENTS.join(", ")
            );
        }
        let reserved = lane_of("");
        for lane in banks_lanes {
            ensure!(
                self.urls.is_empty() || !lane.as_str().starts_with(reserved.as_str()),
                "{KEY}: {lane} is the lane of a bank, but lanes that begin with {reserved} are reserved for webhooks; choose another lane for the bank"
            );
        }
        Ok(())
    }

    /// Nobody is told.
    pub(super) fn silence(&mut self) {
        self.urls.clear();
        self.events.clear();
        self.secret = Secret::default();
        self.root_certificates = None;
    }

    /// Only this receiver is told.
    pub(super) fn tell(&mut self, url: &str, secret: &str) {
        self.silence();
        self.urls.push(url.to_owned());
        self.secret = Secret::literal(secret);
    }
}
