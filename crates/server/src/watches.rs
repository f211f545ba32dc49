//! Connectors whose refusals are counted: what is configured about it, and by what the store knows one
//! configuration from the next.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_core::id::LaneName;
use tollgate_core::ports::{NewWatch, Store, StoreResult};
use tollgate_core::storm::Limits;
use tollgate_dispatch::{Gate, Sender};
use tollgate_downstream::HttpConnector;

use crate::config::NamedBank;

/// This many digits of the hash tell configurations apart: 64 bits.
const DIGITS: usize = 16;

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
        let sender = Sender::new(Arc::clone(store), Arc::clone(gate), Arc::new(connector));
        let sender = sender.watched(watch);
        Ok(if self.remembers_refusals {
            sender
        } else {
            sender.forgetting_refusals()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

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
        let secret = crate::config::Secret::literal("Bearer a");
        token.bank.headers.insert("Authorization".into(), secret);
        let mut other_token = named();
        let secret = crate::config::Secret::literal("Bearer b");
        other_token
            .bank
            .headers
            .insert("Authorization".into(), secret);
        let all = [&path, &limit, &token, &other_token].map(digest);
        let distinct: std::collections::BTreeSet<_> = all.iter().chain([&before]).collect();
        assert_eq!(distinct.len(), 5);
    }
}
