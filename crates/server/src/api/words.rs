//! Schemas of words. Those that core and the domains list are taken from the lists, so that they cannot
//! differ; the others are written out.

use serde_json::Value;
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{BulkState, CheckPhase, Resolved};
use tollgate_core::timetable::UntoldCode;
use tollgate_domains::invoices::InvoiceStatus;
use tollgate_domains::payments::PaymentStatus;
use utoipa::openapi::Type;
use utoipa::openapi::schema::{Array, ArrayBuilder, Object, ObjectBuilder, SchemaType};

/// What an id or a name that a caller chooses looks like.
pub(super) const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";

pub(super) fn payment_status() -> Object {
    one_of(PaymentStatus::ALL.map(PaymentStatus::as_str))
}
pub(super) fn invoice_status() -> Object {
    one_of(InvoiceStatus::ALL.map(InvoiceStatus::as_str))
}
/// Of a payment or of an invoice.
pub(super) fn money_status() -> Object {
    let invoices = InvoiceStatus::ALL.map(InvoiceStatus::as_str);
    let payments = PaymentStatus::ALL.map(PaymentStatus::as_str);
    let shared = |status: &&str| !payments.contains(status);
    let words = payments
        .into_iter()
        .chain(invoices.into_iter().filter(shared));
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words)).build()
}
pub(super) fn initializing() -> Object {
    one_of([PaymentStatus::Initializing, PaymentStatus::Cancelled].map(PaymentStatus::as_str))
}
pub(super) fn rejected() -> Object {
    one_of([PaymentStatus::Rejected.as_str()])
}
pub(super) fn queue_status() -> Object {
    one_of(QueueStatus::ALL.map(QueueStatus::as_str))
}
pub(super) fn untold_code() -> Object {
    one_of(UntoldCode::ALL.map(UntoldCode::as_str))
}
pub(super) fn queue_status_or_null() -> Object {
    let words = QueueStatus::ALL.map(|status| Some(status.as_str()));
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    let text = ObjectBuilder::new().schema_type(types);
    text.enum_values(Some(words.into_iter().chain([None])))
        .build()
}
pub(super) fn attempt_state() -> Object {
    one_of(AttemptState::ALL.map(AttemptState::as_str))
}
pub(super) fn attempt_kind() -> Object {
    one_of(AttemptKind::ALL.map(AttemptKind::as_str))
}

pub(super) fn resolved() -> Object {
    one_of(Resolved::ALL.map(Resolved::as_str))
}
pub(super) fn bulk_state() -> Object {
    one_of(BulkState::ALL.map(BulkState::as_str))
}
pub(super) fn check_phase() -> Object {
    one_of(CheckPhase::ALL.map(CheckPhase::as_str))
}

// Written out, since nobody has a list of them.

pub(super) fn verdict() -> Object {
    one_of(["continue", "skip", "fail", "postpone"])
}
pub(super) fn doubt_order() -> Object {
    one_of(["id", "oldest", "largest"])
}
pub(super) fn check_status() -> Object {
    one_of(["RUNNING", "COMPLETED", "FAILED", "NOT_FOUND"])
}
pub(super) fn check_stage() -> Object {
    one_of(["IDB", "PGI"])
}
pub(super) fn rule_moments() -> Array {
    let moments = ArrayBuilder::new().items(one_of(["intake", "execution"]));
    moments.min_items(Some(1)).build()
}
pub(super) fn on_failure() -> Object {
    one_of(["hold", "reject"])
}
pub(super) fn run_or_hold() -> Object {
    one_of(["run", "hold"])
}
pub(super) fn json_or_svg() -> Object {
    one_of(["json", "svg"])
}
pub(super) fn json_text_or_svg() -> Object {
    one_of(["json", "text", "svg"])
}
pub(super) fn spread() -> Object {
    one_of(SPREADS)
}
pub(super) fn spread_or_null() -> Object {
    let words = SPREADS.map(Value::from).into_iter().chain([Value::Null]);
    let kinds = SchemaType::from_iter([Type::String, Type::Null]);
    let text = ObjectBuilder::new().schema_type(kinds);
    text.enum_values(Some(words)).build()
}

/// What keeps items from running earlier, if anything does.
pub(super) fn binds() -> Object {
    let words = ["plan", "hardLimit"].map(Value::from);
    let words = words.into_iter().chain([Value::Null]);
    let kinds = SchemaType::from_iter([Type::String, Type::Null]);
    let text = ObjectBuilder::new().schema_type(kinds);
    text.enum_values(Some(words)).build()
}

const SPREADS: [&str; 2] = ["even", "jitter"];

/// A name or an id of the caller's choice.
pub(super) fn id() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.pattern(Some(ID_PATTERN)).build()
}

/// Where a page begins that is not in the order of ids.
pub(super) fn bookmark() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let pattern = r"^-?[0-9]{1,18}\.[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";
    text.pattern(Some(pattern)).build()
}

fn one_of<const N: usize>(words: [&'static str; N]) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words)).build()
}
