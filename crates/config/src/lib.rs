//! The configuration: the documented default file, then the user's file, then the environment.
//! Whatever contradicts itself stops the start with one sentence.

pub mod auth;
#[cfg(test)]
mod bank_tests;
mod described;
mod downstream;
mod engine;
mod events;
mod explain;
mod feeds;
mod http;
mod invoices;
mod jobs;
mod kafka;
mod lanes;
mod login;
mod notifications;
mod retention;
mod secret;
mod status_checks;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use figment::Figment;
use figment::providers::{Env, Format, Toml};
use rust_decimal::Decimal;
use serde::Deserialize;
use tollgate_domains::payments::{
    DEFAULT_GATEWAY, Problem, RouteText, RuleText, Rulebook, RulesError, RulesText,
};

pub use auth::{Auth, Token};
pub use described::read as read_description;
pub use downstream::{Downstream, NamedBank};
pub use engine::{Engine, EngineAt, Role, Temporal, WorkerSize};
pub use feeds::{FeedFormat, FeedItems, FeedKind, FeedText, Start};
pub use http::{Http, Tls};
pub use invoices::Invoices as InvoicesConfig;
pub use kafka::{KafkaAccess, Mechanism, Sasl};
pub use login::{Login, identify};
pub use notifications::Notifications as NotificationsConfig;
pub use retention::{TypeRetention, rule_floors};
pub use secret::Secret;
pub use status_checks::ServiceAt;

use events::EventsText;
use explain::explain;
use invoices::Invoices;
use jobs::Jobs;
use lanes::LaneText;
use retention::Retention;
use status_checks::{Elasticsearch, StatusCheck};

const DEFAULT: &str = include_str!("../default.toml");

/// What a part of the service says of its configuration before it is started: it reads files and secrets, and connects
/// to nothing.
pub type Check = fn(&Config) -> anyhow::Result<()>;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub listen: SocketAddr,
    pub http: Http,
    pub tls: Tls,
    pub auth: Auth,
    pub store: Store,
    pub engine: Engine,
    pub gate: Gate,
    pub sweep: Sweep,
    pub jobs: Jobs,
    pub retention: Retention,
    pub in_doubt: InDoubt,
    pub invoices: Invoices,
    pub telemetry: Telemetry,
    pub downstream: Downstream,
    /// Created with the first start.
    #[serde(default)]
    pub lanes: BTreeMap<String, LaneText>,
    /// Topics whose records are taken in.
    #[serde(default)]
    pub feeds: BTreeMap<String, FeedText>,
    /// Where every move of an item is published; nowhere by default.
    pub events: Option<EventsText>,
    pub elasticsearch: Elasticsearch,
    pub idb_facade: ServiceAt,
    pub pgi_gateway: ServiceAt,
    pub status_check: StatusCheck,
    #[serde(default)]
    pub rules: Vec<RuleText>,
    #[serde(default)]
    pub routes: Vec<RouteText>,
    /// Puts rules in force at the start however many payments that wait they stop.
    #[serde(skip)]
    pub confirm_rules: bool,
    /// Where it was read from.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Holds a password: show it only as [`Store::shown`].
    pub url: String,
    pub connections: usize,
    pub leadership: Leadership,
}

/// How a process comes to lead, where several may share a store: on PostgreSQL with the embedded engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leadership {
    /// It waits while another leads, and takes over when that one resigns or falls silent.
    Standby,
    /// It takes over at its start, from whomever.
    TakeOver,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub margin: Decimal,
    pub tolerance_ms: u64,
    pub patience_secs: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub interval_secs: u64,
    pub reconcile_secs: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InDoubt {
    pub ask: AskWhom,
    pub two_persons: bool,
}

/// Who is asked about payments in doubt when a person wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskWhom {
    /// Their banks.
    Bank,
    /// The services of status checks.
    Services,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    pub log_format: LogFormat,
    pub otlp_url: String,
    pub trace_share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl Telemetry {
    fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.otlp_url.is_empty() || self.otlp_url.starts_with("http://"),
            "telemetry.otlp_url: {:?} is not the address of a collector; write it like http://127.0.0.1:4317",
            self.otlp_url
        );
        ensure!(
            (0.0..=1.0).contains(&self.trace_share),
            "telemetry.trace_share must be between 0 and 1, the share of payments that are traced"
        );
        Ok(())
    }
}

