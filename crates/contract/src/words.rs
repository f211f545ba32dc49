//! Schemas of single fields: references to the document's lists of words, and texts of a fixed form. The server adds
//! the lists themselves, from the places that define them.

use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema,
    SchemaType,
};
use utoipa::openapi::{Ref, Type};

/// What an id or a name that a caller chooses looks like.
const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";

macro_rules! named {
    ($($word:ident => $name:literal),+ $(,)?) => {
        $(#[doc = concat!("One of the words of `", $name, "`.")]
        pub fn $word() -> Ref {
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
    error_code => "ErrorCode",
}

/// One of the words of `QueueStatus`, or null.
pub fn queue_status_or_null() -> Schema {
    or_null("QueueStatus")
}
/// One of the words of `Spread`, or null.
pub fn spread_or_null() -> Schema {
    or_null("Spread")
}
/// What keeps items from running earlier, if anything does.
pub fn binds() -> Schema {
    or_null("BindingLimit")
}
/// When a rule is judged.
pub fn rule_moments() -> Array {
    let moments = ArrayBuilder::new().items(Ref::from_schema_name("RuleMoment"));
    moments.min_items(Some(1)).build()
}

fn or_null(name: &str) -> Schema {
    let null = ObjectBuilder::new().schema_type(Type::Null).build();
    let named = Ref::from_schema_name(name);
    OneOfBuilder::new().item(null).item(named).build().into()
}

/// One kind of payment, by which a client tells them apart.
pub fn planned_kind() -> Object {
    one_of(["planned"])
}
/// The second kind of payment.
pub fn pending_kind() -> Object {
    one_of(["pending"])
}
/// The third kind of payment.
pub fn refused_kind() -> Object {
    one_of(["refused"])
}

/// A job, or what it would do.
pub fn job_kind() -> Object {
    one_of(["job"])
}
/// An erasure, or what it would do.
pub fn erasure_kind() -> Object {
    one_of(["erasure"])
}

/// What a job or an erasure would do.
pub fn preview_kind() -> Object {
    one_of(["preview"])
}

/// A client's own JSON object.
pub fn metadata() -> Object {
    let about = "Any JSON object from the client, at most 4096 bytes. Rules can read it; it is not sent to the bank.";
    let kinds = SchemaType::from_iter([Type::Object, Type::Null]);
    let object = ObjectBuilder::new().schema_type(kinds);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object.description(Some(about)).build()
}
/// The filter of a job as it is applied.
pub fn conditions() -> Object {
    let about = "The conditions of the request. Amounts are in minor units. Only the role `operate` sees complete account numbers.";
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object.description(Some(about)).build()
}

/// A JSON object of any content.
pub fn stored() -> Object {
    let object = ObjectBuilder::new().schema_type(Type::Object);
    let object = object.additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object
        .description(Some("The setting as it was stored."))
        .build()
}

/// A name or an id of the caller's choice.
pub fn id() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.pattern(Some(ID_PATTERN)).build()
}

/// Where a page begins that is not in the order of ids.
pub fn page_token() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let pattern = r"^-?[0-9]{1,18}\.[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$";
    text.pattern(Some(pattern)).build()
}

/// What a page hands out and takes back; with `order=id` it is an id.
pub fn page_token_or_id() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.pattern(Some(ID_PATTERN)).build()
}

fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words)).build()
}
