//! `tollgate calendars …`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use tollgate_client::contract::Calendar;
use tollgate_client::{Client, quoted};
use tollgate_domains::json;

use super::Shown;
use super::table::{history, row, table};

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
    let calendars = client.calendars();
    let answer = match command {
        Command::List => {
            shown.show(&calendars.list().await?, |all| list(all));
            return Ok(());
        }
        Command::History { name } => {
            shown.show(&calendars.history(&name).await?, |all| history(all));
            return Ok(());
        }
        Command::Show { name } => calendars.get(&name).await?,
        Command::Put { name, file, why } => {
            // As the file says it: the service judges it.
            let mut body =
                json::read(read(&file)?.as_bytes()).with_context(|| file.display().to_string())?;
            body["reason"] = json!(why.reason);
            body["confirm"] = json!(why.confirm);
            let path = format!("/admin/calendars/{}", quoted(&name));
            client.put(&path, &body).await?
        }
        Command::Holidays { name, file, why } => {
            let text = read(&file)?;
            let put = calendars.put_holidays(&name, text, &why.reason, why.confirm);
            put.await?
        }
    };
    shown.show(&answer, calendar);
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn list(calendars: &[Calendar]) -> String {
    let rows: Vec<Vec<String>> = calendars
        .iter()
        .map(|it| {
            let next = it.next_openings.first().map(|opening| opening.from);
            row(&[
                &it.name,
                &it.text.zone,
                &it.version,
                &it.lanes.join(", "),
                &next,
            ])
        })
        .collect();
    table(
        &["calendar", "zone", "version", "lanes", "next opening"],
        &rows,
    )
}

fn calendar(it: &Calendar) -> String {
    let (name, zone, version) = (&it.name, &it.text.zone, it.version);
    let openings = it.next_openings.iter();
    let openings: Vec<Vec<String>> = openings
        .map(|opening| row(&[&opening.from, &opening.to]))
        .collect();
    format!(
        "{name} in {zone}, version {version}\n\nNext openings\n{}",
        table(&["from", "to"], &openings)
    )
}
