//! What a rule and a route look like, for the document. They are read in the domain, from
//! `RuleText` and `RouteText`; a test compares the names.

use utoipa::ToSchema;

/// Of one kind: `require`, `duplicateWithinSecs` or `dailyTotal`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "a shape, never a value")]
pub(super) struct Rule {
    #[schema(example = "small-amounts")]
    name: String,
    /// What a refused payment is told.
    #[schema(example = "at most 10,000 in one payment")]
    message: String,
    /// CEL that must be true.
    #[schema(example = "amountMinor <= minor('10000.00')")]
    require: Option<String>,
    /// No second payment with the same parties, amount and reference within this time.
    duplicate_within_secs: Option<u32>,
    /// What a debtor may pay in a day, as a decimal.
    daily_total: Option<String>,
    /// When it is judged; both if omitted. Required for an expression that uses `now`, `executeAt`,
    /// `deadline` or `holdIfLate`. A rule that counts is judged at intake only.
    #[schema(schema_with = super::words::rule_moments)]
    at: Option<Vec<String>>,
    /// What happens to a payment that breaks the rule at execution: it waits for a person (`hold`,
    /// the default) or ends as REJECTED.
    #[schema(schema_with = super::words::on_failure)]
    on_failure: Option<String>,
    /// Of the daily total.
    currency: Option<String>,
    /// Whose days the daily total counts; UTC if not given.
    zone: Option<String>,
}

/// Every condition that is given must hold; without any it takes every payment.
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
