//! Jobs as the API tells them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::account::masked;
use tollgate_core::job::{Excluded, JobSummary, ShownItem};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{JobResult, JobView};
use tollgate_operations::jobs::PREVIEW_LASTS;

use crate::answer::of::Of;
use crate::door::auth::Caller;

impl Of<JobView> for contract::JobPreview {
    fn of(job: JobView) -> Self {
        let JobSummary {
            count,
            amounts,
            first,
            excluded,
        } = job.summary;
        Self {
            kind: "preview".to_owned(),
            digest: job.digest,
            act: job.act.as_str().to_owned(),
            count,
            amounts: decimal_amounts(&amounts),
            first: first
                .into_iter()
                .map(contract::JobPreviewItem::of)
                .collect(),
            excluded: excluded
                .into_iter()
                .map(contract::JobExcluded::of)
                .collect(),
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

impl Of<ShownItem> for contract::JobPreviewItem {
    fn of(item: ShownItem) -> Self {
        Self {
            amount: decimal(&item.currency, item.minor),
            id: item.id.to_string(),
            currency: item.currency,
            lane: item.lane.to_string(),
            status: item.status,
            queue_status: item.queue_status,
        }
    }
}

impl Of<Excluded> for contract::JobExcluded {
    fn of(excluded: Excluded) -> Self {
        let Excluded {
            reason,
            count,
            first,
        } = excluded;
        Self {
            reason,
            count,
            first: first.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The job, who asks, and the present time.
impl Of<(JobView, &Caller, Timestamp)> for contract::Job {
    fn of((job, caller, now): (JobView, &Caller, Timestamp)) -> Self {
        let looked_at = job.done + job.left_out;
        let until = job.ended_at.unwrap_or(now);
        let lasts = job.started_at.map(|since| until.duration_since(since));
        Self {
            kind: "job".to_owned(),
            act: job.act.as_str().to_owned(),
            item_type: job.item_type.to_string(),
            state: job.state.as_str().to_owned(),
            filter: filter(&job.filter_json, caller),
            execute_at: job.requested,
            count: job.summary.count,
            amounts: decimal_amounts(&job.summary.amounts),
            left: job.summary.count.saturating_sub(looked_at),
            rate: rate(looked_at, lasts.map_or(0.0, |it| it.as_secs_f64())),
            job_id: job.id.to_string(),
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

impl Of<JobResult> for contract::JobItem {
    fn of(result: JobResult) -> Self {
        Self {
            number: result.number,
            id: result.id.to_string(),
            done: result.left_out.is_none(),
            left_out: result.left_out,
            answer: result.answer,
        }
    }
}
