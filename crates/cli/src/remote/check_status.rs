//! `tollgate check-status`: has payments asked about at their gateways, shows how far it is, and what
//! came of it.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use tollgate_client::contract::{CheckResult, CheckStatus, CheckStatusRequest};
use tollgate_client::{Answer, Client, quoted};

use super::Args;
use super::connect;
use super::progress::{self, Awaited, Progress, exit};
use super::table::{cell, row, table};
use crate::talk::bar;

/// The largest file of ids that is read: more than a check may have.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// At most this many failures are shown.
const FAILURES_SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Payment ids.
    #[arg(value_name = "ID", required_unless_present = "file")]
    ids: Vec<String>,
    /// Read payment ids from a file, one per line; "-" reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    file: Option<PathBuf>,
    /// Return as soon as the check has started.
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(args: &Args, asked: &CheckArgs) -> ExitCode {
    exit(check(args, asked).await.map(|failed| failed == 0))
}

/// How many payments could not be asked about.
async fn check(args: &Args, asked: &CheckArgs) -> anyhow::Result<usize> {
    let client = connect::client(args)?;
    let ids = match &asked.file {
        Some(file) => ids_in(file)?,
        None => asked.ids.clone(),
    };
    let request = CheckStatusRequest { payment_ids: ids };
    let started = client.status_checks().start(&request).await?;
    let workflow = &started.workflow_id;
    if asked.no_wait {
        args.shown()
            .show(&started, |_| format!("status check {workflow} is running"));
        return Ok(0);
    }
    let done = wait(&client, workflow).await?;
    args.shown().show(&done, summary);
    if done.status == "FAILED" {
        bail!("the check failed: {}", cell(&done.error));
    }
    Ok(failed(done.result.as_ref()).len())
}

fn ids_in(path: &Path) -> anyhow::Result<Vec<String>> {
    let shown = path.display();
    let cannot = || format!("{shown} cannot be read");
    let mut text = String::new();
    let read = if path == Path::new("-") {
        let input = std::io::stdin().lock();
        input.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).with_context(cannot)?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    };
    let size = read.with_context(cannot)?;
    ensure!(
        size as u64 <= MAX_FILE_BYTES,
        "{shown} is larger than {MAX_FILE_BYTES} bytes; check at most 10,000 payments at once"
    );
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let ids: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(
        !ids.is_empty(),
        "{shown} contains no ids; write one id per line"
    );
    Ok(ids)
}

/// Asks until it has ended.
pub(super) async fn wait(client: &Client, workflow: &str) -> anyhow::Result<Answer<CheckStatus>> {
    let awaited = Awaited {
        name: workflow,
        path: &format!("/payments/check-status/{}", quoted(workflow)),
        bar: &bar(
            0,
            "{msg}  {bar:30} {human_pos}/{human_len} chunks {elapsed}",
        ),
    };
    progress::wait(client, awaited, chunks_ended).await
}

/// How many payments their gateways were asked about.
pub(super) fn asked_about(done: &CheckStatus) -> usize {
    let lists = done.result.iter().flat_map(|result| &result.successful);
    lists.map(|(_, ids)| ids.len()).sum()
}

fn chunks_ended(check: &CheckStatus) -> Option<Progress> {
    if check.status != "RUNNING" {
        return None;
    }
    let progress = check.progress.as_ref();
    let number = |of: Option<u32>| of.map_or(0, u64::from);
    let done = number(progress.map(|it| it.chunks_completed));
    let all = number(progress.map(|it| it.chunks_total));
    let phase = cell(&progress.map(|it| it.current_phase.as_str()));
    let line = format!("{phase}: {done} of {all} chunks");
    Some(Progress {
        done,
        all,
        phase,
        line,
    })
}

/// Each with the gateway, the stage and the error.
fn failed(result: Option<&CheckResult>) -> Vec<Vec<String>> {
    let Some(result) = result else {
        return vec![];
    };
    let mut rows = vec![];
    for (gateway, chunks) in &result.failed {
        for chunk in chunks {
            let failed = chunk.payment_ids.iter();
            rows.extend(failed.map(|id| row(&[id, gateway, &chunk.stage, &chunk.error])));
        }
    }
    let why = "its gateway could not be looked up";
    let unknown = result.gateway_lookup_failed.iter();
    rows.extend(unknown.map(|id| row(&[id, &"", &"ES", &why])));
    rows
}

fn summary(done: &CheckStatus) -> String {
    let asked = done.result.iter().flat_map(|result| &result.successful);
    let asked: Vec<Vec<String>> = asked
        .map(|(gateway, ids)| row(&[gateway, &ids.len()]))
        .collect();
    let failed = failed(done.result.as_ref());
    let mut text = format!(
        "{} {}, {} payments\n{}",
        done.workflow_id,
        done.status,
        cell(&done.progress.as_ref().map(|it| it.total_payments)),
        table(&["gateway", "payments checked"], &asked)
    );
    if !failed.is_empty() {
        let shown = &failed[..failed.len().min(FAILURES_SHOWN)];
        text.push_str("\nFailed\n");
        text.push_str(&table(&["payment", "gateway", "stage", "error"], shown));
    }
    if failed.len() > FAILURES_SHOWN {
        let more = failed.len() - FAILURES_SHOWN;
        let _ = writeln!(text, "{more} more; use --json to see all");
    }
    text
}