impl Config {
    pub fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let config = Self::read(file)?;
        config.validate()?;
        Ok(config)
    }

    /// Each field by itself; whether they go together is another question, and flags may still change
    /// the answer.
    pub fn read(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut said = Figment::new();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{} cannot be read", file.display()))?;
            said = said.merge(Toml::string(&text));
        }
        said = said.merge(environment());
        let figment = Figment::from(Toml::string(DEFAULT)).merge(&said);
        let mut config: Self = figment.extract().map_err(|error| explain(&error, file))?;
        config.file = file.map(Path::to_owned);
        config.note_what_was_said(&said);
        Ok(config)
    }

    /// Which promises about a bank a person has made; the documented defaults are nobody's.
    fn note_what_was_said(&mut self, said: &Figment) {
        let banks = [
            ("downstream.payments", &mut self.downstream.payments),
            ("downstream.invoices", &mut self.downstream.invoices),
        ];
        for (key, bank) in banks {
            let is_said = |promise: &&str| said.find_value(&format!("{key}.{promise}")).is_ok();
            bank.said = described::PROMISES.into_iter().filter(is_said).collect();
        }
    }

    /// What descriptions promise in their banks' names, for an operator to confirm.
    pub fn promises(file: Option<&Path>) -> Vec<String> {
        let Ok(config) = Self::read(file) else {
            return vec![];
        };
        let banks = config.downstream.banks().unwrap_or_default();
        let banks = banks.into_iter().chain(config.downstream.provider());
        let told = banks.flat_map(|named| {
            // What the documented contract says needs no second look; what was added to it does.
            let is_contract = named.bank.description.starts_with("contract");
            let promises = named.description.bold_promises().into_iter();
            let promises =
                promises.filter(move |told| !is_contract || told.ends_with("nothing was done"));
            promises.map(move |told| format!("{}: {told}", named.key))
        });
        told.collect()
    }

    /// Everything that would stop a start before it has touched the store.
    pub fn problems(file: Option<&Path>, checks: &[Check]) -> Vec<String> {
        let config = match Self::read(file) {
            Ok(config) => config,
            Err(why) => return vec![format!("{why:#}")],
        };
        let parts = checks.iter().map(|check| check(&config));
        let parts = std::iter::once(config.validate_parts()).chain(parts);
        let mut problems: Vec<String> = vec![];
        for why in parts.filter_map(Result::err) {
            let told = format!("{why:#}");
            if !problems.contains(&told) {
                problems.push(told);
            }
        }
        let rules = config.rulebook().err().unwrap_or_default();
        problems.extend(rules.iter().map(ToString::to_string));
        problems
    }

    /// Has the services of status checks asked at one place that asks for nothing, such as a sandbox.
    pub fn check_at(&mut self, url: &str) {
        self.elasticsearch.move_to(url);
        self.idb_facade.move_to(url);
        self.pgi_gateway.move_to(url);
    }

    pub fn rules_text(&self) -> RulesText {
        RulesText {
            rules: self.rules.clone(),
            routes: self.routes.clone(),
        }
    }

    fn rulebook(&self) -> Result<Rulebook, Vec<Problem>> {
        let gateways = &self.downstream.gateways;
        let is_gateway = |name: &str| name == DEFAULT_GATEWAY || gateways.contains_key(name);
        Rulebook::read(&self.rules_text(), 0, is_gateway)
    }

    /// The relations between fields; each field's own shape is checked by its type.
    pub fn validate(&self) -> anyhow::Result<()> {
        self.validate_parts()?;
        self.rulebook().map_err(RulesError::Wrong)?;
        Ok(())
    }

    fn validate_parts(&self) -> anyhow::Result<()> {
        self.http.validate()?;
        self.tls.validate()?;
        let tokens = self.auth.tokens()?;
        http::may_listen(self.listen, !tokens.is_empty(), &self.tls)?;
        ensure!(
            self.store.connections >= 4,
            "store.connections must be at least 4: the gate, the engine and the API each need one"
        );
        self.engine.validate(&self.store.at()?)?;
        let (low, high) = (Decimal::ZERO, Decimal::new(5, 1));
        ensure!(
            self.gate.margin >= low && self.gate.margin <= high,
            "gate.margin must be between 0 and 0.5; 0.02 keeps 20 ms of every second free"
        );
        ensure!(
            self.gate.tolerance_ms > 0,
            "gate.tolerance_ms must be at least 1: no turn is met to the microsecond"
        );
        // Lateness, and as much again for the clocks, must fit into what the margin keeps free.
        let free_ms = self.gate.margin * Decimal::from(1000);
        ensure!(
            Decimal::from(self.gate.tolerance_ms * 2) <= free_ms,
            "gate.tolerance_ms: twice {} ms do not fit into the {free_ms} ms that gate.margin keeps free; lower it or raise gate.margin",
            self.gate.tolerance_ms
        );
        ensure!(
            self.gate.patience_secs > 0,
            "gate.patience_secs must be at least 1"
        );
        ensure!(
            self.sweep.interval_secs > 0,
            "sweep.interval_secs must be at least 1"
        );
        ensure!(
            self.sweep.reconcile_secs > 0,
            "sweep.reconcile_secs must be at least 1"
        );
        self.jobs.validate()?;
        self.telemetry.validate()?;
        self.status_check.validate()?;
        self.invoices.validate()?;
        for (name, lane) in &self.lanes {
            lane.validate(name)?;
        }
        kafka::validate(&self.feeds, self.events.as_ref())?;
        self.downstream.validate(self.gate.patience_secs)?;
        self.validate_retention()
    }
}

