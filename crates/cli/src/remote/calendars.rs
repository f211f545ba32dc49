//! `tollgate calendars …`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};
use tollgate_domains::json;

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, history, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List calendars and the lanes that use them.
    List,
    /// Show a calendar with its next opening times.
    Show {
        /// Calendar name.
        name: String,
    },
    /// Create or replace a calendar from a JSON file: zone, weekly, holidays, blackouts.
    Put {
        /// Calendar name.
        name: String,
        /// JSON file. With "weekly", unlisted days are closed; without it, every day is open.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        why: Why,
    },
    /// Replace a calendar's holidays with those in a text file.
    Holidays {
        /// Calendar name.
        name: String,
        /// Text file with one date and name per line, such as "2026-12-25 Christmas Day".
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        why: Why,
    },
    /// List all versions, newest first.
    History {
        /// Calendar name.
        name: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// Reason, recorded in the audit log.
    #[arg(long)]
    reason: String,
    /// Apply the change even if it leaves waiting items without a slot.
    #[arg(long)]
    confirm: bool,
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => {
            let answer = client.get("/admin/calendars").await?;
            shown.show(&answer, list);
        }
        Command::Show { name } => {
            let answer = client.get(&path(&name)).await?;
            shown.show(&answer, calendar);
        }
        Command::Put { name, file, why } => {
            let text = read(&file)?;
            let mut body =
                json::read(text.as_bytes()).with_context(|| file.display().to_string())?;
            body["reason"] = json!(why.reason);
            body["confirm"] = json!(why.confirm);
            let answer = client.send(Method::PUT, &path(&name), &body).await?;
            shown.show(&answer, calendar);
        }
        Command::Holidays { name, file, why } => {
            let query = format!("?reason={}&confirm={}", quoted(&why.reason), why.confirm);
            let path = format!("{}/holidays{query}", path(&name));
            let answer = client.put_text(&path, read(&file)?).await?;
            shown.show(&answer, calendar);
        }
        Command::History { name } => {
            let answer = client.get(&format!("{}/history", path(&name))).await?;
            shown.show(&answer, history);
        }
    }
    Ok(())
}

fn path(name: &str) -> String {
    format!("/admin/calendars/{}", quoted(name))
}

fn read(file: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn list(answer: &Value) -> String {
    let calendars = answer.as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = calendars
        .map(|calendar| {
            let lanes = calendar["lanes"].as_array().into_iter().flatten();
            let lanes: Vec<&str> = lanes.filter_map(Value::as_str).collect();
            vec![
                cell(&calendar["name"]),
                cell(&calendar["zone"]),
                cell(&calendar["version"]),
                lanes.join(", "),
                cell(&calendar["nextOpenings"][0]["from"]),
            ]
        })
        .collect();
    table(
        &["calendar", "zone", "version", "lanes", "next opening"],
        &rows,
    )
}

fn calendar(answer: &Value) -> String {
    let (name, zone, version) = (&answer["name"], &answer["zone"], &answer["version"]);
    let head = format!("{} in {}, version {version}\n", cell(name), cell(zone));
    let openings = rows(&answer["nextOpenings"], &["from", "to"]);
    format!(
        "{head}\nNext openings\n{}",
        table(&["from", "to"], &openings)
    )
}
