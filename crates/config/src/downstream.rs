//! The banks in the configuration: `[downstream.payments]`, one more per gateway, and what each of
//! them must not say about itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use tollgate_core::id::{LaneName, check_item_id};
use tollgate_core::marker::Marker;
use tollgate_core::ports::{LONGEST_SEND, Profile};
use tollgate_core::storm::RECENT;
use tollgate_domains::payments::DEFAULT_GATEWAY;
use tollgate_downstream::{Description, Subject};

use super::described::{HONOURS, NOT_DONE, REMEMBERS, RETENTION, SETTLE, described};
use super::login::Login;
use super::notifications::Notifications;
use super::secret::Secret;

/// How long a step that sends may take, and a part of it (`downstream`).
const LONGEST_SEND_MS: u64 = LONGEST_SEND.as_secs() * 1000;
const CONNECT_MS: u64 = 3_000;
/// More would risk what a canary is meant to save.
const MOST_CANARIES: u32 = 100;
/// As in a payment's `gateway`.
const MAX_GATEWAY_CHARS: usize = 64;
/// The bank that payments without a gateway go to.
const PAYMENTS: &str = "payments";
/// What a proxy on the way says that has waited in vain: it cannot know whether it was done.
const LOST_ANSWERS: [u16; 3] = [408, 502, 504];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Downstream {
    pub payments: Bank,
    /// The provider that charges invoices.
    pub invoices: Bank,
    #[serde(default)]
    pub gateways: BTreeMap<String, Gateway>,
    pub notifications: Notifications,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bank {
    pub url: String,
    /// The name of a shipped description, or a file.
    pub description: String,
    pub lane: LaneName,
    pub timeout_ms: u64,
    pub honours_idempotency_key: bool,
    pub key_retention_secs: u64,
    pub settle_secs: u64,
    pub means_not_done: Vec<u16>,
    pub recognised_by: Marker,
    pub max_connections: usize,
    pub canary: u32,
    pub streak: u32,
    pub remembers_refusals: bool,
    pub root_certificates: Option<PathBuf>,
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    pub login: Option<Login>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    /// The promises that a person has written: they count for more than the description's.
    #[serde(skip)]
    pub said: BTreeSet<&'static str>,
}

/// A bank of which only what differs from `[downstream.payments]` is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    url: Option<String>,
    description: Option<String>,
    lane: Option<LaneName>,
    timeout_ms: Option<u64>,
    honours_idempotency_key: Option<bool>,
    key_retention_secs: Option<u64>,
    settle_secs: Option<u64>,
    means_not_done: Option<Vec<u16>>,
    recognised_by: Option<Marker>,
    max_connections: Option<usize>,
    canary: Option<u32>,
    streak: Option<u32>,
    remembers_refusals: Option<bool>,
    root_certificates: Option<PathBuf>,
    #[serde(default)]
    headers: BTreeMap<String, Secret>,
    login: Option<Login>,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
}

/// A bank with everything said about it.
#[derive(Debug)]
pub struct NamedBank {
    /// Where it is configured.
    pub key: String,
    /// The gateway, or what the default bank is called in messages.
    pub name: String,
    /// With the description's promises, where nobody has said otherwise.
    pub bank: Bank,
    pub description: Description,
}

impl Downstream {
    /// The default bank first, then the gateways' by name.
    pub fn banks(&self) -> anyhow::Result<Vec<NamedBank>> {
        let payments = ("downstream.payments".to_owned(), PAYMENTS.to_owned());
        let mut banks = vec![described(payments, &self.payments, Subject::Payments)?];
        for (name, gateway) in &self.gateways {
            let key = format!("downstream.gateways.{name}");
            let bank = gateway.completed(&self.payments, &key)?;
            banks.push(described((key, name.clone()), &bank, Subject::Payments)?);
        }
        Ok(banks)
    }

    /// One of them by the name that people use: "default" is the one of payments that name no gateway.
    pub fn bank(&self, name: &str) -> anyhow::Result<NamedBank> {
        let mut banks = self.banks()?;
        let wanted = if name == DEFAULT_GATEWAY {
            PAYMENTS
        } else {
            name
        };
        let Some(place) = banks.iter().position(|it| it.name == wanted) else {
            let names: Vec<_> = banks.iter().skip(1).map(|it| it.name.as_str()).collect();
            let names = [&[DEFAULT_GATEWAY], &names[..]].concat().join(", ");
            bail!("unknown bank {name:?}; configured: {names}");
        };
        Ok(banks.swap_remove(place))
    }

