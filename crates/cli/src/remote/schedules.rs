//! `tollgate schedules …`: when invoices are charged.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, fields};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the schedule of a customer, an invoice or all invoices, with its next five times.
    Show {
        #[command(flatten)]
        whose: Whose,
    },
    /// Preview the next times of a schedule. Changes nothing.
    Preview {
        #[command(flatten)]
        schedule: Schedule,
    },
    /// Set a schedule. Queued invoices keep their time.
    Put {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        schedule: Schedule,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Remove a schedule. The global schedule cannot be removed.
    Delete {
        #[command(flatten)]
        whose: Whose,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Remove the schedule even if outstanding invoices use it; they keep their time.
        #[arg(long)]
        force: bool,
    },
}

/// The global one if nothing is said.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub(crate) struct Whose {
    /// The customer's schedule instead of the global one.
    #[arg(long, value_name = "ID")]
    customer: Option<String>,
    /// The invoice's schedule instead of the global one.
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
    /// Cron expression, such as "0 0 1 * *" for the first of every month.
    cron: String,
    /// IANA time zone. Default: the customer's; UTC for a preview.
    #[arg(long, value_name = "ZONE", alias = "zone")]
    time_zone: Option<String>,
    /// Calendar. Charges that fall into its closed time move to the next opening.
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
