//! `tollgate schedules …`: when invoices are charged.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, fields};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The schedule of all, of a customer or of an invoice, with its next five times.
    Show {
        #[command(flatten)]
        whose: Whose,
    },
    /// What a schedule would mean. Saves nothing.
    Preview {
        #[command(flatten)]
        schedule: Schedule,
    },
    /// Puts a schedule in force. What is queued keeps its time.
    Put {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        schedule: Schedule,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
    },
    /// Takes a schedule away; not the global one.
    Delete {
        #[command(flatten)]
        whose: Whose,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
        /// Although outstanding invoices go by it; they keep their times.
        #[arg(long)]
        force: bool,
    },
}

/// The global one if nothing is said.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct Whose {
    /// This customer's, instead of the global one.
    #[arg(long, value_name = "ID")]
    customer: Option<String>,
    /// This invoice's, instead of the global one.
    #[arg(long, value_name = "ID")]
    invoice: Option<String>,
}

impl Whose {
    fn path(&self) -> String {
        match (&self.customer, &self.invoice) {
            (Some(id), _) => format!("/billing/schedules/customer/{}", quoted(id)),
            (None, Some(id)) => format!("/billing/schedules/invoice/{}", quoted(id)),
            (None, None) => "/billing/schedules/global".to_owned(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Schedule {
    /// Such as "0 0 1 * *" for the first of every month.
    cron: String,
    /// The customer's if not given; a preview is then in UTC.
    #[arg(long, value_name = "ZONE", alias = "zone")]
    time_zone: Option<String>,
    /// What falls into its closed time is charged when it opens.
    #[arg(long, value_name = "NAME")]
    calendar: Option<String>,
}

impl Schedule {
    fn body(self) -> Value {
        json!({"cron": self.cron, "timeZone": self.time_zone, "calendar": self.calendar})
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let answer = match command {
        Command::Show { whose } => client.get(&whose.path()).await?,
        Command::Preview { schedule } => {
            let path = "/billing/schedules/preview";
            client.send(Method::POST, path, &schedule.body()).await?
        }
        Command::Put {
            whose,
            schedule,
            reason,
        } => {
            let mut body = schedule.body();
            body["reason"] = json!(reason);
            client.send(Method::PUT, &whose.path(), &body).await?
        }
        Command::Delete {
            whose,
            reason,
            force,
        } => {
            let path = format!("{}?force={force}&reason={}", whose.path(), quoted(&reason));
            client.delete(&path).await?;
            shown.show(&Value::Null, |_| "deleted".to_owned());
            return Ok(());
        }
    };
    shown.show(&answer, schedule);
    Ok(())
}

fn schedule(answer: &Value) -> String {
    let named = [
        ("cron", "cron"),
        ("time zone", "timeZone"),
        ("calendar", "calendar"),
        ("version", "version"),
    ];
    let next = answer["nextOccurrences"].as_array().into_iter().flatten();
    let next: Vec<String> = next.map(|time| format!("  {}", cell(time))).collect();
    let warning = match answer["warning"].as_str() {
        Some(warning) => format!("\nwarning: {warning}"),
        None => String::new(),
    };
    format!(
        "{}\nNext\n{}{warning}",
        fields(answer, &named),
        next.join("\n")
    )
}
