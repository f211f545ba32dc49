//! `tollgate invoices …`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tollgate_client::contract::{
    Amount, InvoiceCorrection, InvoiceReschedule, InvoiceSettlement, NewInvoice, Schedule,
};
use tollgate_client::{Client, InvoiceQuery};

use super::Shown;
use super::invoice_import;
use super::invoice_views::{accepted, invoice, list};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List invoices, newest first.
    List {
        /// Filter by status: PENDING, PAID, FAILED, IN_DOUBT or CANCELLED.
        #[arg(long)]
        status: Option<String>,
        /// Filter by customer.
        #[arg(long, value_name = "ID")]
        customer: Option<String>,
        /// Next page: the token that the previous page shows.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show an invoice with its next charge and its history.
    Show {
        /// Invoice id.
        id: String,
    },
    /// Create an invoice. Repeating the same command changes nothing.
    Create {
        /// Invoice id.
        id: String,
        /// Customer id.
        #[arg(long, value_name = "ID")]
        customer: String,
        /// Amount, such as 100.00.
        #[arg(long)]
        amount: String,
        /// Currency, such as DKK.
        #[arg(long)]
        currency: String,
        /// Schedule, such as "0 0 1 * *". Default: the customer's schedule, or else the global one.
        #[arg(long)]
        cron: Option<String>,
    },
    /// Reschedule a waiting invoice. A FAILED invoice is charged again.
    Reschedule {
        /// Invoice id.
        id: String,
        /// Earliest time. Default: the next time of its schedule.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Cancel an invoice that has not been charged.
    Cancel {
        /// Invoice id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Change the amount. Refused if the invoice has been charged or may have been.
    Correct {
        /// Invoice id.
        id: String,
        /// Amount, such as 90.00.
        #[arg(long)]
        amount: String,
        /// Currency of the invoice, such as DKK.
        #[arg(long)]
        currency: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Mark an invoice that was paid elsewhere as PAID. The customer is not charged.
    Settle {
        /// Invoice id.
        id: String,
        /// Reference of the external payment, such as a transfer number.
        #[arg(long)]
        reference: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Import a file of invoices, one JSON object per line.
    ///
    /// Existing invoices do not change, so an interrupted import can be repeated. If two lines have the
    /// same id, the first one counts. Stops if the service is unreachable. Exits with 1 if lines were
    /// refused or not sent.
    Import {
        /// NDJSON file: one invoice as JSON per line.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(super) async fn run(
    client: &Client,
    shown: &Shown,
    command: Command,
) -> anyhow::Result<ExitCode> {
    let invoices = client.invoices();
    let answer = match command {
        Command::Import { file } => return invoice_import::run(client, shown, &file).await,
        Command::List {
            status,
            customer,
            after,
            limit,
        } => {
            let query = InvoiceQuery {
                status,
                customer,
                after,
                limit,
            };
            shown.show(&invoices.list(&query).await?, list);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Create {
            id,
            customer,
            amount,
            currency,
            cron,
        } => {
            let invoice = NewInvoice {
                invoice_id: id,
                customer_id: customer,
                amount: of(amount, currency),
                schedule: cron.map(schedule),
            };
            shown.show(&invoices.create(&invoice).await?, accepted);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Show { id } => invoices.get(&id).await?,
        Command::Reschedule { id, at, reason } => {
            let reason = Some(reason);
            let request = InvoiceReschedule { at, reason };
            invoices.reschedule(&id, &request).await?
        }
        Command::Cancel { id, reason } => invoices.cancel(&id, &reason).await?,
        Command::Correct {
            id,
            amount,
            currency,
            reason,
        } => {
            let amount = of(amount, currency);
            let request = InvoiceCorrection { amount, reason };
            invoices.correct(&id, &request).await?
        }
        Command::Settle {
            id,
            reference,
            reason,
        } => {
            let request = InvoiceSettlement { reason, reference };
            invoices.settle(&id, &request).await?
        }
    };
    shown.show(&answer, invoice);
    Ok(ExitCode::SUCCESS)
}

fn of(value: String, currency: String) -> Amount {
    Amount { value, currency }
}

fn schedule(cron: String) -> Schedule {
    Schedule {
        cron,
        time_zone: None,
        calendar: None,
    }
}