/// Only the rules and routes of a configuration file, whatever else is in it.
pub fn read_rules(file: &Path) -> anyhow::Result<RulesText> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        rules: Vec<RuleText>,
        #[serde(default)]
        routes: Vec<RouteText>,
    }
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let part = Figment::from(Toml::string(&text)).extract();
    let part: Part = part.map_err(|error| explain(&error, Some(file)))?;
    let (rules, routes) = (part.rules, part.routes);
    Ok(RulesText { rules, routes })
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("url", &self.shown())
            .finish_non_exhaustive()
    }
}

/// Where the store is.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAt {
    Sqlite(PathBuf),
    Postgres(String),
}

/// Without the URL, which holds a password.
impl std::fmt::Debug for StoreAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "Sqlite",
            Self::Postgres(_) => "Postgres",
        })
    }
}

impl Store {
    pub fn at(&self) -> anyhow::Result<StoreAt> {
        if self.url.starts_with("postgres://") || self.url.starts_with("postgresql://") {
            return Ok(StoreAt::Postgres(self.url.clone()));
        }
        match self.url.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(StoreAt::Sqlite(PathBuf::from(path))),
            _ => bail!(
                "store.url: {:?} is not a store of this release; use \"sqlite:FILE\" or \"postgres://user@host/database\"",
                self.shown()
            ),
        }
    }

    /// The URL without what stands before the host: no password leaves this process.
    pub fn shown(&self) -> String {
        match (self.url.split_once("://"), self.url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
            _ => self.url.clone(),
        }
    }
}

/// `TOLLGATE_TOKEN` is for the commands that call a service, not a key of its configuration.
fn environment() -> Env {
    Env::prefixed("TOLLGATE_").ignore(&["token"]).split("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn with(toml: &str) -> anyhow::Result<Config> {
        let said = Figment::from(Toml::string(toml));
        let figment = Figment::from(Toml::string(DEFAULT)).merge(&said);
        let mut config: Config = figment.extract().map_err(|e| explain(&e, None))?;
        config.note_what_was_said(&said);
        config.validate()?;
        Ok(config)
    }

    #[test]
    fn the_documented_file_is_a_valid_default() {
        assert_eq!(with("").unwrap().listen.to_string(), "127.0.0.1:8090");
    }

    #[test]
    fn a_coefficient_may_be_a_fraction() {
        for (text, coefficient) in [("1.5", Decimal::new(15, 1)), ("3", Decimal::from(3))] {
            let toml = format!("status_check.backoff_coefficient = {text}");
            let read = with(&toml).unwrap().status_check.workflow();
            assert_eq!(read.backoff_coefficient, coefficient);
        }
    }

    #[test]
    fn each_contradiction_names_its_key() {
        let table = [
            ("listen = \"0.0.0.0:8090\"", "listen"),
            ("listen = \"somewhere\"", "listen"),
            ("store.url = \"mysql://x\"", "store.url"),
            ("gate.margin = 0.9", "gate.margin"),
            ("gate.tolerance_ms = 30", "gate.tolerance_ms"),
            ("gate.tolerance_ms = 15", "gate.tolerance_ms"),
            ("gate.tolerance_ms = 0", "gate.tolerance_ms"),
            ("gate.colour = 1", "colour"),
            ("telemetry.log_format = \"xml\"", "telemetry.log_format"),
            (
                "lanes.acme = {max_per_window = 0, window_size_secs = 4}",
                "lanes.acme: maxPerWindow: a limit of 0 would never send",
            ),
            (
                "lanes.\"a b\" = {max_per_window = 1, window_size_secs = 4}",
                "lanes.a b: a lane's name",
            ),
            ("lanes.acme = {window_size_secs = 4}", "lanes.acme"),
            (
                "telemetry.otlp_url = \"collector:4317\"",
                "telemetry.otlp_url",
            ),
            ("telemetry.trace_share = 2", "telemetry.trace_share"),
            (
                "status_check.max_parallel_es_queries = 0",
                "max_parallel_es_queries",
            ),
            (
                "status_check.max_payments_per_chunk = 101",
                "max_payments_per_chunk",
            ),
            (
                "status_check.backoff_coefficient = 0.5",
                "backoff_coefficient",
            ),
            ("status_check.max_interval_ms = 10", "max_interval_ms"),
            ("status_check.lane_share = 0", "lane_share"),
            ("idb_facade.colour = 1", "colour"),
            ("store.url = \"postgre://u:secret@h/d\"", "postgre://…@h/d"),
        ];
        for (toml, key) in table {
            let said = with(toml).unwrap_err().to_string();
            assert!(said.contains(key), "{toml}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
