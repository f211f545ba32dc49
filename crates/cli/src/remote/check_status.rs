//! `tollgate check-status`: has payments asked about at their gateways, shows how far it is, and what
//! came of it.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::Args;
use super::client::{Client, quoted};
use super::table::{cell, table};

/// How often to ask how far it is.
const PACE: Duration = Duration::from_millis(200);
/// Where nobody sees a bar, a line is said once in so many questions.
const ASKED_PER_LINE: u32 = 25;
/// So many questions in a row may go unanswered, e.g. while the service restarts.
const MAX_UNANSWERED: u32 = 150;
/// The largest file of ids that is read: more than a check may have.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// So many failures are shown.
const FAILURES_SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Asked {
    /// The payments to ask about.
    #[arg(value_name = "ID", required_unless_present = "file")]
    ids: Vec<String>,
    /// Reads ids from a file, one on a line; "-" is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    file: Option<PathBuf>,
    /// Returns as soon as the check has started.
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(args: &Args, asked: &Asked) -> ExitCode {
    match check(args, asked).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            say(&format!("tollgate: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// How many payments could not be asked about.
async fn check(args: &Args, asked: &Asked) -> anyhow::Result<usize> {
    let client = Client::new(args)?;
    let ids = match &asked.file {
        Some(file) => ids_in(file)?,
        None => asked.ids.clone(),
    };
    let body = json!({"paymentIds": ids});
    let started = client
        .send(Method::POST, "/payments/check-status", &body)
        .await?;
    let workflow = started["workflowId"].as_str().context("half an answer")?;
    if asked.no_wait {
        args.shown()
            .show(&started, |_| format!("check {workflow} runs"));
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
        "{shown} is larger than {MAX_FILE_BYTES} bytes; ask about at most 10,000 payments at once"
    );
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let ids: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(!ids.is_empty(), "{shown} has no ids, one on a line");
    Ok(ids)
}

/// Asks until it has ended.
pub(super) async fn wait(client: &Client, workflow: &str) -> anyhow::Result<Value> {
    let path = format!("/payments/check-status/{}", quoted(workflow));
    let bar = bar();
    let (mut asked, mut unanswered) = (0_u32, 0);
    loop {
        let answer = match client.get(&path).await {
            Ok(answer) => answer,
            Err(_) if unanswered < MAX_UNANSWERED => {
                unanswered += 1;
                tokio::time::sleep(PACE).await;
                continue;
            }
            Err(error) => {
                let later = format!("{workflow} goes on; ask for it with GET {path}");
                return Err(error.context(later));
            }
        };
        unanswered = 0;
        if answer["status"] != "RUNNING" {
            bar.finish_and_clear();
            return Ok(answer);
        }
        let progress = &answer["progress"];
        let number = |name: &str| progress[name].as_u64().unwrap_or(0);
        let phase = cell(&progress["currentPhase"]);
        bar.set_length(number("chunksTotal"));
        bar.set_position(number("chunksCompleted"));
        bar.set_message(phase.clone());
        asked += 1;
        if bar.is_hidden() && asked.is_multiple_of(ASKED_PER_LINE) {
            let (done, all) = (number("chunksCompleted"), number("chunksTotal"));
            say(&format!("{phase}: {done} of {all} chunks"));
        }
        tokio::time::sleep(PACE).await;
    }
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
        let _ = writeln!(text, "and {more} more: --json shows all");
    }
    text
}

/// A bar on a terminal, nothing elsewhere.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{msg}  {bar:30} {human_pos}/{human_len} chunks {elapsed}";
    let style =
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn say(text: &str) {
    eprintln!("{text}");
}
