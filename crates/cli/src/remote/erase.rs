//! `tollgate erase …`: a person's data go.

use std::io::BufRead;

use anyhow::Context;
use http::Method;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::progress::{Awaited, Progress, wait};
use super::table::{cell, fields, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    whose: Whose,
    /// PAYMENT (default) or INVOICE.
    #[arg(long = "type", value_name = "TYPE", requires = "item")]
    item_type: Option<String>,
    /// Digest of the preview: erases what the preview showed.
    #[arg(long, requires = "reason")]
    digest: Option<String>,
    /// Reason, recorded in the audit log. Required with --digest.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// Account of a debtor or creditor, or id of a customer. `-` reads it from standard input.
    #[arg(long)]
    account: Option<String>,
    /// Id of one payment; of one invoice with --type INVOICE.
    #[arg(long, value_name = "ID")]
    item: Option<String>,
}

impl Wish {
    fn body(&self) -> anyhow::Result<Value> {
        if let Some(id) = &self.whose.item {
            let kind = self.item_type.as_deref().unwrap_or("PAYMENT");
            return Ok(json!({"item": {"type": kind, "id": id}}));
        }
        let account = match self.whose.account.as_deref() {
            Some("-") => {
                let line = std::io::stdin().lock().lines().next();
                let line = line.context("standard input is empty")?;
                line.context("standard input cannot be read")?
            }
            account => account.unwrap_or_default().to_owned(),
        };
        Ok(json!({"account": account}))
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, wish: Wish) -> anyhow::Result<()> {
    let mut body = wish.body()?;
    let Some(digest) = wish.digest else {
        body["dryRun"] = json!(true);
        let answer = client.send(Method::POST, "/admin/erasures", &body).await?;
        shown.show(&answer, previewed);
        return Ok(());
    };
    body["digest"] = json!(digest);
    body["reason"] = json!(wish.reason);
    let started = client.send(Method::POST, "/admin/erasures", &body).await?;
    let id = cell(&started["erasureId"]);
    let (path, bar) = (
        format!("/admin/erasures/{}", quoted(&id)),
        ProgressBar::new_spinner(),
    );
    let awaited = Awaited {
        name: &id,
        path: &path,
        bar: &bar,
    };
    let ended = wait(client, awaited, progress).await?;
    shown.show(&ended, one);
    Ok(())
}

fn progress(answer: &Value) -> Option<Progress> {
    let stage = cell(&answer["stage"]);
    let items = answer["items"].as_u64().unwrap_or(0);
    (stage != "DONE").then(|| Progress {
        done: items,
        all: items,
        line: format!("{items} items erased; {stage}"),
        phase: stage,
    })
}

fn previewed(answer: &Value) -> String {
    let (count, more) = (cell(&answer["count"]), answer["more"] == true);
    let more = if more { " or more" } else { "" };
    let mut text = format!("to erase: {count}{more} items\n");
    let item = |item: &Value| vec![cell(&item["type"]), cell(&item["id"])];
    let first = answer["first"].as_array().into_iter().flatten();
    let first: Vec<_> = first.map(item).collect();
    if !first.is_empty() {
        text += &table(&["type", "first items"], &first);
    }
    text += &left_out(answer);
    text += "texts, archive and exported files are searched when it runs\n";
    text += &outside(answer);
    let digest = cell(&answer["digest"]);
    text + &format!("this cannot be undone; to erase: --digest {digest} --reason …")
}

fn one(answer: &Value) -> String {
    let named = [
        ("erasure", "erasureId"),
        ("by", "actor"),
        ("reason", "reason"),
        ("items", "items"),
        ("archived items", "archived"),
        ("notifications", "notifications"),
        ("other texts", "texts"),
        ("exported files", "files"),
        ("left out", "leftOut"),
        ("started", "startedAt"),
        ("ended", "endedAt"),
    ];
    let counted = ["items", "archived", "notifications", "texts", "files"];
    let is_nothing = counted.iter().all(|name| answer[name] == 0);
    let nothing = if is_nothing {
        "nothing was found\n"
    } else {
        ""
    };
    let told = fields(answer, &named);
    format!(
        "{nothing}{}\n{}{}",
        told.trim_end(),
        left_out(answer),
        outside(answer)
    )
}

fn left_out(answer: &Value) -> String {
    let list = answer["firstLeftOut"].as_array().into_iter().flatten();
    let row = |one: &Value| {
        let item = &one["item"];
        vec![cell(&item["type"]), cell(&item["id"]), cell(&one["reason"])]
    };
    let rows: Vec<_> = list.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let count = cell(&answer["leftOut"]);
    let header = ["type", "id", "reason"];
    format!("left out: {count} items\n{}", table(&header, &rows))
}

fn outside(answer: &Value) -> String {
    let list = answer["outside"].as_array().into_iter().flatten();
    let line = |one: &Value| format!("  {}: {}\n", cell(&one["place"]), cell(&one["ends"]));
    let lines: String = list.map(line).collect();
    format!("not reached, for you to end:\n{lines}")
}
