//! Which engine runs the flows, and which part of the work this process does.

use std::path::PathBuf;

use anyhow::{bail, ensure};
use serde::Deserialize;
use tollgate_core::item_type::is_queue_name;

use super::StoreAt;
use super::secret::Secret;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    pub url: String,
    pub max_running: u32,
    pub roles: Vec<Role>,
    pub temporal: Temporal,
}

/// What a process does among many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Api,
    Dispatch,
    Init,
    Exec,
}

const ALL_ROLES: [Role; 4] = [Role::Api, Role::Dispatch, Role::Init, Role::Exec];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temporal {
    pub tls: bool,
    pub root_certificates: Option<PathBuf>,
    pub server_name: Option<String>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub api_key: Secret,
    pub codec_keys: Vec<CodecKey>,
    pub drain_secs: u64,
    pub cached_flows: usize,
    pub dispatch: WorkerSize,
    pub init: WorkerSize,
    pub exec: WorkerSize,
    pub exec_task_queues: Vec<String>,
}

/// A name that goes with what it has encrypted, and where the key comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecKey {
    pub name: String,
    pub key: Secret,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSize {
    pub flows: usize,
    pub steps: usize,
}

/// Where flows run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAt {
    Embedded,
    Temporal { address: String, namespace: String },
}

impl Engine {
    pub fn at(&self) -> anyhow::Result<EngineAt> {
        if self.url == "embedded" {
            return Ok(EngineAt::Embedded);
        }
        let parts = self
            .url
            .strip_prefix("temporal://")
            .and_then(|rest| rest.split_once('/'));
        match parts {
            Some((address, namespace)) if is_address(address) && is_name(namespace) => {
                Ok(EngineAt::Temporal {
                    address: address.to_owned(),
                    namespace: namespace.to_owned(),
                })
            }
            _ => bail!(
                "engine.url: {:?} is not an engine; use \"embedded\" or \"temporal://host:port/namespace\"",
                self.url
            ),
        }
    }

    pub fn does(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub(crate) fn validate(&self, store: &StoreAt) -> anyhow::Result<()> {
        ensure!(
            self.max_running > 0,
            "engine.max_running must be at least 1"
        );
        ensure!(
            !self.roles.is_empty(),
            "engine.roles: must not be empty; use some of \"api\", \"dispatch\", \"init\", \"exec\""
        );
        match self.at()? {
            EngineAt::Embedded => ensure!(
                ALL_ROLES.iter().all(|role| self.does(*role)),
                "engine.roles: the embedded engine needs all roles in one process; list all of them, or use Temporal"
            ),
            EngineAt::Temporal { .. } => ensure!(
                matches!(store, StoreAt::Postgres(_)),
                "engine.url: Temporal requires PostgreSQL; set store.url to a PostgreSQL database, or use the embedded engine"
            ),
        }
        self.temporal.validate()
    }
}

impl Temporal {
    fn validate(&self) -> anyhow::Result<()> {
        let sizes = [
            ("dispatch", self.dispatch),
            ("init", self.init),
            ("exec", self.exec),
        ];
        for (name, size) in sizes {
            ensure!(
                size.flows > 0 && size.steps > 0,
                "engine.temporal.{name}: flows and steps must be at least 1"
            );
        }
        for queue in &self.exec_task_queues {
            ensure!(
                is_queue_name(queue),
                "engine.temporal.exec_task_queues: {queue:?} is not a name; use printable ASCII characters without spaces"
            );
        }
        ensure!(
            self.client_certificate.is_some() == self.client_key.is_some(),
            "engine.temporal.client_certificate and client_key must be set together"
        );
        let needs_tls = self.root_certificates.is_some()
            || self.server_name.is_some()
            || self.client_certificate.is_some()
            || !self.api_key.is_empty();
        ensure!(
            self.tls || !needs_tls,
            "engine.temporal.tls: must be true to use certificates and keys"
        );
        Ok(())
    }
}

fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    !host.is_empty() && !host.contains('@') && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_name(namespace: &str) -> bool {
    !namespace.is_empty() && !namespace.contains(['/', '?', '#', ' '])
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;
    use super::*;

    const PRODUCTION: &str = "store.url = \"postgres://u@h/d\"\n";

    #[test]
    fn an_engine_is_embedded_or_an_address_and_a_namespace() {
        let at = |url: &str| {
            let config = with(&format!("{PRODUCTION}engine.url = {url:?}"))?;
            config.engine.at()
        };
        assert_eq!(at("embedded").unwrap(), EngineAt::Embedded);
        let temporal = |address: &str, namespace: &str| EngineAt::Temporal {
            address: address.into(),
            namespace: namespace.into(),
        };
        let table = [
            (
                "temporal://127.0.0.1:7233/default",
                temporal("127.0.0.1:7233", "default"),
            ),
            (
                "temporal://[::1]:7233/payments.prod",
                temporal("[::1]:7233", "payments.prod"),
            ),
        ];
        for (url, expected) in table {
            assert_eq!(at(url).unwrap(), expected);
        }
        for wrong in [
            "warp",
            "temporal://",
            "temporal://host",
            "temporal://host:7233",
            "temporal://host:7233/",
            "temporal://host/default",
            "temporal://host:0/default",
            "temporal://:7233/default",
            "temporal://user@host:7233/default",
            "temporal://host:7233/a/b",
        ] {
            let said = at(wrong).unwrap_err().to_string();
            assert!(said.contains("engine.url"), "{wrong}: {said}");
        }
    }

    #[test]
    fn each_contradiction_says_what_is_wrong() {
        let temporal = "engine.url = \"temporal://h:1/n\"\n";
        let table = [
            (
                format!("{temporal}store.url = \"sqlite:x.db\""),
                "requires PostgreSQL",
            ),
            ("engine.roles = [\"api\"]".to_owned(), "engine.roles"),
            (
                format!("{temporal}{PRODUCTION}engine.roles = []"),
                "engine.roles",
            ),
            (
                format!("{temporal}{PRODUCTION}engine.roles = [\"cook\"]"),
                "engine.roles",
            ),
            (
                format!("{temporal}{PRODUCTION}engine.temporal.exec.steps = 0"),
                "engine.temporal.exec",
            ),
            (
                format!("{temporal}{PRODUCTION}engine.temporal.api_key = \"k\""),
                "engine.temporal.tls",
            ),
            (
                format!(
                    "{temporal}{PRODUCTION}engine.temporal.tls = true\nengine.temporal.client_key = \"k\""
                ),
                "client_certificate",
            ),
        ];
        for (toml, key) in table {
            let said = with(&toml).unwrap_err().to_string();
            assert!(said.contains(key), "{toml}: {said}");
        }
        let some = format!("{temporal}{PRODUCTION}engine.roles = [\"init\", \"exec\"]");
        assert!(with(&some).unwrap().engine.does(Role::Exec));
    }
}
