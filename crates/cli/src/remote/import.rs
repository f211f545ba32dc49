//! `tollgate import FILE`: streams a file to the service, shows how far it is, and what became of
//! its lines.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use sha2::{Digest, Sha256};
use tollgate_client::contract::{BulkErrors, BulkLineError, BulkState};
use tollgate_client::{Answer, Client, FileFormat, Upload, quoted};

use super::Args;
use super::connect;
use super::progress::{self, Awaited, Progress, exit};
use super::table::{cell, row, table};
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

impl From<Format> for FileFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Csv => Self::Csv,
            Format::Ndjson => Self::Ndjson,
        }
    }
}

pub(super) async fn run(args: &Args, file: &File) -> ExitCode {
    exit(import(args, file).await.map(|rejected| rejected == 0))
}

/// How many lines were rejected.
async fn import(args: &Args, file: &File) -> anyhow::Result<u64> {
    let client = connect::client(args)?;
    let format = file.format.map(FileFormat::from);
    let Some(format) = format.or_else(|| FileFormat::of(&file.path)) else {
        bail!(
            "{}: unknown file format; use --format csv or --format ndjson",
            file.path.display()
        );
    };
    let batch = upload(&client, file, format).await?;
    if file.no_wait {
        let answer = client.imports().get(&batch).await?;
        args.shown().show(&answer, |_| format!("batch {batch}"));
        return Ok(0);
    }
    let done = wait(&client, &batch).await?;
    let errors = client.imports().errors(&batch, None, Some(ERRORS_SHOWN));
    let errors = errors.await?;
    args.shown().show(&done, |done| summary(done, &errors));
    Ok(done.rejected)
}

/// Sends the file under a key that is its digest: sent twice, it is one batch.
async fn upload(client: &Client, file: &File, format: FileFormat) -> anyhow::Result<String> {
    let shown = file.path.display();
    let (mut key, size) = digest(&file.path).with_context(|| format!("{shown} cannot be read"))?;
    if file.again {
        let _ = write!(key, ".{}", rand::random::<u64>());
    }
    let bar = bar(
        size,
        "uploading  {bar:30} {bytes}/{total_bytes} {bytes_per_sec}",
    );
    let sending = bar.clone();
    let upload = Upload::new(&file.path, format)
        .key(key)
        .size(size)
        .progress(move |bytes| sending.inc(bytes));
    let sent = client
        .imports()
        .upload(upload)
        .await
        .with_context(|| format!("{shown} was not imported; it is safe to import it again"))?;
    bar.finish_and_clear();
    let batch = &sent.batch_id;
    say(&format!("{shown}: {size} bytes uploaded, batch {batch}"));
    if let Some(before) = sent.imported_at {
        say(&format!(
            "the same file was imported at {before}; use --again to import it once more"
        ));
    }
    Ok(sent.into_value().batch_id)
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
async fn wait(client: &Client, batch: &str) -> anyhow::Result<Answer<BulkState>> {
    let awaited = Awaited {
        name: &format!("batch {batch}"),
        path: &format!("/payments/bulk/{}", quoted(batch)),
        bar: &bar(
            0,
            "importing  {bar:30} {human_pos}/{human_len} lines {per_sec}",
        ),
    };
    let done = progress::wait(client, awaited, lines_judged).await?;
    // Only now is it worth the work, and only if something would be late.
    match &done.deadline {
        Some(deadline) if deadline.misses > 0 => {
            Ok(client.imports().get_with_enough(batch).await?)
        }
        Some(_) | None => Ok(done),
    }
}

fn lines_judged(import: &BulkState) -> Option<Progress> {
    if import.state == "DONE" {
        return None;
    }
    let judged = import.accepted + import.duplicate + import.rejected;
    let lines = import.lines;
    Some(Progress {
        done: judged,
        all: lines,
        phase: String::new(),
        line: format!("{judged} of {lines} lines"),
    })
}

fn summary(done: &BulkState, errors: &BulkErrors) -> String {
    let mut rows = vec![
        row(&[&"lines", &done.lines]),
        row(&[&"accepted", &done.accepted]),
        row(&[&"duplicate", &done.duplicate]),
        row(&[&"rejected", &done.rejected]),
    ];
    for sum in &done.amounts {
        rows.push(row(&[&format!("amount {}", sum.currency), &sum.amount]));
    }
    let verdict = done.deadline.as_ref().map(|it| it.verdict.as_str());
    rows.push(row(&[&"first slot", &done.first_slot]));
    rows.push(row(&[&"last slot", &done.last_slot]));
    rows.push(row(&[&"deadline", &verdict]));
    if !done.order_kept {
        let lost = "not kept: a chunk of the file kept failing, and later chunks overtook it";
        rows.push(row(&[&"order", &lost]));
    }
    let batch = &done.batch_id;
    let mut text = table(&["batch", batch], &rows);
    if errors.errors.is_empty() {
        return text;
    }
    text.push_str("\nRejected\n");
    let rejected: Vec<_> = errors.errors.iter().map(rejected).collect();
    text.push_str(&table(&["line", "payment", "error"], &rejected));
    if errors.next.is_some() {
        let _ = write!(
            text,
            "see all rejected lines: GET /payments/bulk/{batch}/errors"
        );
    }
    text
}

fn rejected(line: &BulkLineError) -> Vec<String> {
    let details = line.details.iter();
    let details = details.map(|(field, what)| format!("{field} {what}"));
    vec![
        cell(&line.line),
        cell(&line.payment_id),
        details.collect::<Vec<_>>().join("; "),
    ]
}
