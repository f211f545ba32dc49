//! Payments: one, and lists of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::words;
use crate::{AnswerSource, ArchivedPart, Event, Foreseen, Provisional};

/// Debtor or creditor.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PaymentParty {
    /// Account number. Complete for the role `operate`; other roles see only its last characters.
    #[schema(example = "****2051")]
    pub account: String,
    /// Name of the party.
    #[schema(example = "Acme")]
    pub name: String,
}

/// The answer to an accepted payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedPayment {
    /// Id of the payment.
    #[schema(example = "pay_001")]
    pub payment_id: String,
    /// Its current status: `SCHEDULED` for a new payment, `INITIALIZING` while it has no slot yet.
    #[schema(schema_with = words::payment_status)]
    pub status: String,
    /// Its current slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16T23:00:00.02Z")]
    pub scheduled_time: Option<Timestamp>,
    /// Lane of the payment. Missing until the slot is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "default")]
    pub lane: Option<String>,
    /// Every field is null until the slot is known.
    #[serde(flatten)]
    pub foreseen: Foreseen,
    /// Flow that assigns the slot.
    #[schema(example = "init-payment-pay_001")]
    pub init_workflow_id: String,
    /// The UTC day on which it ended, if it is in the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    pub archived: Option<String>,
}

/// A payment of one of three kinds, as `kind` says.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("planned" = "#/components/schemas/PlannedPayment"),
    ("pending" = "#/components/schemas/PendingPayment"),
    ("refused" = "#/components/schemas/RefusedPayment"),
)))]
pub enum Payment {
    /// It has a slot.
    Known(Box<PlannedPayment>),
    /// It has no slot yet, or never got one.
    Initializing(PendingPayment),
    /// It was refused.
    NotTaken(RefusedPayment),
}

/// A payment with a slot.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPayment {
    /// Which kind of answer this is.
    #[schema(schema_with = words::planned_kind)]
    pub kind: String,
    /// Id of the payment.
    #[schema(example = "pay_001")]
    pub payment_id: String,
    /// Current status.
    #[schema(schema_with = words::payment_status)]
    pub status: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Who pays.
    pub debtor: PaymentParty,
    /// Who is paid.
    pub creditor: PaymentParty,
    /// Reference for the parties, or null.
    #[schema(example = "invoice 42")]
    pub reference: Option<String>,
    /// Gateway (bank). Null if it is no longer known.
    #[schema(example = "default")]
    pub gateway: Option<String>,
    /// Requested time. Null means immediately.
    pub execute_at: Option<Timestamp>,
    /// Import that the payment came from, if any.
    pub batch_id: Option<String>,
    /// Name of the lane.
    #[schema(example = "default")]
    pub lane: String,
    /// Place in the queue.
    #[schema(schema_with = words::queue_status)]
    pub queue_status: String,
    /// Current run, counted from 1. Each return to the queue starts a new run.
    pub run: u32,
    /// Number of sends so far. Pass it as `sends` when you resolve the payment.
    pub sends: u32,
    /// Slot: the planned time.
    pub scheduled_time: Timestamp,
    /// The estimate.
    #[serde(flatten)]
    pub foreseen: Foreseen,
    /// Deadline as the client gave it, or null.
    #[schema(example = "2026-11-17T00:00:00Z")]
    pub deadline: Option<String>,
    /// Whether it is sent late or held after its deadline.
    #[schema(schema_with = words::run_or_hold)]
    pub on_missed_deadline: String,
    /// Free JSON object of the client.
    #[schema(schema_with = words::metadata)]
    pub metadata: Option<Map<String, Value>>,
    /// Why the payment is not running and until when. Null when it has ended.
    pub why_not_running: Option<String>,
    /// Flow that assigns the slot.
    pub init_workflow_id: String,
    /// Flow that sends it. Null before its first run.
    pub exec_workflow_id: Option<String>,
    /// The dispatcher's last batch with this item; `batchId` in the audit log.
    #[schema(example = "BATCH-0f3a9c5e7d214b68")]
    pub dispatch_batch_id: Option<String>,
    /// Sends and queries, oldest first.
    pub attempts: Vec<Attempt>,
    /// What happened, oldest first.
    pub timeline: Vec<Event>,
    /// Where this answer comes from.
    pub source: AnswerSource,
    /// The UTC day on which it ended, if this answer comes from the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    pub archived: Option<String>,
}

/// A payment that was accepted and has no slot yet, or was cancelled before it got one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingPayment {
    /// Which kind of answer this is.
    #[schema(schema_with = words::pending_kind)]
    pub kind: String,
    /// Id of the payment.
    pub payment_id: String,
    /// Current status.
    #[schema(schema_with = words::pending)]
    pub status: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Time at which it was accepted.
    pub accepted_at: Timestamp,
    /// Time set by `reschedule`, or null.
    pub rescheduled_to: Option<Timestamp>,
    /// Number of attempts to assign a slot.
    pub tries: u32,
    /// Why it has no slot yet, and when Tollgate tries again.
    pub why_not_running: String,
    /// Flow that assigns the slot.
    #[schema(example = "init-payment-pay_001")]
    pub init_workflow_id: String,
}

/// A payment that was refused, possibly after a 202. The id can be used again for a corrected payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedPayment {
    /// Which kind of answer this is.
    #[schema(schema_with = words::refused_kind)]
    pub kind: String,
    /// Id of the payment.
    pub payment_id: String,
    /// Current status.
    #[schema(schema_with = words::rejected)]
    pub status: String,
    /// Errors by field name, or rule messages by rule name.
    #[schema(example = json!({"distinct_accounts": "debtor and creditor are the same account"}))]
    pub details: BTreeMap<String, String>,
}

