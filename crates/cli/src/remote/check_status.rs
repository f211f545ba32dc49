//! `tollgate check-status`: has payments asked about at their gateways, shows how far it is, and what
//! came of it.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use super::Args;
use super::client::{Client, quoted};
use super::progress::{self, Awaited, Progress, exit};
use super::table::{cell, table};
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
    let client = Client::new(args)?;
    let ids = match &asked.file {
        Some(file) => ids_in(file)?,
        None => asked.ids.clone(),
    };
    let body = json!({"paymentIds": ids});
    let started = client
        .send(Method::POST, "/payments/check-status", &body)
        .await?;
    let workflow = started["workflowId"]
        .as_str()
        .context("incomplete answer")?;
    if asked.no_wait {
        args.shown()
            .show(&started, |_| format!("status check {workflow} is running"));
        return Ok(0);
    }
    let done = wait(&client, workflow).await?;
    args.shown().show(&done, summary);
    if done["status"] == "FAILED" {
        bail!("the check failed: {}", cell(&done["error"]));
    }
    Ok(failures(&done["result"]))
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
pub(super) async fn wait(client: &Client, workflow: &str) -> anyhow::Result<Value> {
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
pub(super) fn asked_about(done: &Value) -> usize {
    let by_gateway = done["result"]["successful"].as_object();
    let lists = by_gateway.into_iter().flatten();
    lists
        .map(|(_, ids)| ids.as_array().map_or(0, Vec::len))
        .sum()
}

fn chunks_ended(answer: &Value) -> Option<Progress> {
    if answer["status"] != "RUNNING" {
        return None;
    }
    let number = |name: &str| answer["progress"][name].as_u64().unwrap_or(0);
    let (done, all) = (number("chunksCompleted"), number("chunksTotal"));
    let phase = cell(&answer["progress"]["currentPhase"]);
    let line = format!("{phase}: {done} of {all} chunks");
    Some(Progress {
        done,
        all,
        phase,
        line,
    })
}

/// Each with the gateway, the stage and the error.
fn failed(result: &Value) -> Vec<Vec<String>> {
    let mut rows = vec![];
    for (gateway, chunks) in result["failed"].as_object().into_iter().flatten() {
        for chunk in chunks.as_array().into_iter().flatten() {
            for id in chunk["paymentIds"].as_array().into_iter().flatten() {
                let (stage, error) = (cell(&chunk["stage"]), cell(&chunk["error"]));
                rows.push(vec![cell(id), gateway.clone(), stage, error]);
            }
        }
    }
    for id in result["gatewayLookupFailed"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let why = "its gateway could not be looked up".to_owned();
        rows.push(vec![cell(id), String::new(), "ES".to_owned(), why]);
    }
    rows
}

fn failures(result: &Value) -> usize {
    failed(result).len()
}

fn summary(done: &Value) -> String {
    let result = &done["result"];
    let asked = result["successful"].as_object().into_iter().flatten();
    let asked = asked.map(|(gateway, ids)| {
        let count = ids.as_array().map_or(0, Vec::len);
        vec![gateway.clone(), count.to_string()]
    });
    let asked: Vec<Vec<String>> = asked.collect();
    let failed = failed(result);
    let mut text = format!(
        "{} {}, {} payments\n{}",
        cell(&done["workflowId"]),
        cell(&done["status"]),
        cell(&done["progress"]["totalPayments"]),
        table(&["gateway", "asked about"], &asked)
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
