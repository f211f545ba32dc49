//! Acts on many items.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::words;

/// What a job would do. To confirm it, send the same request with `digest` instead of `dryRun`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPreview {
    /// Which kind of answer this is.
    #[schema(schema_with = words::preview_kind)]
    pub kind: String,
    /// Confirms exactly these items.
    pub digest: String,
    /// What would be done to each item.
    #[schema(schema_with = words::job_act)]
    pub act: String,
    /// Number of items.
    pub count: u64,
    /// Amounts by currency.
    #[schema(example = json!({"USD": "1255.00"}))]
    pub amounts: BTreeMap<String, String>,
    /// Up to 20 items, sorted by id.
    pub first: Vec<JobPreviewItem>,
    /// Items that the filter selects but the action does not apply to, by reason.
    pub excluded: Vec<JobExcluded>,
    /// The preview can be confirmed until this time.
    pub expires_at: Timestamp,
}

/// One item of a preview.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPreviewItem {
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Name of the lane.
    #[schema(example = "default")]
    pub lane: String,
    /// Current status.
    pub status: String,
    /// Place in the queue.
    #[schema(schema_with = words::queue_status)]
    pub queue_status: String,
}

/// Items that are left out, for one reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobExcluded {
    /// Why the action does not apply.
    #[schema(example = "it was sent and may have been executed")]
    pub reason: String,
    /// Number of items.
    pub count: u64,
    /// Up to five of them.
    pub first: Vec<String>,
}

/// The preview of a job, or the job itself; `kind` says which.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("preview" = "#/components/schemas/JobPreview"),
    ("job" = "#/components/schemas/Job"),
)))]
pub enum JobOrPreview {
    /// What the job would do.
    Preview(JobPreview),
    /// The job.
    Job(Box<Job>),
}

/// A job: one action on many items.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Which kind of answer this is.
    #[schema(schema_with = words::job_kind)]
    pub kind: String,
    /// Id of the job.
    #[schema(example = "job-20261116-170000-000123")]
    pub job_id: String,
    /// What is done to each item.
    #[schema(schema_with = words::job_act)]
    pub act: String,
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// State of the job.
    #[schema(schema_with = words::job_state)]
    pub state: String,
    /// The items to select.
    #[schema(schema_with = words::conditions)]
    pub filter: Map<String, Value>,
    /// For `reschedule`: the earliest time.
    pub execute_at: Option<Timestamp>,
    /// Who started it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// Number of items.
    pub count: u64,
    /// Amounts by currency.
    #[schema(example = json!({"USD": "1255.00"}))]
    pub amounts: BTreeMap<String, String>,
    /// Number of items done.
    pub done: u64,
    /// Number of items left out: changed since the preview, or the action no longer applies.
    pub left_out: u64,
    /// Number of items that have not been processed yet. A stopped job leaves them unchanged.
    pub left: u64,
    /// Items per second since the start.
    #[schema(example = 480.5)]
    pub rate: f64,
    /// Time of the preview.
    pub previewed_at: Timestamp,
    /// Start. Null until it is confirmed.
    pub started_at: Option<Timestamp>,
    /// End. Null while it runs.
    pub ended_at: Option<Timestamp>,
    /// Who stopped it and why; null otherwise.
    pub stopped: Option<String>,
}

/// The result of one item of a job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobItem {
    /// Position in the list of the job's items.
    pub number: u64,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Whether the action was done.
    pub done: bool,
    /// Why the item was left out; null if it was done.
    pub left_out: Option<String>,
    /// With `ask`: the bank's answer in one sentence. Otherwise null.
    #[schema(example = "the bank has executed it; no longer in doubt")]
    pub answer: Option<String>,
}

/// Jobs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobList {
    /// The jobs of this page.
    pub jobs: Vec<Job>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<String>,
    /// Number of jobs in the whole list, counted up to 10,000.
    pub count: u64,
    /// Whether there are more than `count`.
    pub at_least: bool,
}

/// The results of a job, item by item.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobItems {
    /// The results of this page.
    pub items: Vec<JobItem>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<u64>,
    /// Number of results in the whole list.
    pub count: u64,
}

/// One action on many items, or its preview.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobRequest {
    /// What to do to each item.
    #[schema(schema_with = words::job_act)]
    pub act: String,
    /// The items to select.
    pub filter: JobFilter,
    /// For `reschedule`: the earliest time, with an offset or with a time zone in brackets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-16T16:00:00-07:00")]
    pub execute_at: Option<String>,
    /// Reason, recorded in the audit log. Required to start the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500, example = "the customer called")]
    pub reason: Option<String>,
    /// Only preview the job.
    #[serde(default)]
    pub dry_run: bool,
    /// The `digest` of the preview to start. `act` and `filter` must be the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 64, max_length = 64)]
    pub digest: Option<String>,
}

/// The items to select. All conditions must hold; at least one is required.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobFilter {
    /// Set to true to select every item that the action applies to, with no other condition.
    pub all: bool,
    /// `PAYMENT` (default). `replay` also takes `INVOICE` and `NOTIFICATION`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(example = "PAYMENT")]
    pub item_type: Option<String>,
    /// Default: `SCHEDULED` to cancel or reschedule, `REJECTED` to reopen, `IN_DOUBT` to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::payment_status, required = false)]
    pub status: Option<String>,
    /// Lane of the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "default")]
    pub lane: Option<String>,
    /// The gateway chosen when the payment was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Import: its `batchId`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// Accepted at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_from: Option<String>,
    /// Accepted before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_to: Option<String>,
    /// Due at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_from: Option<String>,
    /// Due before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_to: Option<String>,
    /// Smallest amount; needs `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "10.00")]
    pub min_amount: Option<String>,
    /// Largest amount; needs `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1000.00")]
    pub max_amount: Option<String>,
    /// ISO 4217 code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Z]{3}$", example = "USD")]
    pub currency: Option<String>,
    /// Complete account number of the debtor or the creditor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub account: Option<String>,
    /// Reference of the payments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub reference: Option<String>,
    /// Whether the deadline passed before the payment ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// Whether the item is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Number of a refusal storm: payments that were refused in it. Only with `reopen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 1)]
    pub storm: Option<i64>,
}
