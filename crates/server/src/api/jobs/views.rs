//! Jobs as the API tells them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_core::Timestamp;
use tollgate_core::account::masked;
use tollgate_core::id::{ItemId, JobId, LaneName};
use tollgate_core::job::{Excluded, JobSummary, ShownItem};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{JobResult, JobView};
use utoipa::ToSchema;

use crate::api::contract::words;
use crate::door::auth::Caller;
use crate::jobs::PREVIEW_LASTS;

/// What a job would do. Confirm it with the same request, `digest` instead of `dryRun`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobPreview)]
pub(crate) struct PreviewResponse {
    #[schema(schema_with = words::preview_kind)]
    kind: &'static str,
    /// Confirms exactly these items.
    digest: String,
    #[schema(schema_with = words::job_act)]
    act: &'static str,
    /// Number of items.
    count: u64,
    /// Amounts by currency.
    #[schema(example = json!({"USD": "1255.00"}))]
    amounts: BTreeMap<String, String>,
    /// Up to 20 items, sorted by id.
    first: Vec<ItemResponse>,
    /// Items that the filter selects and the act does not apply to, by reason.
    excluded: Vec<ExcludedResponse>,
    /// The preview can be confirmed until this time.
    expires_at: Timestamp,
}

impl From<JobView> for PreviewResponse {
    fn from(job: JobView) -> Self {
        let JobSummary {
            count,
            amounts,
            first,
            excluded,
        } = job.summary;
        Self {
            kind: "preview",
            digest: job.digest,
            act: job.act.as_str(),
            count,
            amounts: decimal_amounts(&amounts),
            first: first.into_iter().map(ItemResponse::from).collect(),
            excluded: excluded.into_iter().map(ExcludedResponse::from).collect(),
            expires_at: job.previewed_at + PREVIEW_LASTS,
        }
    }
}

fn decimal_amounts(amounts: &BTreeMap<String, i64>) -> BTreeMap<String, String> {
    let one = |(code, minor): (&String, &i64)| (code.clone(), decimal(code, *minor));
    amounts.iter().map(one).collect()
}

fn decimal(code: &str, minor: i64) -> String {
    match Currency::from_code(code) {
        Some(currency) => Money { minor, currency }.decimal(),
        None => minor.to_string(),
    }
}

/// One item of a preview.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobPreviewItem)]
struct ItemResponse {
    #[schema(value_type = String, example = "pay_001")]
    id: ItemId,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: String,
    #[schema(value_type = String, example = "default")]
    lane: LaneName,
    status: String,
    #[schema(schema_with = words::queue_status)]
    queue_status: String,
}

impl From<ShownItem> for ItemResponse {
    fn from(item: ShownItem) -> Self {
        Self {
            amount: decimal(&item.currency, item.minor),
            id: item.id,
            currency: item.currency,
            lane: item.lane,
            status: item.status,
            queue_status: item.queue_status,
        }
    }
}

/// Items that are left out, for one reason.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = JobExcluded)]
struct ExcludedResponse {
    #[schema(example = "it was sent and may have been executed")]
    reason: String,
    count: u64,
    /// Up to five of them.
    #[schema(value_type = Vec<String>)]
    first: Vec<ItemId>,
}

impl From<Excluded> for ExcludedResponse {
    fn from(excluded: Excluded) -> Self {
        let Excluded {
            reason,
            count,
            first,
        } = excluded;
        Self {
            reason,
            count,
            first,
        }
    }
}

/// The preview of a job, or the job itself; `kind` tells which.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = JobOrPreview, discriminator(property_name = "kind", mapping(
    ("preview" = "#/components/schemas/JobPreview"),
    ("job" = "#/components/schemas/Job"),
)))]
pub(super) enum JobOrPreview {
    Preview(PreviewResponse),
    Job(Box<JobResponse>),
}

/// A job: one act on many items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub(super) struct JobResponse {
    #[schema(schema_with = words::job_kind)]
    kind: &'static str,
    #[schema(value_type = String, example = "job-20261116-170000-000123")]
    pub(super) job_id: JobId,
    #[schema(schema_with = words::job_act)]
    act: &'static str,
    #[schema(example = "PAYMENT")]
    item_type: String,
    #[schema(schema_with = words::job_state)]
    state: &'static str,
    #[schema(schema_with = words::conditions)]
    filter: Map<String, Value>,
    /// For `reschedule`: the earliest time.
    execute_at: Option<Timestamp>,
    actor: String,
    reason: String,
    /// Number of items.
    count: u64,
    /// Amounts by currency.
    #[schema(example = json!({"USD": "1255.00"}))]
    amounts: BTreeMap<String, String>,
    /// Number of items done.
    done: u64,
    /// Number of items left out: changed since the preview, or the act no longer applies.
    left_out: u64,
    /// Number of items that were not looked at yet. A stopped job leaves them unchanged.
    left: u64,
    /// Items per second since the start.
    #[schema(example = 480.5)]
    rate: f64,
    previewed_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// Who stopped it and why; null otherwise.
    stopped: Option<String>,
}

impl JobResponse {
    pub(crate) fn new(job: JobView, caller: &Caller, now: Timestamp) -> Self {
        let looked_at = job.done + job.left_out;
        let until = job.ended_at.unwrap_or(now);
        let lasts = job.started_at.map(|since| until.duration_since(since));
        Self {
            kind: "job",
            act: job.act.as_str(),
            item_type: job.item_type.to_string(),
            state: job.state.as_str(),
            filter: filter(&job.filter_json, caller),
            execute_at: job.requested,
            count: job.summary.count,
            amounts: decimal_amounts(&job.summary.amounts),
            left: job.summary.count.saturating_sub(looked_at),
            rate: rate(looked_at, lasts.map_or(0.0, |it| it.as_secs_f64())),
            job_id: job.id,
            actor: job.actor,
            reason: job.reason,
            done: job.done,
            left_out: job.left_out,
            previewed_at: job.previewed_at,
            started_at: job.started_at,
            ended_at: job.ended_at,
            stopped: job.stopped,
        }
    }
}

/// To a tenth.
fn rate(items: u64, secs: f64) -> f64 {
    let items = u32::try_from(items).unwrap_or(u32::MAX);
    let tenths = (f64::from(items) * 10.0 / secs.max(0.1)).round();
    tenths / 10.0
}

fn filter(text: &str, caller: &Caller) -> Map<String, Value> {
    let mut filter: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    if let (Some(Value::String(account)), false) =
        (filter.get_mut("account"), caller.sees_accounts())
    {
        *account = masked(account);
    }
    filter
}

/// The result of one item of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobItem)]
pub(crate) struct ResultResponse {
    /// Position among the items of the job.
    number: u64,
    #[schema(value_type = String, example = "pay_001")]
    id: ItemId,
    /// Whether the act was done.
    done: bool,
    /// Why the item was left out; null if it was done.
    left_out: Option<String>,
    /// With `ask`: what the bank answered, in one sentence. Null otherwise.
    #[schema(example = "the bank has executed it; no longer in doubt")]
    answer: Option<String>,
}

impl From<JobResult> for ResultResponse {
    fn from(result: JobResult) -> Self {
        Self {
            number: result.number,
            id: result.id,
            done: result.left_out.is_none(),
            left_out: result.left_out,
            answer: result.answer,
        }
    }
}
