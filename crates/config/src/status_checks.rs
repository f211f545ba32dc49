//! The services of status checks and how they are asked: `[elasticsearch]`, `[idb_facade]`,
//! `[pgi_gateway]`, `[status_check]`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use rust_decimal::Decimal;
use serde::Deserialize;
use tollgate_domains::status_checks::WorkflowConfig;

use super::secret::Secret;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elasticsearch {
    pub url: String,
    pub index: String,
    pub root_certificates: Option<PathBuf>,
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceAt {
    pub url: String,
    pub root_certificates: Option<PathBuf>,
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
}

impl Elasticsearch {
    pub fn at(&self) -> ServiceAt {
        ServiceAt {
            url: self.url.clone(),
            root_certificates: self.root_certificates.clone(),
            headers: self.headers.clone(),
        }
    }

    /// To a place that asks for nothing; no token goes there.
    pub(super) fn move_to(&mut self, url: &str) {
        url.clone_into(&mut self.url);
        self.root_certificates = None;
        self.headers.clear();
    }
}

impl ServiceAt {
    pub(super) fn move_to(&mut self, url: &str) {
        url.clone_into(&mut self.url);
        self.root_certificates = None;
        self.headers.clear();
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusCheck {
    pub max_parallel_es_queries: u32,
    pub max_payments_per_chunk: u32,
    pub activity_timeout_seconds: u64,
    pub max_retry_attempts: u32,
    pub initial_interval_ms: u64,
    pub backoff_coefficient: Decimal,
    pub max_interval_ms: u64,
    pub lane_share: Decimal,
    pub retention_hours: u64,
}

impl StatusCheck {
    pub fn workflow(&self) -> WorkflowConfig {
        WorkflowConfig {
            max_parallel_es_queries: self.max_parallel_es_queries,
            max_payments_per_chunk: self.max_payments_per_chunk,
            activity_timeout_seconds: self.activity_timeout_seconds,
            max_retry_attempts: self.max_retry_attempts,
            initial_interval_ms: self.initial_interval_ms,
            backoff_coefficient: self.backoff_coefficient,
            max_interval_ms: self.max_interval_ms,
        }
    }

    pub fn retention(&self) -> Duration {
        Duration::from_hours(self.retention_hours)
    }

    pub(super) fn validate(&self) -> anyhow::Result<()> {
        within(
            "max_parallel_es_queries",
            self.max_parallel_es_queries,
            1..=200,
        )?;
        within(
            "max_payments_per_chunk",
            self.max_payments_per_chunk,
            1..=100,
        )?;
        within(
            "activity_timeout_seconds",
            self.activity_timeout_seconds,
            1..=300,
        )?;
        within("max_retry_attempts", self.max_retry_attempts, 1..=20)?;
        within("initial_interval_ms", self.initial_interval_ms, 1..=60_000)?;
        within("retention_hours", self.retention_hours, 1..=87_600)?;
        let (one, ten) = (Decimal::ONE, Decimal::TEN);
        ensure!(
            (one..=ten).contains(&self.backoff_coefficient),
            "status_check.backoff_coefficient must be from 1 to 10"
        );
        ensure!(
            (self.initial_interval_ms..=600_000).contains(&self.max_interval_ms),
            "status_check.max_interval_ms must be between initial_interval_ms and 600000"
        );
        ensure!(
            self.lane_share > Decimal::ZERO && self.lane_share <= one,
            "status_check.lane_share must be above 0 and at most 1; for example, 0.2 leaves 80 % of a gateway's lane to payments"
        );
        Ok(())
    }
}

fn within<T: PartialOrd + Display + Copy>(
    key: &str,
    value: T,
    bounds: RangeInclusive<T>,
) -> anyhow::Result<()> {
    let (low, high) = (bounds.start(), bounds.end());
    ensure!(
        bounds.contains(&value),
        "status_check.{key} must be between {low} and {high}, not {value}"
    );
    Ok(())
}
