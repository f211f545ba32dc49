//! The configured services of status checks, and what the domain makes of them.

use std::sync::{Arc, OnceLock};

use tollgate_config::{Config, ServiceAt};
use tollgate_core::ports::Store;
use tollgate_dispatch::Gate;
use tollgate_domains::status_checks::World;
use tollgate_downstream::{HttpCheckServices, Service, ServiceOptions};
use tollgate_operations::downstreams::access_to;

/// Connections to each service, busy and idle: twenty checks at once with all their lookups.
pub(crate) const MAX_CONNECTIONS: usize = 256;

/// Reads secrets and certificates; connects to nothing yet.
pub(crate) fn connect(config: &Config) -> anyhow::Result<HttpCheckServices> {
    let elasticsearch = service("elasticsearch", &config.elasticsearch.at())?;
    let idb_facade = service("idb_facade", &config.idb_facade)?;
    let pgi_gateway = service("pgi_gateway", &config.pgi_gateway)?;
    let index = &config.elasticsearch.index;
    anyhow::ensure!(
        !index.trim().is_empty(),
        "elasticsearch.index is missing: set the index of the payments"
    );
    Ok(HttpCheckServices::new(
        elasticsearch,
        index,
        idb_facade,
        pgi_gateway,
    ))
}

/// The domain's view of them: calls about a gateway that has a lane go through it.
pub(crate) fn world(
    services: HttpCheckServices,
    config: &Config,
    store: &Arc<dyn Store>,
    gate: &Arc<Gate>,
) -> anyhow::Result<World> {
    let banks = config.downstream.banks()?.into_iter();
    // The first is the default bank, which is nobody's gateway.
    let lanes = banks.skip(1).map(|named| (named.name, named.bank.lane));
    Ok(World {
        store: Arc::clone(store),
        services: Arc::new(services),
        gate: Arc::clone(gate),
        lanes: lanes.collect(),
        lane_share: config.status_check.lane_share,
        engine: OnceLock::new(),
    })
}

fn service(key: &str, at: &ServiceAt) -> anyhow::Result<Service> {
    let access = access_to(key, at.root_certificates.clone(), &at.headers)?;
    let options = ServiceOptions {
        url: at.url.clone(),
        max_connections: MAX_CONNECTIONS,
    };
    Service::connect(&options, &access).map_err(|why| anyhow::anyhow!("{key}.url: {why}"))
}
