//! The configured banks as connectors, and what an operator should know about them at the start.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use tollgate_config::{Downstream, NamedBank};
use tollgate_core::ports::{Connector, Store, StoreResult};
use tollgate_dispatch::Gate;
use tollgate_domains::payments::{Bank, Routes};
use tollgate_downstream::HttpConnector;
use tollgate_operations::downstreams::connector;

use crate::downstreams::watches::Watch;

#[derive(Debug)]
pub(crate) struct Banks {
    default: Connected,
    gateways: Vec<Connected>,
}

#[derive(Debug)]
struct Connected {
    /// Where it is configured.
    key: String,
    name: String,
    connector: HttpConnector,
    watch: Watch,
}

impl Banks {
    /// Reads secrets and certificates; connects to nothing yet.
    pub(crate) fn connect(downstream: &Downstream) -> anyhow::Result<Self> {
        let mut all = downstream.banks()?.into_iter().map(connect);
        let default = all.next().context("there is always a default bank")??;
        let gateways = all.collect::<Result<_, _>>()?;
        let banks = Self { default, gateways };
        banks.warn_of_shared_places();
        Ok(banks)
    }

    /// The domain's view of them.
    pub(crate) async fn routes(
        self,
        store: &Arc<dyn Store>,
        gate: &Arc<Gate>,
    ) -> StoreResult<Routes<Bank>> {
        let mut gateways = BTreeMap::new();
        for it in self.gateways {
            gateways.insert(it.name.clone(), it.bank(store, gate).await?);
        }
        Ok(Routes {
            default: self.default.bank(store, gate).await?,
            gateways,
        })
    }

    fn all(&self) -> impl Iterator<Item = &Connected> {
        std::iter::once(&self.default).chain(&self.gateways)
    }

    /// One bank with two budgets: each lane keeps its limit, and their sum may break the bank's.
    fn warn_of_shared_places(&self) {
        for (one, other) in pairs_with_two_budgets(&self.all().collect::<Vec<_>>()) {
            tracing::warn!(
                one = one.key,
                one_lane = %one.connector.lane(),
                other = other.key,
                other_lane = %other.connector.lane(),
                "two connectors lead to the same URL through different lanes: each lane's limit holds, but not their sum; give both the same lane"
            );
        }
    }

    /// A bank without a lane would refuse every payment, one after the other.
    pub(crate) async fn require_lanes(&self, store: &dyn Store) -> anyhow::Result<()> {
        for bank in self.all() {
            let lane = bank.connector.lane();
            anyhow::ensure!(
                store.lane(lane).await?.is_some(),
                "{}.lane: {lane:?} does not exist; add [lanes.{lane}] with max_per_window and window_size_secs to the configuration",
                bank.key,
                lane = lane.as_str(),
            );
        }
        Ok(())
    }
}

impl Connected {
    async fn bank(self, store: &Arc<dyn Store>, gate: &Arc<Gate>) -> StoreResult<Bank> {
        Ok(Bank {
            lane: self.connector.lane().clone(),
            sender: self.watch.sender(store, gate, self.connector).await?,
        })
    }
}

fn connect(named: NamedBank) -> anyhow::Result<Connected> {
    let (key, name) = (named.key.clone(), named.name.clone());
    let watch = Watch::of(&named)?;
    Ok(Connected {
        key,
        name,
        connector: connector(named)?,
        watch,
    })
}

fn pairs_with_two_budgets<'a>(banks: &[&'a Connected]) -> Vec<(&'a Connected, &'a Connected)> {
    let clash = |one: &Connected, other: &Connected| {
        let (one, other) = (&one.connector, &other.connector);
        one.place() == other.place() && one.lane() != other.lane()
    };
    let mut pairs = vec![];
    for (place, one) in banks.iter().enumerate() {
        let others = banks[place + 1..].iter();
        pairs.extend(
            others
                .filter(|other| clash(one, other))
                .map(|other| (*one, *other)),
        );
    }
    pairs
}

#[cfg(test)]
mod tests {
    use tollgate_core::id::LaneName;
    use tollgate_downstream::HttpOptions;

    use super::*;

    fn bank(name: &str, url: &str, lane: &str) -> Connected {
        let mut named = tollgate_config::Config::load(None)
            .unwrap()
            .downstream
            .banks()
            .unwrap();
        let named = named.remove(0);
        let options = HttpOptions {
            name: name.to_owned(),
            url: url.to_owned(),
            lane: LaneName::new(lane),
            profile: named.bank.profile(),
            max_connections: 1,
        };
        Connected {
            key: name.to_owned(),
            name: name.to_owned(),
            connector: HttpConnector::new(options).unwrap(),
            watch: Watch::of(&named).unwrap(),
        }
    }

    #[test]
    fn one_place_with_two_lanes_is_noticed_however_it_is_written() {
        let banks = [
            bank("a", "http://bank", "one"),
            bank("b", "http://BANK:80/", "two"),
            bank("c", "http://bank:80", "one"),
            bank("d", "http://bank/v1", "two"),
            bank("e", "http://other", "two"),
        ];
        let pairs = pairs_with_two_budgets(&banks.iter().collect::<Vec<_>>());
        let names: Vec<_> = pairs
            .iter()
            .map(|(one, other)| (one.key.as_str(), other.key.as_str()))
            .collect();
        assert_eq!(names, [("a", "b"), ("b", "c")]);
    }
}
