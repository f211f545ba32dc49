//! Schemas of words. Those that core and the domains list are taken from the lists, so that they cannot
//! differ; the others are written out.

use tollgate_core::actor::Kind;
use tollgate_core::archive::{DayState, DayStep};
use tollgate_core::erasure::ErasureStage;
use tollgate_core::item::QueueStatus;
use tollgate_core::job::{JobAct, JobState};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{BulkState, CheckPhase, Need, Resolved};
use tollgate_core::timetable::UntoldCode;
use tollgate_domains::invoices::InvoiceStatus;
use tollgate_domains::payments::PaymentStatus;
use utoipa::openapi::Ref;
use utoipa::openapi::Type;
use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema,
    SchemaType,
};

use crate::api::answer::source::FROM;

/// What an id or a name that a caller chooses looks like.
pub(super) const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";

/// The named lists of words, as the document's components.
pub(crate) fn named() -> Vec<(&'static str, Object)> {
    let invoices = InvoiceStatus::ALL.map(InvoiceStatus::as_str);
    let payments = PaymentStatus::ALL.map(PaymentStatus::as_str);
    let invoices_only = invoices.into_iter().filter(|word| !payments.contains(word));
    let either = payments.into_iter().chain(invoices_only);
    let counted = either.chain([QueueStatus::Held.as_str()]);
    let pending = [PaymentStatus::Initializing, PaymentStatus::Cancelled];
    vec![
        ("PaymentStatus", one_of(payments)),
        ("PendingStatus", one_of(pending.map(PaymentStatus::as_str))),
        ("RefusedStatus", one_of([PaymentStatus::Rejected.as_str()])),
        ("InvoiceStatus", one_of(invoices)),
        ("TotalStatus", one_of(counted)),
        (
            "QueueStatus",
            one_of(QueueStatus::ALL.map(QueueStatus::as_str)),
        ),
        (
            "NoEstimateCode",
            one_of(UntoldCode::ALL.map(UntoldCode::as_str)),
        ),
        (
            "AttemptOutcome",
            one_of(AttemptState::ALL.map(AttemptState::as_str)),
        ),
        (
            "AttemptKind",
            one_of(AttemptKind::ALL.map(AttemptKind::as_str)),
        ),
        ("DoubtOutcome", one_of(Resolved::ALL.map(Resolved::as_str))),
        ("JobAct", one_of(JobAct::ALL.map(JobAct::as_str))),
        (
            "ErasureStage",
            one_of(ErasureStage::ALL.map(ErasureStage::as_str)),
        ),
        ("JobState", one_of(JobState::ALL.map(JobState::as_str))),
        ("ActorKind", one_of(Kind::ALL.map(Kind::as_str))),
        ("ImportState", one_of(BulkState::ALL.map(BulkState::as_str))),
        (
            "CheckPhase",
            one_of(CheckPhase::ALL.map(CheckPhase::as_str)),
        ),
        ("ArchiveState", one_of(DayState::ALL.map(DayState::as_str))),
        ("ArchiveStep", one_of(DayStep::ALL.map(DayStep::as_str))),
        ("NeedKind", one_of(Need::ALL.map(Need::as_str))),
        // Written out, since there is no list of them.
        ("Verdict", one_of(["continue", "skip", "fail", "postpone"])),
        ("DoubtOrder", one_of(["newest", "oldest", "largest", "id"])),
        ("HeldOrder", one_of(["newest", "due"])),
        (
            "CheckState",
            one_of(["RUNNING", "COMPLETED", "FAILED", "NOT_FOUND"]),
        ),
        ("CheckStage", one_of(["IDB", "PGI"])),
        ("RuleMoment", one_of(["intake", "execution"])),
        ("OnRuleFailure", one_of(["hold", "reject"])),
        ("OnMissedDeadline", one_of(["run", "hold"])),
        ("WindowsFormat", one_of(["json", "svg"])),
        ("CertificateFormat", one_of(["json", "text", "svg"])),
        ("UploadFormat", one_of(["ndjson", "csv"])),
        ("ListFormat", one_of(["json", "csv", "ndjson"])),
        ("RejectedFormat", one_of(["json", "csv", "ndjson", "lines"])),
        ("ListOrder", one_of(["newest", "id"])),
        ("AnswerFrom", one_of(FROM)),
        ("Spread", one_of(["even", "jitter"])),
        ("BindingLimit", one_of(["plan", "hardLimit"])),
    ]
}