    /// The provider of invoices.
    pub fn provider(&self) -> anyhow::Result<NamedBank> {
        let invoices = ("downstream.invoices".to_owned(), "invoices".to_owned());
        described(invoices, &self.invoices, Subject::Invoices)
    }

    pub(crate) fn validate(&self, patience_secs: u64) -> anyhow::Result<()> {
        let mut names = BTreeMap::new();
        for name in self.gateways.keys() {
            check_name(name)?;
            if let Some(other) = names.insert(name.to_lowercase(), name) {
                bail!(
                    "downstream.gateways: {other} and {name} differ only in upper and lower case; rename one of them"
                );
            }
        }
        let banks = self.banks()?;
        for NamedBank { key, bank, .. } in &banks {
            bank.validate(key, patience_secs)?;
        }
        let NamedBank { key, bank, .. } = &self.provider()?;
        bank.validate(key, patience_secs)?;
        let lanes = banks
            .iter()
            .map(|named| &named.bank.lane)
            .chain([&bank.lane]);
        self.notifications.validate(lanes)
    }

    /// Sends everything to one place that asks for nothing, such as a sandbox: no token goes there,
    /// and nobody is told.
    pub fn send_all_to(&mut self, url: &str) {
        self.notifications.silence();
        let spoken = ["contract", "contract-invoices"];
        for (bank, spoken) in [&mut self.payments, &mut self.invoices]
            .into_iter()
            .zip(spoken)
        {
            url.clone_into(&mut bank.url);
            spoken.clone_into(&mut bank.description);
            bank.root_certificates = None;
            bank.login = None;
            bank.client_certificate = None;
            bank.client_key = None;
            bank.headers.clear();
            bank.recognised_by = Marker::Contract;
        }
        for gateway in self.gateways.values_mut() {
            gateway.url = Some(url.to_owned());
            gateway.description = None;
            gateway.root_certificates = None;
            gateway.login = None;
            gateway.client_certificate = None;
            gateway.client_key = None;
            gateway.recognised_by = None;
            gateway.headers.clear();
        }
    }

    /// Tells this receiver, and nobody else, what becomes of payments.
    pub fn tell_only(&mut self, url: &str, secret: &str) {
        self.notifications.tell(url, secret);
    }
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let key = format!("downstream.gateways.{name}");
    check_item_id(name).map_err(|why| anyhow::anyhow!("{key}: a gateway's name {why}"))?;
    ensure!(
        name.len() <= MAX_GATEWAY_CHARS,
        "{key}: a gateway's name must have at most {MAX_GATEWAY_CHARS} characters"
    );
    let taken = [DEFAULT_GATEWAY, PAYMENTS];
    ensure!(
        !taken.iter().any(|word| name.eq_ignore_ascii_case(word)),
        "{key}: {name:?} is reserved for downstream.payments; choose another name"
    );
    Ok(())
}

impl Gateway {
    /// What is left out is as for the default bank: except where it is, its budget, and the headers,
    /// for one bank's token must not go to another.
    fn completed(&self, payments: &Bank, key: &str) -> anyhow::Result<Bank> {
        let url = self.url.clone();
        let url = url.with_context(|| format!("{key}.url is missing: set the URL of this bank"))?;
        let lane = self.lane.clone();
        let lane =
            lane.with_context(|| format!("{key}.lane is missing: set the lane of this bank"))?;
        let inherited = payments.root_certificates.clone();
        let inherited = inherited.filter(|_| url.to_lowercase().starts_with("https:"));
        let honours = self.honours_idempotency_key;
        let means_not_done = self.means_not_done.clone();
        let recognised_by = self.recognised_by.clone();
        let description = self.description.clone();
        let description = description.unwrap_or_else(|| payments.description.clone());
        Ok(Bank {
            url,
            said: self.said(payments, &description),
            description,
            lane,
            timeout_ms: self.timeout_ms.unwrap_or(payments.timeout_ms),
            honours_idempotency_key: honours.unwrap_or(payments.honours_idempotency_key),
            key_retention_secs: self
                .key_retention_secs
                .unwrap_or(payments.key_retention_secs),
            settle_secs: self.settle_secs.unwrap_or(payments.settle_secs),
            means_not_done: means_not_done.unwrap_or_else(|| payments.means_not_done.clone()),
            recognised_by: recognised_by.unwrap_or_else(|| payments.recognised_by.clone()),
            max_connections: self.max_connections.unwrap_or(payments.max_connections),
            canary: self.canary.unwrap_or(payments.canary),
            streak: self.streak.unwrap_or(payments.streak),
            remembers_refusals: self
                .remembers_refusals
                .unwrap_or(payments.remembers_refusals),
            root_certificates: self.root_certificates.clone().or(inherited),
            headers: self.headers.clone(),
            login: self.login.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
        })
    }

