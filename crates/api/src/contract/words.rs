//! The lists of words that the document names. Those that core and the domains list are taken from the lists, so that
//! they cannot differ; the others are written out. Which field holds which word is in the contract (`words`).

use tollgate_core::actor::Kind;
use tollgate_core::archive::{DayState, DayStep};
use tollgate_core::erasure::ErasureStage;
use tollgate_core::item::QueueStatus;
use tollgate_core::job::{JobAct, JobState};
use tollgate_core::lane::Spread;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{BulkState, CheckPhase, Need, Resolved};
use tollgate_core::timetable::UntoldCode;
use tollgate_domains::invoices::InvoiceStatus;
use tollgate_domains::payments::PaymentStatus;
use utoipa::openapi::Type;
use utoipa::openapi::schema::{Object, ObjectBuilder};

pub(crate) use tollgate_contract::words::*;

use crate::answer::source::FROM;

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
        ("Spread", one_of(Spread::ALL.map(Spread::as_str))),
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
        ("BindingLimit", one_of(["plan", "hardLimit"])),
    ]
}

fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    text.enum_values(Some(words)).build()
}

#[cfg(test)]
mod tests {
    use tollgate_contract::{INVOICE_STATUSES, MACHINE_ACTORS, PAYMENT_STATUSES};
    use tollgate_core::actor;

    use super::*;

    #[test]
    fn the_contract_lists_the_statuses_that_the_domains_have() {
        assert_eq!(
            PAYMENT_STATUSES.to_vec(),
            PaymentStatus::ALL.map(PaymentStatus::as_str)
        );
        assert_eq!(
            INVOICE_STATUSES.to_vec(),
            InvoiceStatus::ALL.map(InvoiceStatus::as_str)
        );
    }

    #[test]
    fn the_contract_lists_the_actors_that_are_no_persons() {
        let machine = actor::ALL.iter().filter(|name| !actor::is_person(name));
        assert!(machine.eq(&MACHINE_ACTORS));
    }
}
