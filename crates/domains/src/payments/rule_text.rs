//! Rules and routes as people write them: in the configuration, in a dry run, and as the setting
//! that is in force. Nothing is understood here; `rulebook.rs` reads it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// All rules and routes, one version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesText {
    #[serde(default)]
    pub rules: Vec<RuleText>,
    #[serde(default)]
    pub routes: Vec<RouteText>,
}

/// A rule is of one kind: `require`, `duplicateWithinSecs` or `dailyTotal`. The names with
/// underscores are those of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleText {
    pub name: String,
    /// Message for a refused payment.
    pub message: String,
    /// CEL; must be true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<String>,
    #[serde(
        default,
        alias = "duplicate_within_secs",
        skip_serializing_if = "Option::is_none"
    )]
    pub duplicate_within_secs: Option<u32>,
    #[serde(
        default,
        alias = "daily_total",
        skip_serializing_if = "Option::is_none"
    )]
    pub daily_total: Option<String>,
    /// When it is judged; both if not given. A rule that counts is judged at intake only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Vec<At>>,
    /// What happens to a payment that breaks it at execution; held if not given.
    #[serde(default, alias = "on_failure", skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Currency of `dailyTotal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// IANA time zone of the day for `dailyTotal`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// When a rule is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum At {
    /// When the payment comes.
    Intake,
    /// Before it is sent.
    Execution,
}

/// What happens to a payment that breaks a rule at execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It waits for a person.
    Hold,
    /// It ends as REJECTED.
    Reject,
}

/// All given conditions must hold. A route without conditions takes every payment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteText {
    pub gateway: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(default, alias = "min_amount", skip_serializing_if = "Option::is_none")]
    pub min_amount: Option<String>,
    #[serde(default, alias = "max_amount", skip_serializing_if = "Option::is_none")]
    pub max_amount: Option<String>,
    #[serde(
        default,
        alias = "debtor_prefix",
        skip_serializing_if = "Option::is_none"
    )]
    pub debtor_prefix: Option<String>,
    #[serde(
        default,
        alias = "creditor_prefix",
        skip_serializing_if = "Option::is_none"
    )]
    pub creditor_prefix: Option<String>,
}

/// Something that is wrong with rules or routes, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub place: String,
    pub what: String,
}

impl Problem {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        let (place, what) = (place.into(), what.into());
        Self { place, what }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
