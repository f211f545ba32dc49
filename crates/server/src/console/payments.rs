//! Payments: finding them, and everything there is to say about one.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_domains::payments::PaymentStatus;

use super::Console;
use super::archive::AnswerSource;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{Shell, clock, clock_or, grouped, page as drawn, soft, status_word, times};
use super::turns::ArchivedPart;
use crate::api::Needs;

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PaymentsAnswer {
    payments: Vec<Line>,
    next: Option<String>,
    previous: Option<String>,
    /// Where the search stopped before the page was full.
    scanned_to: Option<String>,
    count: Option<u64>,
    at_least: bool,
    archived: Option<ArchivedPart>,
}

impl PaymentsAnswer {
    fn counted(&self) -> Option<String> {
        let count = self.count?;
        Some(match (self.at_least, count) {
            (true, _) => format!("More than {} payments", grouped(&count)),
            (false, 1) => "1 payment".to_owned(),
            (false, _) => format!("{} payments", grouped(&count)),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    payment_id: String,
    status: String,
    amount: String,
    currency: String,
    /// None of these before it is planned.
    lane: Option<String>,
    queue_status: Option<String>,
    scheduled_time: Option<Timestamp>,
    meets_deadline: Option<bool>,
    created_at: Timestamp,
}

impl Line {
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
    found: Vec<Line>,
    next: Option<String>,
    previous: Option<String>,
    scanned_to: Option<String>,
    counted: Option<String>,
    archived: Option<ArchivedPart>,
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
        let page: PaymentsAnswer = console.get(&session, &format!("/payments{asked}")).await?;
        counted = page.counted();
        let at =
            |after: &str, before: &str| format!("/console/payments{}", search.query(after, before));
        next = page.next.map(|after| at(&after, ""));
        previous = page.previous.map(|before| at("", &before));
        found = page.payments;
        (scanned_to, archived) = (page.scanned_to, page.archived);
    }
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Payments", "Payments", ""),
        statuses: PaymentStatus::ALL.map(PaymentStatus::as_str).to_vec(),
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

/// A payment as the API tells it; one that is being taken in has only its id and status, one that was not
/// taken in tells why.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Payment {
    #[serde(rename = "paymentId")]
    pub(super) id: String,
    pub(super) status: String,
    #[serde(default)]
    pub(super) details: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) amount: String,
    #[serde(default)]
    pub(super) currency: String,
    pub(super) debtor: Option<Party>,
    pub(super) creditor: Option<Party>,
    pub(super) reference: Option<String>,
    pub(super) gateway: Option<String>,
    pub(super) execute_at: Option<Timestamp>,
    pub(super) batch_id: Option<String>,
    #[serde(default)]
    pub(super) lane: String,
    #[serde(default)]
    pub(super) queue_status: String,
    #[serde(default)]
    pub(super) run: u32,
    #[serde(default)]
    pub(super) sends: u32,
    pub(super) scheduled_time: Option<Timestamp>,
    pub(super) estimate: Option<Timestamp>,
    pub(super) tolerance_ms: Option<u64>,
    pub(super) provisional: Option<Provisional>,
    pub(super) deadline: Option<String>,
    pub(super) meets_deadline: Option<bool>,
    pub(super) why_not_running: Option<String>,
    pub(super) init_workflow_id: Option<String>,
    pub(super) exec_workflow_id: Option<String>,
    #[serde(default)]
    pub(super) attempts: Vec<Attempt>,
    #[serde(default)]
    pub(super) timeline: Vec<Event>,
    /// The day of its end, if it is in the archive.
    pub(super) archived: Option<String>,
    pub(super) source: Option<AnswerSource>,
}

/// Why no estimate is available.
#[derive(Deserialize)]
pub(super) struct Provisional {
    pub(super) reason: String,
}

/// With its account as the reader may see it.
#[derive(Deserialize)]
pub(super) struct Party {
    pub(super) account: String,
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    pub(super) kind: String,
    pub(super) outcome: String,
    pub(super) run: u32,
    pub(super) idempotency_key: String,
    pub(super) sent_at: Timestamp,
    pub(super) answered_at: Option<Timestamp>,
    answer: Option<String>,
    reason: Option<String>,
}

impl Attempt {
    /// The answer, or why there is none.
    pub(super) fn heard(&self) -> Option<&str> {
        self.answer.as_deref().or(self.reason.as_deref())
    }
}

#[derive(Deserialize)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    pub(super) what: String,
}

impl Payment {
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
        self.status == PaymentStatus::Initializing.as_str()
    }
    /// Whether nothing can have been paid yet, so that a person can stop or move it.
    fn waits(&self) -> bool {
        let not_paid = |attempt: &Attempt| attempt.outcome == "RETRY";
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
    let payment: Payment = console.get(&session, &of(&id)).await?;
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
