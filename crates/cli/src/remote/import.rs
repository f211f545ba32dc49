//! `tollgate import FILE`: streams a file to the service, shows how far it is, and what became of
//! its lines.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Args;
use super::client::{Client, quoted};
use super::file_body::FileBody;
use super::progress::{self, Awaited, Progress, exit};
use super::table::{cell, table};
use crate::talk::{bar, say};

/// At most this many rejected lines are shown.
const ERRORS_SHOWN: u32 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct File {
    /// NDJSON file (one payment as JSON per line), or CSV file with a header.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// File format. Default: by file extension.
    #[arg(long)]
    format: Option<Format>,
    /// Return as soon as the file is durable, without waiting for its lines.
    #[arg(long)]
    no_wait: bool,
    /// Import the file again, even if it was imported before. Existing payments do not change.
    #[arg(long)]
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Ndjson,
}

impl Format {
    fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            _ => None,
        }
    }
}

pub(super) async fn run(args: &Args, file: &File) -> ExitCode {
    exit(import(args, file).await.map(|rejected| rejected == 0))
}

/// How many lines were rejected.
async fn import(args: &Args, file: &File) -> anyhow::Result<u64> {
    let client = Client::new(args)?;
    let Some(format) = file.format.or_else(|| Format::of(&file.path)) else {
        bail!(
            "{}: unknown file format; use --format csv or --format ndjson",
            file.path.display()
        );
    };
    let batch = upload(&client, file, format).await?;
    if file.no_wait {
        let path = format!("/payments/bulk/{}", quoted(&batch));
        let answer = client.get(&path).await?;
        args.shown().show(&answer, |_| format!("batch {batch}"));
        return Ok(0);
    }
    let done = wait(&client, &batch).await?;
    let errors = format!(
        "/payments/bulk/{}/errors?limit={ERRORS_SHOWN}",
        quoted(&batch)
    );
    let errors = client.get(&errors).await?;
    args.shown().show(&done, |done| summary(done, &errors));
    Ok(done["rejected"].as_u64().unwrap_or(0))
}

/// Sends the file under a key that is its digest: sent twice, it is one batch.
async fn upload(client: &Client, file: &File, format: Format) -> anyhow::Result<String> {
    let shown = file.path.display();
    let cannot = || format!("{shown} cannot be read");
    let (mut key, size) = digest(&file.path).with_context(cannot)?;
    if file.again {
        let _ = write!(key, ".{}", rand::random::<u64>());
    }
    let bar = bar(
        size,
        "uploading  {bar:30} {bytes}/{total_bytes} {bytes_per_sec}",
    );
    let body = FileBody::open(&file.path, size, bar.clone()).with_context(cannot)?;
    let name = file.path.file_name().unwrap_or_default();
    let path = format!("/payments/bulk?name={}", quoted(&name.to_string_lossy()));
    let sent = client
        .upload(&path, format.media_type(), &key, body)
        .await
        .with_context(|| format!("{shown} was not imported; it is safe to import it again"))?;
    bar.finish_and_clear();
    let batch = sent["batchId"].as_str().context("incomplete answer")?;
    say(&format!("{shown}: {size} bytes uploaded, batch {batch}"));
    if let Some(before) = sent["importedAt"].as_str() {
        say(&format!(
            "the same file was imported at {before}; use --again to import it once more"
        ));
    }
    Ok(batch.to_owned())
}

fn digest(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        size += read as u64;
    }
    Ok((hex::encode(digest.finalize()), size))
}

/// Asks until every line is judged.
async fn wait(client: &Client, batch: &str) -> anyhow::Result<Value> {
    let path = format!("/payments/bulk/{}", quoted(batch));
    let awaited = Awaited {
        name: &format!("batch {batch}"),
        path: &path,
        bar: &bar(
            0,
            "taking in  {bar:30} {human_pos}/{human_len} lines {per_sec}",
        ),
    };
    let done = progress::wait(client, awaited, lines_judged).await?;
    // Only now is it worth the work, and only if something would be late.
    match done["deadline"]["misses"].as_u64() {
        None | Some(0) => Ok(done),
        Some(_) => client.get(&format!("{path}?enough=true")).await,
    }
}

fn lines_judged(answer: &Value) -> Option<Progress> {
    if answer["state"] == "DONE" {
        return None;
    }
    let judged = ["accepted", "duplicate", "rejected"];
    let judged = judged.map(|name| answer[name].as_u64().unwrap_or(0));
    let (judged, lines) = (judged.iter().sum(), answer["lines"].as_u64().unwrap_or(0));
    Some(Progress {
        done: judged,
        all: lines,
        phase: String::new(),
        line: format!("{judged} of {lines} lines"),
    })
}

fn summary(done: &Value, errors: &Value) -> String {
    let row = |title: &str, value: String| vec![title.to_owned(), value];
    let mut rows = vec![
        row("lines", cell(&done["lines"])),
        row("accepted", cell(&done["accepted"])),
        row("duplicate", cell(&done["duplicate"])),
        row("rejected", cell(&done["rejected"])),
    ];
    for amount in done["amounts"].as_array().into_iter().flatten() {
        let currency = cell(&amount["currency"]);
        rows.push(row(&format!("amount {currency}"), cell(&amount["amount"])));
    }
    rows.push(row("first slot", cell(&done["firstSlot"])));
    rows.push(row("last slot", cell(&done["lastSlot"])));
    rows.push(row("deadline", cell(&done["deadline"]["verdict"])));
    if done["orderKept"] == false {
        let lost = "not kept: a chunk of the file kept failing, and later chunks overtook it";
        rows.push(row("order", lost.to_owned()));
    }
    let batch = cell(&done["batchId"]);
    let mut text = table(&["batch", &batch], &rows);
    let listed: Vec<_> = errors["errors"].as_array().into_iter().flatten().collect();
    if listed.is_empty() {
        return text;
    }
    text.push_str("\nRejected\n");
    let rejected = listed.iter().map(|error| {
        let details = error["details"].as_object().into_iter().flatten();
        let details = details.map(|(field, what)| format!("{field} {}", cell(what)));
        vec![
            cell(&error["line"]),
            cell(&error["paymentId"]),
            details.collect::<Vec<_>>().join("; "),
        ]
    });
    let rejected: Vec<_> = rejected.collect();
    text.push_str(&table(&["line", "payment", "error"], &rejected));
    if !errors["next"].is_null() {
        let _ = write!(
            text,
            "see all rejected lines: GET /payments/bulk/{batch}/errors"
        );
    }
    text
}
