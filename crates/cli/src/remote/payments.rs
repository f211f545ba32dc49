//! `tollgate payments …`.

use clap::Subcommand;
use tollgate_client::contract::{ReopenRequest, RescheduleRequest};
use tollgate_client::{Client, PaymentQuery};

use super::Shown;
use super::payment_views::{list, payment, reopened};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List payments, newest first, paged. With --batch, sorted by id.
    List {
        /// Filter by status, such as SCHEDULED or REJECTED.
        #[arg(long)]
        status: Option<String>,
        /// Filter by lane.
        #[arg(long)]
        lane: Option<String>,
        /// Filter by gateway.
        #[arg(long)]
        gateway: Option<String>,
        /// Filter by import.
        #[arg(long, value_name = "BATCH_ID")]
        batch: Option<String>,
        /// Complete account number of the debtor or the creditor.
        #[arg(long)]
        account: Option<String>,
        #[arg(long)]
        reference: Option<String>,
        /// Only payments that are held.
        #[arg(long)]
        held: bool,
        /// Only payments that are expected to miss their deadline.
        #[arg(long, conflicts_with = "batch")]
        at_risk: bool,
        /// Next page: the token that the previous page ends with.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a payment: its status, its history, and why it is not running.
    Show {
        /// Payment id.
        id: String,
    },
    /// Cancel a waiting payment.
    Cancel {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Reschedule a waiting payment.
    Reschedule {
        /// Payment id.
        id: String,
        /// Earliest time, such as 2026-11-16T16:00:00-07:00.
        #[arg(long, value_name = "TIME")]
        at: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Reopen a payment that the bank refused, or all payments of a refusal storm, to send them again.
    Reopen {
        /// Payment id.
        #[arg(required_unless_present = "storm", conflicts_with = "storm")]
        id: Option<String>,
        /// All rejected payments of this refusal storm (see `tollgate lanes storms`).
        #[arg(long, value_name = "NUMBER")]
        storm: Option<i64>,
        /// Show what would be reopened without changing anything.
        #[arg(long, requires = "storm")]
        preview: bool,
        /// Reason, recorded in the audit log; not needed with --preview.
        #[arg(long, required_unless_present = "preview")]
        reason: Option<String>,
    },
    /// Release a payment that was held after its deadline or by a rule.
    Release {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let payments = client.payments();
    let answer = match command {
        Command::List {
            status,
            lane,
            gateway,
            batch,
            account,
            reference,
            held,
            at_risk,
            after,
            limit,
        } => {
            let query = PaymentQuery {
                status,
                lane,
                gateway,
                batch,
                account,
                reference,
                held,
                at_risk,
                after,
                limit,
                ..PaymentQuery::default()
            };
            shown.show(&payments.list(&query).await?, list);
            return Ok(());
        }
        Command::Reopen {
            id: None,
            storm,
            preview,
            reason,
        } => {
            let reason = reason.unwrap_or_default();
            let request = ReopenRequest { reason, preview };
            let storm = storm.unwrap_or_default();
            let answer = client.lanes().reopen_storm(storm, &request).await?;
            shown.show(&answer, reopened);
            return Ok(());
        }
        Command::Show { id } => payments.get(&id).await?,
        Command::Cancel { id, reason } => payments.cancel(&id, &reason).await?,
        Command::Reschedule { id, at, reason } => {
            let request = RescheduleRequest {
                execute_at: at,
                reason,
            };
            payments.reschedule(&id, &request).await?
        }
        Command::Reopen {
            id: Some(id),
            reason,
            ..
        } => payments.reopen(&id, &reason.unwrap_or_default()).await?,
        Command::Release { id, reason } => payments.release(&id, &reason).await?,
    };
    shown.show(&answer, payment);
    Ok(())
}
