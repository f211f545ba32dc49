//! Connectors whose refusals are counted: what is configured about it, and by what the store knows one
//! configuration from the next.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_config::NamedBank;
use tollgate_core::actor;
use tollgate_core::id::{LaneName, WatchId};
use tollgate_core::ports::{
    Author, NamedSetting, NewWatch, SettingKind, Store, StoreError, StoreResult,
};
use tollgate_core::storm::Limits;
use tollgate_dispatch::{Gate, Sender};
use tollgate_downstream::{Description, HttpConnector};

/// This many digits of the hash tell configurations apart: 64 bits.
const DIGITS: usize = 16;
/// How many descriptions are read at a time.
const PAGE: u32 = 100;

#[derive(Debug)]
pub(crate) struct Watch {
    new: NewWatch,
    remembers_refusals: bool,
}

impl Watch {
    /// Reads the secrets: another token is another configuration.
    pub(crate) fn of(named: &NamedBank) -> anyhow::Result<Self> {
        let NamedBank {
            key,
            name,
            bank,
            description,
        } = named;
        let mut hash = Sha256::new();
        hash.update(format!("{bank:?}"));
        hash.update(description.text());
        for (header, secret) in &bank.headers {
            let value = secret.value();
            let value = value.map_err(|why| anyhow::anyhow!("{key}.headers.{header}: {why}"))?;
            hash.update(value);
        }
        let digest: String = hex::encode(hash.finalize()).chars().take(DIGITS).collect();
        Ok(Self {
            new: NewWatch {
                lane: LaneName::new(bank.lane.as_str()),
                connector: name.clone(),
                digest,
                limits: Limits {
                    canary: bank.canary,
                    streak: bank.streak,
                },
            },
            remembers_refusals: bank.remembers_refusals,
        })
    }

    /// The sender of this connector. A configuration that is new begins with a canary.
    pub(crate) async fn sender(
        self,
        store: &Arc<dyn Store>,
        gate: &Arc<Gate>,
        connector: HttpConnector,
    ) -> StoreResult<Sender> {
        let watch = store.watch(self.new).await?;
        let connector = knowing(store, watch, connector).await?;
        let sender = Sender::new(Arc::clone(store), Arc::clone(gate), Arc::new(connector));
        let sender = sender.watched(watch);
        Ok(if self.remembers_refusals {
            sender
        } else {
            sender.forgetting_refusals()
        })
    }
}

/// Keeps by which description this configuration sends, before it sends anything, and finds by which the earlier
/// ones did. One that cannot be read any more is left out: what it has sent is then only asked about.
async fn knowing(
    store: &Arc<dyn Store>,
    watch: WatchId,
    connector: HttpConnector,
) -> StoreResult<HttpConnector> {
    let (kind, name) = (SettingKind::Description, watch.0.to_string());
    if store.setting(kind, &name).await?.is_none() {
        let text = connector.description().text();
        let body = serde_json::json!({ "text": text }).to_string();
        let author = Author::new(actor::TOLLGATE, "a new configuration of a bank");
        store.put_setting(kind, &name, body, author).await?;
    }
    let (mut known, mut after) = (vec![], None::<String>);
    loop {
        let page = store.settings(kind, after.as_deref(), PAGE).await?;
        known.extend(page.items.iter().filter_map(described));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    connector.knowing(known).map_err(StoreError::Bug)
}

fn described(named: &NamedSetting) -> Option<(WatchId, Description)> {
    let body: serde_json::Value = serde_json::from_str(&named.setting.body_json).ok()?;
    let description = Description::read(body["text"].as_str()?).ok()?;
    Some((WatchId(named.name.parse().ok()?), description))
}

#[cfg(test)]
mod tests {
    use tollgate_config::Config;

    use super::*;

    #[test]
    fn every_change_of_a_bank_is_another_configuration() {
        let named = || {
            let config = Config::load(None).unwrap();
            config.downstream.banks().unwrap().remove(0)
        };
        let digest = |named: &NamedBank| Watch::of(named).unwrap().new.digest;
        let before = digest(&named());
        assert_eq!(digest(&named()), before, "read again");
        let mut path = named();
        path.bank.url.push_str("/v2");
        let mut limit = named();
        limit.bank.canary = 7;
        let mut token = named();
        let secret = tollgate_config::Secret::literal("Bearer a");
        token.bank.headers.insert("Authorization".into(), secret);
        let mut other_token = named();
        let secret = tollgate_config::Secret::literal("Bearer b");
        other_token
            .bank
            .headers
            .insert("Authorization".into(), secret);
        let all = [&path, &limit, &token, &other_token].map(digest);
        let distinct: std::collections::BTreeSet<_> = all.iter().chain([&before]).collect();
        assert_eq!(distinct.len(), 5);
    }
}