/// One exchange with the bank about a payment, or with the payment provider about an invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Whether it is a send or a status query.
    #[schema(schema_with = words::attempt_kind)]
    pub kind: String,
    /// What is known about its outcome.
    #[schema(schema_with = words::attempt_state)]
    pub outcome: String,
    /// Run that made the attempt, counted from 1.
    pub run: u32,
    /// Idempotency key of the request.
    #[schema(example = "payment-pay_001")]
    pub idempotency_key: String,
    /// Time of the send.
    pub sent_at: Timestamp,
    /// Time of the answer. Null while there is none.
    pub answered_at: Option<Timestamp>,
    /// Beginning of the answer that confirms the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answer: Option<String>,
    /// Why it was not done, or why the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// One page of payments.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentList {
    /// The payments of this page.
    pub payments: Vec<PaymentLine>,
    /// Order of the list.
    #[schema(schema_with = words::list_order)]
    pub order: String,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page and with `order=id`.
    pub previous: Option<String>,
    /// False if the search stopped before the page was full: continue with `next`.
    pub complete: bool,
    /// Set if the search stopped early: payments accepted before the one with this id (with `order=id`: with a greater id) were
    /// not examined.
    pub scanned_to: Option<String>,
    /// Number of payments in the whole list. Null if counting would read too many of them.
    pub count: Option<u64>,
    /// Whether there are more than `count`.
    pub at_least: bool,
    /// Where the payments of this page come from.
    pub source: AnswerSource,
    /// Archived payments that are not in this list. Null if there are none.
    pub archived: Option<ArchivedPart>,
}

/// One payment of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentLine {
    /// Id of the payment.
    #[schema(example = "pay_001")]
    pub payment_id: String,
    /// Current status.
    #[schema(schema_with = words::payment_status)]
    pub status: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Null until the payment has a slot.
    #[schema(example = "default")]
    pub lane: Option<String>,
    /// Null until the payment has a slot.
    #[schema(schema_with = words::queue_status_or_null)]
    pub queue_status: Option<String>,
    /// 0 until the payment has a slot.
    pub run: u32,
    /// Slot: the planned time. Null until it is assigned.
    pub scheduled_time: Option<Timestamp>,
    /// Deadline, or null.
    pub deadline: Option<Timestamp>,
    /// Whether the item meets, or met, its deadline. Null without a deadline or if `provisional` is set.
    pub meets_deadline: Option<bool>,
    /// For a payment with a deadline: why no estimate is available. Null if there is one, and after the send.
    pub provisional: Option<Provisional>,
    /// Time at which it was accepted.
    pub created_at: Timestamp,
}

/// Reason for an action.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500, example = "the customer called")]
    pub reason: String,
}

/// The new time of a payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RescheduleRequest {
    /// Earliest time, with an offset or with a time zone in brackets.
    #[schema(example = "2026-11-16T16:00:00-07:00")]
    pub execute_at: String,
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
}

/// A payment to send.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "paymentId": "pay_001", "amount": "125.50", "currency": "USD",
    "debtor": {"account": "DE02120300000000202051", "name": "Acme"},
    "creditor": {"account": "DE02500105170137075030", "name": "Bolt"},
    "executeAt": "2026-11-16T16:00:00-07:00", "deadline": "2026-11-17T00:00:00Z",
    "onMissedDeadline": "run", "reference": "invoice 42", "metadata": {"order": "42"}
}))]
pub struct NewPayment {
    /// Payment id, chosen by the client. `bulk` and `check-status` are reserved.
    #[schema(schema_with = words::id)]
    pub payment_id: String,
    /// Decimal number with at most as many fraction digits as the currency has.
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$")]
    pub currency: String,
    /// Who pays.
    pub debtor: Party,
    /// Who is paid.
    pub creditor: Party,
    /// Time with an offset, or with a time zone in brackets. Default: now. A time up to 24 hours in
    /// the past means now. A local time skipped by a clock change means the end of the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute_at: Option<String>,
    /// Latest time at which the payment may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// What happens after the deadline: `run` sends the payment late; `hold` holds it until an operator decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::run_or_hold)]
    pub on_missed_deadline: Option<String>,
    /// Gateway (bank). Default: chosen by the routes, or else `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 64)]
    pub gateway: Option<String>,
    /// Reference for the parties.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 140)]
    pub reference: Option<String>,
    /// Free JSON object of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::metadata)]
    pub metadata: Option<Map<String, Value>>,
}

impl NewPayment {
    /// A payment with the required fields. The optional ones are left out; set those that it needs:
    /// `NewPayment { reference: Some(text), ..NewPayment::new(id, amount, currency, debtor, creditor) }`.
    pub fn new(
        payment_id: impl Into<String>,
        amount: impl Into<String>,
        currency: impl Into<String>,
        debtor: Party,
        creditor: Party,
    ) -> Self {
        Self {
            payment_id: payment_id.into(),
            amount: amount.into(),
            currency: currency.into(),
            debtor,
            creditor,
            execute_at: None,
            deadline: None,
            on_missed_deadline: None,
            gateway: None,
            reference: None,
            metadata: None,
        }
    }
}

/// Debtor or creditor.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Account number.
    #[schema(min_length = 1, max_length = 64)]
    pub account: String,
    /// Name of the party.
    #[schema(min_length = 1, max_length = 140)]
    pub name: String,
}
