//! What a rule and a route look like, for the document. They are read in the domain, from
//! `RuleText` and `RouteText`; a test compares the names.

use utoipa::ToSchema;

/// One of `require`, `duplicateWithinSecs` or `dailyTotal`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape, never a value")]
pub(super) struct Rule {
    #[schema(example = "small-amounts")]
    name: String,
    /// Message for a refused payment.
    #[schema(example = "at most 10,000 in one payment")]
    message: String,
    /// CEL expression that must be true.
    #[schema(example = "amountMinor <= minor('10000.00')")]
    require: Option<String>,
    /// Refuse a second payment with the same parties, amount and reference within this many seconds.
    duplicate_within_secs: Option<u32>,
    /// Maximum amount per debtor and day, as a decimal.
    daily_total: Option<String>,
    /// When it is judged; both if omitted. Required for an expression that uses `now`, `executeAt`,
    /// `deadline` or `holdIfLate`. A rule that counts is judged at intake only.
    #[schema(schema_with = crate::api::contract::words::rule_moments)]
    at: Option<Vec<String>>,
    /// What happens to a payment that breaks the rule at execution: it waits for a person (`hold`,
    /// the default) or ends as REJECTED.
    #[schema(schema_with = crate::api::contract::words::on_failure)]
    on_failure: Option<String>,
    /// Currency of `dailyTotal`.
    currency: Option<String>,
    /// IANA time zone of the day for `dailyTotal`. Default: UTC.
    zone: Option<String>,
}

/// All given conditions must hold. A route without conditions takes every payment.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape, never a value")]
pub(super) struct Route {
    #[schema(example = "acme")]
    gateway: String,
    currency: Option<String>,
    min_amount: Option<String>,
    max_amount: Option<String>,
    debtor_prefix: Option<String>,
    creditor_prefix: Option<String>,
}
