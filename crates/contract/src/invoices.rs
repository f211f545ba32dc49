//! Invoices and their schedules.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;
use crate::{AnswerSource, ArchivedPart, Attempt, Event, Foreseen};

/// An amount of money.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Decimal number with at most as many fraction digits as the currency has.
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$", example = "100.00")]
    pub value: String,
    /// ISO 4217 code. Must be the customer's currency.
    #[schema(pattern = "^[A-Z]{3}$", example = "DKK")]
    pub currency: String,
}

/// The answer to an accepted invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedInvoice {
    /// Id of the invoice.
    #[schema(example = "inv_1")]
    pub invoice_id: String,
    /// Id of the customer.
    #[schema(example = "c_1")]
    pub customer_id: String,
    /// Amount to charge.
    pub amount: Amount,
    /// Current status.
    #[schema(schema_with = words::invoice_status)]
    pub status: String,
    /// Time at which the invoice is due to be charged, or was. Missing if it has ended and is in an archive file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scheduled_time: Option<Timestamp>,
    /// The UTC day on which it ended, if it is in the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    pub archived: Option<String>,
    /// Warning: for example, the schedule fires every minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub warning: Option<String>,
}

/// An invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invoice {
    /// Id of the invoice.
    #[schema(example = "inv_1")]
    pub invoice_id: String,
    /// Id of the customer.
    #[schema(example = "c_1")]
    pub customer_id: String,
    /// Amount to charge.
    pub amount: Amount,
    /// Current status.
    #[schema(schema_with = words::invoice_status)]
    pub status: String,
    /// Who marked the invoice as paid elsewhere, or null.
    pub settled_by: Option<SettledBy>,
    /// Time of the next charge, retry or query. Null when the invoice has ended.
    pub scheduled_time: Option<Timestamp>,
    /// Name of the lane.
    #[schema(example = "invoices")]
    pub lane: String,
    /// Place in the queue.
    #[schema(schema_with = words::queue_status)]
    pub queue_status: String,
    /// Current run, counted from 1. Each return to the queue starts a new run.
    pub run: u32,
    /// Number of sends so far. Pass it as `sends` when you resolve the payment.
    pub sends: u32,
    /// The estimate.
    #[serde(flatten)]
    pub foreseen: Foreseen,
    /// Why the invoice is not running and until when. Null while it runs and when it has ended.
    pub why_not_running: Option<String>,
    /// Flow that sends it. Null before its first run.
    pub exec_workflow_id: Option<String>,
    /// The dispatcher's last batch with this item; `batchId` in the audit log.
    #[schema(example = "BATCH-0f3a9c5e7d214b68")]
    pub dispatch_batch_id: Option<String>,
    /// Sends and queries, oldest first.
    pub attempts: Vec<Attempt>,
    /// Results of the checks before a charge, oldest first.
    pub checks: Vec<CheckVerdict>,
    /// What happened, oldest first.
    pub timeline: Vec<Event>,
    /// Where this answer comes from.
    pub source: AnswerSource,
    /// The UTC day on which it ended, if this answer comes from the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    pub archived: Option<String>,
}

/// Result of the checks before a charge.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CheckVerdict {
    /// When it was checked.
    pub at: Timestamp,
    /// Name of the check; `all` if every check passed.
    #[schema(example = "not-paid")]
    pub check: String,
    /// What the check decided.
    #[schema(schema_with = words::verdict)]
    pub verdict: String,
    /// Reason.
    pub reason: String,
}

/// Who marked an invoice as paid elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SettledBy {
    /// Who marked it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// Reference of the external payment.
    pub reference: String,
    /// When it was marked.
    pub at: Timestamp,
}

/// One page of invoices.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceList {
    /// The invoices of this page.
    pub invoices: Vec<InvoiceLine>,
    /// Order of the list.
    #[schema(schema_with = words::list_order)]
    pub order: String,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page and with `order=id`.
    pub previous: Option<String>,
    /// False if the search stopped before the page was full: continue with `next`.
    pub complete: bool,
    /// Set if the search stopped early: invoices accepted before this time (with `before`: after it) were not examined.
    pub scanned_to: Option<Timestamp>,
    /// Number of invoices in the whole list. Null if counting would read too many of them, and with `order=id`.
    pub count: Option<u64>,
    /// Whether there are more than `count`.
    pub at_least: bool,
    /// Where the invoices of this page come from.
    pub source: AnswerSource,
    /// Archived invoices that are not in this list. Null if there are none.
    pub archived: Option<ArchivedPart>,
}

