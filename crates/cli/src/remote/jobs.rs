//! `tollgate jobs …`: acts on many items.

use std::collections::BTreeMap;

use clap::Subcommand;
use tollgate_client::contract::{
    Job, JobFilter, JobItems, JobList, JobOrPreview, JobPreview, JobRequest,
};
use tollgate_client::{Client, JobItemQuery};

use super::Shown;
use super::table::{facts, more, row, status_word, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a job would do, and its digest.
    Preview {
        #[command(flatten)]
        wish: Box<Wish>,
    },
    /// Start a job that was previewed: the same action and conditions, with the digest of the preview.
    Start {
        #[command(flatten)]
        wish: Box<Wish>,
        /// Digest of the preview.
        #[arg(long)]
        digest: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// List jobs, newest first.
    List {
        /// Next page: the token that the previous page printed.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a job, its progress, and the items it left out.
    Show {
        /// Job id.
        job: String,
    },
    /// List the results of a job, item by item.
    Items {
        /// Job id.
        job: String,
        /// Only items that were left out.
        #[arg(long)]
        left_out: bool,
        /// Next page: items after this position.
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Stop a job. Items already done stay done; the rest is left unchanged.
    Stop {
        /// Job id.
        job: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

/// What to do, and to which items. All conditions must hold; at least one is required.
#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    /// What to do: cancel, release, reschedule, replay, reopen, or ask the banks about payments in doubt.
    act: String,
    /// For reschedule: the earliest time, such as 2026-11-16T16:00:00-07:00.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Every item that the action applies to, with no other condition.
    #[arg(long)]
    all: bool,
    /// PAYMENT (default). `replay` also takes INVOICE and NOTIFICATION.
    #[arg(long = "type", value_name = "TYPE")]
    item_type: Option<String>,
    /// Items that are held.
    #[arg(long)]
    held: bool,
    /// Items whose deadline has passed and that have not ended.
    #[arg(long)]
    late: bool,
    /// Status, such as SCHEDULED.
    #[arg(long)]
    status: Option<String>,
    #[arg(long)]
    lane: Option<String>,
    #[arg(long)]
    gateway: Option<String>,
    /// Import id.
    #[arg(long, value_name = "ID")]
    import: Option<String>,
    /// Accepted at this time or later.
    #[arg(long, value_name = "TIME")]
    accepted_from: Option<String>,
    /// Accepted before this time.
    #[arg(long, value_name = "TIME")]
    accepted_to: Option<String>,
    /// Due at this time or later.
    #[arg(long, value_name = "TIME")]
    due_from: Option<String>,
    /// Due before this time.
    #[arg(long, value_name = "TIME")]
    due_to: Option<String>,
    /// Smallest amount; needs --currency.
    #[arg(long, value_name = "AMOUNT")]
    min_amount: Option<String>,
    /// Largest amount; needs --currency.
    #[arg(long, value_name = "AMOUNT")]
    max_amount: Option<String>,
    #[arg(long)]
    currency: Option<String>,
    /// Complete account number of the debtor or the creditor.
    #[arg(long)]
    account: Option<String>,
    #[arg(long)]
    reference: Option<String>,
    /// For reopen: payments that were refused in this refusal storm.
    #[arg(long, value_name = "NUMBER")]
    storm: Option<i64>,
}

impl Wish {
    fn request(self) -> JobRequest {
        let filter = JobFilter {
            all: self.all,
            item_type: self.item_type,
            status: self.status,
            lane: self.lane,
            gateway: self.gateway,
            import: self.import,
            accepted_from: self.accepted_from,
            accepted_to: self.accepted_to,
            due_from: self.due_from,
            due_to: self.due_to,
            min_amount: self.min_amount,
            max_amount: self.max_amount,
            currency: self.currency,
            account: self.account,
            reference: self.reference,
            late: self.late.then_some(true),
            held: self.held.then_some(true),
            storm: self.storm,
        };
        JobRequest {
            act: self.act,
            filter,
            execute_at: self.at,
            reason: None,
            dry_run: false,
            digest: None,
        }
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let jobs = client.jobs();
    match command {
        Command::Preview { wish } => {
            let request = JobRequest {
                dry_run: true,
                ..wish.request()
            };
            shown.show(&jobs.submit(&request).await?, job_or_preview);
        }
        Command::Start {
            wish,
            digest,
            reason,
        } => {
            let request = JobRequest {
                digest: Some(digest),
                reason: Some(reason),
                ..wish.request()
            };
            shown.show(&jobs.submit(&request).await?, job_or_preview);
        }
        Command::List { after, limit } => {
            shown.show(&jobs.list(after.as_deref(), limit).await?, list);
        }
        Command::Show { job } => shown.show(&jobs.get(&job).await?, one),
        Command::Items {
            job,
            left_out,
            after,
            limit,
        } => {
            let query = JobItemQuery {
                left_out,
                after,
                limit,
            };
            shown.show(&jobs.items(&job, &query).await?, items);
        }
        Command::Stop { job, reason } => {
            shown.show(&jobs.stop(&job, &reason).await?, one);
        }
    }
    Ok(())
}

fn job_or_preview(answer: &JobOrPreview) -> String {
    match answer {
        JobOrPreview::Preview(preview) => previewed(preview),
        JobOrPreview::Job(job) => one(job),
    }
}

fn previewed(preview: &JobPreview) -> String {
    let (act, count) = (&preview.act, preview.count);
    let mut text = format!("{act}: {count} items{}\n", sums(&preview.amounts));
    let header = [
        "first items",
        "amount",
        "currency",
        "lane",
        "status",
        "queue",
    ];
    let first: Vec<Vec<String>> = preview
        .first
        .iter()
        .map(|it| {
            row(&[
                &it.id,
                &it.amount,
                &it.currency,
                &it.lane,
                &status_word(&it.status),
                &it.queue_status,
            ])
        })
        .collect();
    text += &table(&header, &first);
    if !preview.excluded.is_empty() {
        let excluded = preview.excluded.iter();
        let excluded: Vec<Vec<String>> = excluded.map(|it| row(&[&it.count, &it.reason])).collect();
        text += "not possible for:\n";
        text += &table(&["items", "reason"], &excluded);
    }
    let (digest, until) = (&preview.digest, preview.expires_at);
    text + &format!("to start it before {until}: --digest {digest}")
}

fn sums(amounts: &BTreeMap<String, String>) -> String {
    let amounts = amounts.iter();
    let sums = amounts.map(|(currency, sum)| format!(", {sum} {currency}"));
    sums.collect()
}

fn one(job: &Job) -> String {
    facts(&[
        ("job", &job.job_id),
        ("act", &job.act),
        ("state", &job.state),
        ("filter", &job.filter),
        ("by", &job.actor),
        ("reason", &job.reason),
        ("items", &job.count),
        ("done", &job.done),
        ("left out", &job.left_out),
        ("still to do", &job.left),
        ("per second", &job.rate),
        ("started", &job.started_at),
        ("ended", &job.ended_at),
        ("stopped by", &job.stopped),
    ])
}

fn list(page: &JobList) -> String {
    if page.jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let header = [
        "job", "act", "state", "items", "done", "left out", "by", "started", "reason",
    ];
    let rows: Vec<Vec<String>> = page
        .jobs
        .iter()
        .map(|job| {
            row(&[
                &job.job_id,
                &job.act,
                &job.state,
                &job.count,
                &job.done,
                &job.left_out,
                &job.actor,
                &job.started_at,
                &job.reason,
            ])
        })
        .collect();
    table(&header, &rows) + &more(page.next.as_ref())
}

fn items(page: &JobItems) -> String {
    if page.items.is_empty() {
        return "no items".to_owned();
    }
    let header = ["number", "item", "done", "left out because", "answer"];
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|it| row(&[&it.number, &it.id, &it.done, &it.left_out, &it.answer]))
        .collect();
    table(&header, &rows) + &more(page.next.as_ref())
}