macro_rules! named {
    ($($word:ident => $name:literal),+ $(,)?) => {
        $(pub(crate) fn $word() -> Ref {
            Ref::from_schema_name($name)
        })+
    };
}

named! {
    answer_from => "AnswerFrom",
    archive_step => "ArchiveStep",
    payment_status => "PaymentStatus",
    pending => "PendingStatus",
    rejected => "RefusedStatus",
    invoice_status => "InvoiceStatus",
    total_status => "TotalStatus",
    queue_status => "QueueStatus",
    untold_code => "NoEstimateCode",
    attempt_state => "AttemptOutcome",
    attempt_kind => "AttemptKind",
    resolved => "DoubtOutcome",
    bulk_state => "ImportState",
    actor_kind => "ActorKind",
    archive_state => "ArchiveState",
    job_act => "JobAct",
    erasure_stage => "ErasureStage",
    job_state => "JobState",
    check_phase => "CheckPhase",
    verdict => "Verdict",
    doubt_order => "DoubtOrder",
    held_order => "HeldOrder",
    check_status => "CheckState",
    check_stage => "CheckStage",
    on_failure => "OnRuleFailure",
    run_or_hold => "OnMissedDeadline",
    json_or_svg => "WindowsFormat",
    json_text_or_svg => "CertificateFormat",
    upload_format => "UploadFormat",
    list_format => "ListFormat",
    rejected_format => "RejectedFormat",
    list_order => "ListOrder",
    spread => "Spread",
    need => "NeedKind",
}

pub(crate) fn queue_status_or_null() -> Schema {
    or_null("QueueStatus")
}
pub(crate) fn spread_or_null() -> Schema {
    or_null("Spread")
}
/// What keeps items from running earlier, if anything does.
pub(crate) fn binds() -> Schema {
    or_null("BindingLimit")
}
pub(crate) fn rule_moments() -> Array {
    let moments = ArrayBuilder::new().items(Ref::from_schema_name("RuleMoment"));
    moments.min_items(Some(1)).build()
}

fn or_null(name: &str) -> Schema {
    let null = ObjectBuilder::new().schema_type(Type::Null).build();
    let named = Ref::from_schema_name(name);
    OneOfBuilder::new().item(null).item(named).build().into()
}

/// One kind of payment, by which a client tells them apart.
pub(crate) fn planned_kind() -> Object {
    one_of(["planned"])
}
pub(crate) fn pending_kind() -> Object {
    one_of(["pending"])
}
pub(crate) fn refused_kind() -> Object {
    one_of(["refused"])
}

/// A job, or what it would do.
pub(crate) fn job_kind() -> Object {
    one_of(["job"])
}
pub(crate) fn erasure_kind() -> Object {
    one_of(["erasure"])
}

pub(crate) fn preview_kind() -> Object {
    one_of(["preview"])
}

/// A client's own JSON object.
pub(crate) fn metadata() -> Object {
    let about = "Free JSON object of the client, at most 4096 bytes. Rules can read it; the bank does not receive it.";
    let kinds = SchemaType::from_iter([Type::Object, Type::Null]);
    let object = ObjectBuilder::new().schema_type(kinds);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object.description(Some(about)).build()
}
/// The filter of a job as it is applied.
pub(crate) fn conditions() -> Object {
    let about = "The conditions of the request. Amounts are in minor units; an account is complete for the role `operate` only.";
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object.description(Some(about)).build()
}

/// A JSON object of any content.
pub(crate) fn stored() -> Object {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object
        .description(Some("The setting as it was stored."))
        .build()
}

/// A name or an id of the caller's choice.
pub(crate) fn id() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.pattern(Some(ID_PATTERN)).build()
}

/// Where a page begins that is not in the order of ids.
pub(crate) fn page_token() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let pattern = r"^-?[0-9]{1,18}\.[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";
    text.pattern(Some(pattern)).build()
}

/// What a page hands out and takes back; with `order=id` it is an id.
pub(crate) fn page_token_or_id() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.pattern(Some(ID_PATTERN)).build()
}

fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words)).build()
}
