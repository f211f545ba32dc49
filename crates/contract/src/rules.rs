//! Rules and routes of payments.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// One of `require`, `duplicateWithinSecs` or `dailyTotal`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name of the rule.
    #[schema(example = "small-amounts")]
    pub name: String,
    /// Message for a refused payment.
    #[schema(example = "at most 10,000 in one payment")]
    pub message: String,
    /// CEL expression that must be true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "amountMinor <= minor('10000.00')")]
    pub require: Option<String>,
    /// Refuse a second payment with the same parties, amount and reference within this many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_within_secs: Option<u32>,
    /// Maximum amount per debtor and day, as a decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_total: Option<String>,
    /// When the rule is evaluated; both if omitted. Required for an expression that uses `now`, `executeAt`,
    /// `deadline` or `holdIfLate`. A rule that counts payments is evaluated at intake only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::rule_moments)]
    pub at: Option<Vec<String>>,
    /// What happens to a payment that breaks the rule at execution: it is held until an operator decides
    /// (`hold`, the default), or ends as REJECTED.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::on_failure)]
    pub on_failure: Option<String>,
    /// Currency of `dailyTotal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// IANA time zone of the day for `dailyTotal`. Default: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// All given conditions must hold. A route without conditions takes every payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Gateway (bank) of the payments that the route takes.
    #[schema(example = "acme")]
    pub gateway: String,
    /// ISO 4217 code of the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Smallest amount, as a decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_amount: Option<String>,
    /// Largest amount, as a decimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_amount: Option<String>,
    /// Prefix of the debtor's account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debtor_prefix: Option<String>,
    /// Prefix of the creditor's account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creditor_prefix: Option<String>,
}

/// The rules and routes in force, with their versions.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesInForce {
    /// 0 if no rules have ever been set.
    pub version: i64,
    /// The rules in force.
    pub rules: Vec<Rule>,
    /// The routes in force, in the order in which they are tried.
    pub routes: Vec<Route>,
    /// Newest first.
    pub history: Vec<RulesVersion>,
}

/// One version of the rules and routes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesVersion {
    /// Number of the version.
    pub version: i64,
    /// Time from which it applies.
    pub since: Timestamp,
    /// Who set it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// Number of rules.
    pub rules: usize,
    /// Number of routes.
    pub routes: usize,
}

/// A reload of the rules.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesReload {
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
    /// Required if the new rules would stop more than 100 waiting payments.
    #[serde(default)]
    pub confirm: bool,
}

/// The rules and routes after a reload.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesReloaded {
    /// Number of the version in force.
    pub version: i64,
    /// False if the configuration matches the rules in force.
    pub changed: bool,
    /// Number of rules.
    pub rules: usize,
    /// Number of routes.
    pub routes: usize,
    /// Number of invoice checks.
    pub checks: usize,
    /// Whether the invoice checks were reloaded too.
    pub checks_changed: bool,
    /// Effect on the waiting payments.
    pub would_stop: RulesEffect,
}

/// Effect of the rules on waiting payments at execution.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesEffect {
    /// Number of waiting payments that will be held.
    pub held: u64,
    /// Number of waiting payments that will be rejected.
    pub rejected: u64,
    /// Number of these payments by rule.
    pub by_rule: BTreeMap<String, u64>,
}

/// Result of a test of rules and routes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesTried {
    /// Number of payments tested.
    pub payments: usize,
    /// Number of payments that would be accepted.
    pub accepted: usize,
    /// Number of payments that are not valid.
    pub invalid: usize,
    /// Number of payments that a rule would refuse.
    pub refused: usize,
    /// Number of refused payments by rule.
    pub refused_by_rule: BTreeMap<String, usize>,
    /// Effect on all waiting payments at execution, whichever payments were tested.
    pub would_stop: RulesEffect,
    /// In the order of the given payments.
    pub results: Vec<TriedPayment>,
}

/// Result for one payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TriedPayment {
    /// Id of the payment, if it could be read.
    pub payment_id: Option<String>,
    /// `ACCEPTED`, `INVALID` or `REFUSED`.
    pub verdict: String,
    /// Gateway (bank) that it would use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Lane that it would use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Rule that would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Message of that rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Errors by field name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}
