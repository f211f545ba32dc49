//! Payments: finding them, and everything there is to say about one.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;
use tollgate_contract::{Needs, PAYMENT_STATUSES};

use super::Console;
use super::archive::InWords;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{
    HasPage, Shell, clock, clock_or, grouped, page as drawn, soft, status_word, times,
};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Search {
    id: String,
    status: String,
    lane: String,
    gateway: String,
    batch: String,
    currency: String,
    #[serde(rename = "minAmount")]
    min_amount: String,
    #[serde(rename = "maxAmount")]
    max_amount: String,
    account: String,
    reference: String,
    late: String,
    held: String,
    #[serde(rename = "atRisk")]
    at_risk: String,
    #[serde(rename = "acceptedFrom")]
    accepted_from: String,
    #[serde(rename = "acceptedTo")]
    accepted_to: String,
    after: String,
    before: String,
}

impl Search {
    /// The whole list as a file.
    fn export(&self, format: &str) -> String {
        let query = self.query("", "");
        let sign = if query.is_empty() { '?' } else { '&' };
        // What an index finds by these is not in the order of ids.
        let is_found = [&self.account, &self.reference, &self.at_risk];
        let is_found = is_found.iter().any(|it| !it.trim().is_empty());
        let order = if is_found { "&order=newest" } else { "" };
        format!("/console/export/payments{query}{sign}format={format}{order}")
    }

    /// As the API is asked for it, and this page.
    fn query(&self, after: &str, before: &str) -> String {
        query(&[
            ("status", &self.status),
            ("lane", self.lane.trim()),
            ("gateway", self.gateway.trim()),
            ("batch", self.batch.trim()),
            ("currency", self.currency.trim()),
            ("minAmount", self.min_amount.trim()),
            ("maxAmount", self.max_amount.trim()),
            ("account", self.account.trim()),
            ("reference", self.reference.trim()),
            ("late", &self.late),
            ("held", &self.held),
            ("atRisk", &self.at_risk),
            ("acceptedFrom", self.accepted_from.trim()),
            ("acceptedTo", self.accepted_to.trim()),
            ("after", after),
            ("before", before),
        ])
    }
}

fn counted(list: &contract::PaymentList) -> Option<String> {
    let count = list.count?;
    Some(match (list.at_least, count) {
        (true, _) => format!("More than {} payments", grouped(&count)),
        (false, 1) => "1 payment".to_owned(),
        (false, _) => format!("{} payments", grouped(&count)),
    })
}

impl HasPage for contract::PaymentLine {
    fn address(&self) -> String {
        address(&self.payment_id)
    }
}

fn address(id: &str) -> String {
    format!("/console/payments/{}", part(id))
}

#[derive(Template)]
#[template(path = "payments.html")]
struct ListPage {
    shell: Shell,
    search: Search,
    statuses: Vec<&'static str>,
    /// Whether the reader may look at all of them, or at single ones only.
    lists: bool,
    found: Vec<contract::PaymentLine>,
    next: Option<String>,
    previous: Option<String>,
    scanned_to: Option<String>,
    counted: Option<String>,
    archived: Option<contract::ArchivedPart>,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(search): Query<Search>,
) -> Result<Response, Problem> {
    let id = search.id.trim();
    if !id.is_empty() {
        return Ok(Redirect::to(&address(id)).into_response());
    }
    let lists = session.may(Needs::Read);
    let (mut found, mut next, mut previous) = (vec![], None, None);
    let (mut scanned_to, mut counted, mut archived) = (None, None, None);
    if lists {
        let asked = search.query(&search.after, &search.before);
        let page: contract::PaymentList =
            console.get(&session, &format!("/payments{asked}")).await?;
        counted = self::counted(&page);
        let at =
            |after: &str, before: &str| format!("/console/payments{}", search.query(after, before));
        next = page.next.map(|after| at(&after, ""));
        previous = page.previous.map(|before| at("", &before));
        found = page.payments;
        (scanned_to, archived) = (page.scanned_to, page.archived);
    }
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Payments", "Payments", ""),
        statuses: PAYMENT_STATUSES.to_vec(),
        search,
        lists,
        found,
        next,
        previous,
        scanned_to,
        counted,
        archived,
    }))
}

/// A payment of any kind, as a page shows it; one that has no slot yet has little but its id and status, one that was
/// refused tells why.
#[derive(Default)]
pub(super) struct Payment {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) details: BTreeMap<String, String>,
    pub(super) amount: String,
    pub(super) currency: String,
    pub(super) debtor: Option<contract::PaymentParty>,
    pub(super) creditor: Option<contract::PaymentParty>,
    pub(super) reference: Option<String>,
    pub(super) gateway: Option<String>,
    pub(super) execute_at: Option<Timestamp>,
    pub(super) batch_id: Option<String>,
    pub(super) lane: String,
    pub(super) queue_status: String,
    pub(super) run: u32,
    pub(super) sends: u32,
    pub(super) scheduled_time: Option<Timestamp>,
    pub(super) estimate: Option<Timestamp>,
    pub(super) tolerance_ms: Option<u64>,
    pub(super) provisional: Option<contract::Provisional>,
    pub(super) deadline: Option<String>,
    pub(super) meets_deadline: Option<bool>,
    pub(super) why_not_running: Option<String>,
    pub(super) init_workflow_id: Option<String>,
    pub(super) exec_workflow_id: Option<String>,
    pub(super) attempts: Vec<contract::Attempt>,
    pub(super) timeline: Vec<contract::Event>,
    /// The day of its end, if it is in the archive.
    pub(super) archived: Option<String>,
    pub(super) source: Option<contract::AnswerSource>,
}

