//! `tollgate schedules …`: when invoices are charged.

use clap::Subcommand;
use serde_json::Value;
use tollgate_client::contract::{self, ScheduleChange, ScheduleInForce};
use tollgate_client::{Client, ScheduleOf};

use super::Shown;
use super::table::facts;

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
    fn of(&self) -> ScheduleOf<'_> {
        match (&self.customer, &self.invoice) {
            (Some(id), _) => ScheduleOf::Customer(id),
            (None, Some(id)) => ScheduleOf::Invoice(id),
            (None, None) => ScheduleOf::Global,
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

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let schedules = client.schedules();
    let answer = match command {
        Command::Show { whose } => schedules.get(whose.of()).await?,
        Command::Preview { schedule } => {
            let schedule = contract::Schedule {
                cron: schedule.cron,
                time_zone: schedule.time_zone,
                calendar: schedule.calendar,
            };
            schedules.preview(&schedule).await?
        }
        Command::Put {
            whose,
            schedule,
            reason,
        } => {
            let change = ScheduleChange {
                cron: schedule.cron,
                time_zone: schedule.time_zone,
                calendar: schedule.calendar,
                reason: Some(reason),
            };
            schedules.put(whose.of(), &change).await?
        }
        Command::Delete {
            whose,
            reason,
            force,
        } => {
            schedules.delete(whose.of(), &reason, force).await?;
            shown.show_json(&Value::Null, || "deleted".to_owned());
            return Ok(());
        }
    };
    shown.show(&answer, schedule);
    Ok(())
}

fn schedule(it: &ScheduleInForce) -> String {
    let facts = facts(&[
        ("cron", &it.cron),
        ("time zone", &it.time_zone),
        ("calendar", &it.calendar),
        ("version", &it.version),
    ]);
    let next = it.next_occurrences.iter();
    let next: Vec<String> = next.map(|time| format!("  {time}")).collect();
    let warning = match &it.warning {
        Some(warning) => format!("\nwarning: {warning}"),
        None => String::new(),
    };
    format!("{facts}\nNext\n{}{warning}", next.join("\n"))
}