    /// What was said of the default bank holds for another that is described alike.
    fn said(&self, payments: &Bank, description: &str) -> BTreeSet<&'static str> {
        let own = [
            (HONOURS, self.honours_idempotency_key.is_some()),
            (RETENTION, self.key_retention_secs.is_some()),
            (SETTLE, self.settle_secs.is_some()),
            (NOT_DONE, self.means_not_done.is_some()),
            (REMEMBERS, self.remembers_refusals.is_some()),
        ];
        let own = own
            .into_iter()
            .filter_map(|(key, said)| said.then_some(key));
        let inherited = payments.said.iter().copied();
        let alike = payments.description == description;
        own.chain(inherited.filter(|_| alike)).collect()
    }
}

impl Bank {
    pub fn profile(&self) -> Profile {
        Profile {
            honours_idempotency_key: self.honours_idempotency_key,
            key_retention: Duration::from_secs(self.key_retention_secs),
            settle: Duration::from_secs(self.settle_secs),
            timeout: Duration::from_millis(self.timeout_ms),
            means_not_done: self.means_not_done.clone(),
            recognised_by: self.recognised_by.clone(),
            asks_by_key: false,
        }
    }

    fn validate(&self, key: &str, patience_secs: u64) -> anyhow::Result<()> {
        check_item_id(self.lane.as_str())
            .map_err(|why| anyhow::anyhow!("{key}.lane: a lane's name {why}"))?;
        ensure!(self.timeout_ms > 0, "{key}.timeout_ms must be at least 1");
        ensure!(
            self.max_connections > 0,
            "{key}.max_connections must be at least 1"
        );
        ensure!(
            self.canary <= MOST_CANARIES,
            "{key}.canary must be at most {MOST_CANARIES}"
        );
        ensure!(
            self.streak <= RECENT,
            "{key}.streak must be at most {RECENT}, the number of answers that are counted"
        );
        // Waiting for a connection, for a turn and for the answer must fit into one step.
        let longest = (self.timeout_ms.saturating_mul(2))
            .saturating_add(patience_secs.saturating_mul(1000))
            .saturating_add(CONNECT_MS);
        ensure!(
            longest < LONGEST_SEND_MS,
            "2 × {key}.timeout_ms + gate.patience_secs must be below {} s; lower one of them",
            (LONGEST_SEND_MS - CONNECT_MS) / 1000
        );
        self.validate_promises(key)
    }

    fn validate_promises(&self, key: &str) -> anyhow::Result<()> {
        ensure!(
            !self.honours_idempotency_key
                || self.key_retention_secs.saturating_mul(1000) > self.timeout_ms,
            "{key}.key_retention_secs: must be longer than timeout_ms; if the bank forgets keys sooner, set honours_idempotency_key = false"
        );
        ensure!(
            self.honours_idempotency_key || self.settle_secs > 0,
            "{key}.settle_secs: must be at least 1 without idempotency keys: only a 404 some time after the send proves that a payment was not executed"
        );
        for status in &self.means_not_done {
            ensure!(
                (400..=599).contains(status),
                "{key}.means_not_done: {status} is not allowed; only 4xx and 5xx can mean that nothing was executed"
            );
            ensure!(
                !LOST_ANSWERS.contains(status),
                "{key}.means_not_done: {status} is not allowed: it means that an answer was lost, so the payment may have been executed; remove it"
            );
        }
        Ok(())
    }
}