impl From<contract::Payment> for Payment {
    fn from(payment: contract::Payment) -> Self {
        match payment {
            contract::Payment::Known(planned) => Self::planned(*planned),
            contract::Payment::Initializing(pending) => Self {
                id: pending.payment_id,
                status: pending.status,
                amount: pending.amount,
                currency: pending.currency,
                why_not_running: Some(pending.why_not_running),
                init_workflow_id: Some(pending.init_workflow_id),
                ..Self::default()
            },
            contract::Payment::NotTaken(refused) => Self {
                id: refused.payment_id,
                status: refused.status,
                details: refused.details,
                ..Self::default()
            },
        }
    }
}

/// What an attempt has brought.
pub(super) trait Heard {
    /// The answer, or why there is none.
    fn heard(&self) -> Option<&str>;
}

impl Heard for contract::Attempt {
    fn heard(&self) -> Option<&str> {
        self.answer.as_deref().or(self.reason.as_deref())
    }
}

impl Payment {
    fn planned(payment: contract::PlannedPayment) -> Self {
        let foreseen = payment.foreseen;
        Self {
            id: payment.payment_id,
            status: payment.status,
            details: BTreeMap::new(),
            amount: payment.amount,
            currency: payment.currency,
            debtor: Some(payment.debtor),
            creditor: Some(payment.creditor),
            reference: payment.reference,
            gateway: payment.gateway,
            execute_at: payment.execute_at,
            batch_id: payment.batch_id,
            lane: payment.lane,
            queue_status: payment.queue_status,
            run: payment.run,
            sends: payment.sends,
            scheduled_time: Some(payment.scheduled_time),
            estimate: foreseen.estimate,
            tolerance_ms: foreseen.tolerance_ms,
            provisional: foreseen.provisional,
            deadline: payment.deadline,
            meets_deadline: foreseen.meets_deadline,
            why_not_running: payment.why_not_running,
            init_workflow_id: Some(payment.init_workflow_id),
            exec_workflow_id: payment.exec_workflow_id,
            attempts: payment.attempts,
            timeline: payment.timeline,
            archived: payment.archived,
            source: Some(payment.source),
        }
    }

    /// None if it lies behind what clocks can show.
    pub(super) fn deadline_time(&self) -> Option<Timestamp> {
        self.deadline.as_deref()?.parse().ok()
    }

    fn address(&self) -> String {
        address(&self.id)
    }
    /// Whether there is more to tell than its status.
    pub(super) fn is_planned(&self) -> bool {
        !self.lane.is_empty()
    }
    /// Whether it was accepted and has no time yet, so that a person can only stop it.
    fn is_initializing(&self) -> bool {
        self.status == "INITIALIZING"
    }
    /// Whether nothing can have been paid yet, so that a person can stop or move it.
    fn waits(&self) -> bool {
        let not_paid = |attempt: &contract::Attempt| attempt.outcome == "RETRY";
        self.status == "SCHEDULED" && self.attempts.iter().all(not_paid)
    }
}

#[derive(Deserialize)]
pub(super) struct Done {
    #[serde(default)]
    done: String,
}

#[derive(Template)]
#[template(path = "payment.html")]
struct Page {
    shell: Shell,
    payment: Payment,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(id): Path<String>,
    Query(Done { done }): Query<Done>,
) -> Result<Response, Problem> {
    let payment: contract::Payment = console.get(&session, &of(&id)).await?;
    let payment = Payment::from(payment);
    let shell = Shell::new(&session, format!("Payment {id}"), "Payments", &done);
    Ok(drawn(&Page { shell, payment }))
}

fn of(id: &str) -> String {
    format!("/payments/{}", part(id))
}

#[derive(Deserialize)]
pub(super) struct Wish {
    reason: String,
    #[serde(default)]
    execute_at: String,
}

pub(super) async fn cancel(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    let wish = json!({"reason": form.reason});
    let what = format!("{}/cancel", of(&id));
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(back(&id, "cancelled"))
}

pub(super) async fn release(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    let wish = json!({"reason": form.reason});
    let what = format!("{}/release", of(&id));
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(back(&id, "released"))
}

pub(super) async fn reschedule(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    let wish = json!({"reason": form.reason, "executeAt": form.execute_at});
    let what = format!("{}/reschedule", of(&id));
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(back(&id, "rescheduled"))
}

fn back(id: &str, done: &str) -> Response {
    Redirect::to(&format!("{}?done={done}", address(id))).into_response()
}
