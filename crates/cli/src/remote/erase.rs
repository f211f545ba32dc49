//! `tollgate erase …`: a person's data go.

use std::io::BufRead;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use tollgate_client::contract::{
    Erasure, ErasureItem, ErasureLeftOut, ErasureOrPreview, ErasureOutside, ErasurePreview,
    ErasureRequest,
};
use tollgate_client::{Client, quoted};

use super::Shown;
use super::progress::{Awaited, Progress, wait};
use super::table::{facts, row, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    #[command(flatten)]
    whose: Whose,
    /// PAYMENT (default) or INVOICE.
    #[arg(long = "type", value_name = "TYPE", requires = "item")]
    item_type: Option<String>,
    /// Digest of the preview: erases what that preview listed.
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
    /// Id of one payment, or of one invoice with --type INVOICE.
    #[arg(long, value_name = "ID")]
    item: Option<String>,
}

impl Wish {
    fn request(&self) -> anyhow::Result<ErasureRequest> {
        if let Some(id) = &self.whose.item {
            let kind = self.item_type.as_deref().unwrap_or("PAYMENT");
            let item = ErasureItem {
                item_type: kind.to_owned(),
                id: id.clone(),
            };
            return Ok(ErasureRequest {
                item: Some(item),
                ..ErasureRequest::default()
            });
        }
        let account = match self.whose.account.as_deref() {
            Some("-") => {
                let line = std::io::stdin().lock().lines().next();
                let line = line.context("standard input is empty")?;
                line.context("standard input cannot be read")?
            }
            account => account.unwrap_or_default().to_owned(),
        };
        Ok(ErasureRequest {
            account: Some(account),
            ..ErasureRequest::default()
        })
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, wish: Wish) -> anyhow::Result<()> {
    let mut request = wish.request()?;
    let erasures = client.erasures();
    let Some(digest) = wish.digest else {
        request.dry_run = true;
        shown.show(&erasures.submit(&request).await?, erasure_or_preview);
        return Ok(());
    };
    request.digest = Some(digest);
    request.reason = wish.reason;
    let ErasureOrPreview::Erasure(started) = erasures.submit(&request).await?.into_value() else {
        bail!("the service only returned a preview; nothing was erased");
    };
    let id = started.erasure_id;
    let awaited = Awaited {
        name: &id,
        path: &format!("/admin/erasures/{}", quoted(&id)),
        bar: &ProgressBar::new_spinner(),
    };
    let ended = wait(client, awaited, progress).await?;
    shown.show(&ended, one);
    Ok(())
}

fn progress(erasure: &Erasure) -> Option<Progress> {
    let (stage, items) = (&erasure.stage, erasure.items);
    let trouble = erasure.trouble.as_ref();
    let phase = trouble.map_or_else(
        || stage.clone(),
        |why| format!("{stage} failed and is retried: {why}"),
    );
    (stage != "DONE").then(|| Progress {
        done: items,
        all: items,
        line: format!("{items} items erased; {phase}"),
        phase,
    })
}

fn erasure_or_preview(answer: &ErasureOrPreview) -> String {
    match answer {
        ErasureOrPreview::Preview(preview) => previewed(preview),
        ErasureOrPreview::Erasure(erasure) => one(erasure),
    }
}

fn previewed(preview: &ErasurePreview) -> String {
    let more = if preview.more { " or more" } else { "" };
    let mut text = format!("to erase: {}{more} items\n", preview.count);
    if !preview.first.is_empty() {
        let first = preview.first.iter();
        let first: Vec<Vec<String>> = first.map(|it| row(&[&it.item_type, &it.id])).collect();
        text += &table(&["type", "first items"], &first);
    }
    text += &left_out(preview.left_out, &preview.first_left_out);
    text += "texts, archive and exported files are searched when it runs\n";
    text += &outside(&preview.outside);
    let digest = &preview.digest;
    text + &format!("this cannot be undone; to erase: --digest {digest} --reason …")
}

fn one(it: &Erasure) -> String {
    let told = facts(&[
        ("erasure", &it.erasure_id),
        ("by", &it.actor),
        ("reason", &it.reason),
        ("items", &it.items),
        ("archived items", &it.archived),
        ("notifications", &it.notifications),
        ("other texts", &it.texts),
        ("exported files", &it.files),
        ("left out", &it.left_out),
        ("last failure", &it.trouble),
        ("started", &it.started_at),
        ("ended", &it.ended_at),
    ]);
    let counted = [it.items, it.archived, it.notifications, it.texts, it.files];
    // What is left out was found.
    let nothing = if it.left_out == 0 && counted.iter().all(|&count| count == 0) {
        "no items were found\n"
    } else {
        ""
    };
    format!(
        "{nothing}{}\n{}{}",
        told.trim_end(),
        left_out(it.left_out, &it.first_left_out),
        outside(&it.outside)
    )
}

fn left_out(count: u64, first: &[ErasureLeftOut]) -> String {
    if first.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = first
        .iter()
        .map(|it| row(&[&it.item.item_type, &it.item.id, &it.reason]))
        .collect();
    let header = ["type", "id", "reason"];
    format!("left out: {count} items\n{}", table(&header, &rows))
}

fn outside(places: &[ErasureOutside]) -> String {
    let line = |it: &ErasureOutside| format!("  {}: {}\n", it.place, it.ends);
    let lines: String = places.iter().map(line).collect();
    format!("not erased; remove the data there yourself:\n{lines}")
}