/// One invoice of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceLine {
    /// Id of the invoice.
    #[schema(example = "inv_1")]
    pub invoice_id: String,
    /// Current status.
    #[schema(schema_with = words::invoice_status)]
    pub status: String,
    /// Amount to charge.
    pub amount: Amount,
    /// Place in the queue.
    #[schema(schema_with = words::queue_status)]
    pub queue_status: String,
    /// Current run, counted from 1.
    pub run: u32,
    /// Slot: the planned time.
    pub scheduled_time: Timestamp,
    /// Time at which it was accepted.
    pub created_at: Timestamp,
}

/// The next times at which an invoice may be charged.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceOccurrences {
    /// At most five times. Queued invoices keep their time until they are rescheduled.
    pub next_occurrences: Vec<Timestamp>,
}

/// A schedule with its next times.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleInForce {
    /// Five fields (minute, hour, day, month, weekday), or six with the second first.
    pub cron: String,
    /// IANA time zone. Null means the customer's.
    pub time_zone: Option<String>,
    /// Charges that fall outside the opening hours of this calendar move to its next opening.
    pub calendar: Option<String>,
    /// The next five times, in the given time zone, or else the customer's; UTC for the global schedule.
    pub next_occurrences: Vec<Timestamp>,
    /// Warnings.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub warning: Option<String>,
    /// Null if the schedule is not stored.
    pub version: Option<i64>,
    /// Time from which it applies.
    pub since: Option<Timestamp>,
    /// Who set the schedule.
    pub actor: Option<String>,
    /// Reason that the actor gave.
    pub reason: Option<String>,
}

/// An invoice to charge.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "invoiceId": "inv_1", "customerId": "c_1",
    "amount": {"value": "100.00", "currency": "DKK"}, "schedule": null
}))]
pub struct NewInvoice {
    /// Invoice id, chosen by the client.
    #[schema(schema_with = words::id)]
    pub invoice_id: String,
    /// Id of the customer.
    #[schema(schema_with = words::id)]
    pub customer_id: String,
    /// Amount to charge.
    pub amount: Amount,
    /// When to charge the invoice. Default: the customer's schedule, or else the global one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

/// The new time of an invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvoiceReschedule {
    /// Earliest time. Default: the next time of its schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-16T16:00:00-07:00")]
    pub at: Option<String>,
    /// Reason, recorded in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
}

/// The new amount of an invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvoiceCorrection {
    /// ISO 4217 code. Must be the invoice's currency.
    pub amount: Amount,
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, example = "a discount was forgotten")]
    pub reason: String,
}

/// Marks an invoice as paid elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvoiceSettlement {
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, example = "paid by bank transfer")]
    pub reason: String,
    /// Reference of the external payment, such as a transfer number.
    #[schema(min_length = 1, max_length = 200, example = "TRX-4711")]
    pub reference: String,
}

/// Schedule of invoice charges.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Schedule {
    /// Five fields (minute, hour, day, month, weekday), or six with the second first; `?` is `*`.
    #[schema(example = "0 0 1 * *", max_length = 200)]
    pub cron: String,
    /// IANA time zone. Default: the customer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Copenhagen")]
    pub time_zone: Option<String>,
    /// Charges that fall outside the opening hours of this calendar move to its next opening.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
}

/// A new schedule of invoice charges.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"cron": "0 0 1 * *", "timeZone": "UTC", "calendar": null}))]
pub struct ScheduleChange {
    /// Five fields (minute, hour, day, month, weekday), or six with the second first; `?` is `*`.
    #[schema(max_length = 200)]
    pub cron: String,
    /// IANA time zone. Default: the customer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Charges that fall outside the opening hours of this calendar move to its next opening.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// Reason, recorded in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
}
