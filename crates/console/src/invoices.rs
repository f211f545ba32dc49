//! Invoices: finding them, and everything there is to say about one.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tollgate_contract::{INVOICE_STATUSES, Needs};

use super::Console;
use super::call::{Problem, part, query};
use super::payments::{Attempt, Event};
use super::session::{Act, Session};
use super::shell::{Shell, clock, clock_or, page as drawn, soft, times};
use super::turns::{Ends, ListAt, Turns};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Search {
    id: String,
    status: String,
    customer: String,
    after: String,
    before: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InvoicesAnswer {
    invoices: Vec<Line>,
    scanned_to: Option<Timestamp>,
    #[serde(flatten)]
    ends: Ends,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/invoices",
    file: "/console/export/invoices",
    called: ("invoice", "invoices"),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    invoice_id: String,
    status: String,
    amount: Amount,
    queue_status: String,
    run: u32,
    scheduled_time: Timestamp,
    created_at: Timestamp,
}

#[derive(Deserialize)]
pub(super) struct Amount {
    pub(super) value: String,
    pub(super) currency: String,
}

impl Line {
    fn address(&self) -> String {
        address(&self.invoice_id)
    }
}

fn address(id: &str) -> String {
    format!("/console/invoices/{}", part(id))
}

#[derive(Template)]
#[template(path = "invoices.html")]
struct ListPage {
    shell: Shell,
    search: Search,
    statuses: Vec<&'static str>,
    /// Whether the reader may look at all of them, or at single ones only.
    lists: bool,
    found: Vec<Line>,
    scanned_to: Option<Timestamp>,
    turns: Turns,
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
    let (mut found, mut scanned_to, mut turns) = (vec![], None, Turns::default());
    if lists {
        let asked = [
            ("status", &*search.status),
            ("customer", search.customer.trim()),
        ];
        let places = [("after", &*search.after), ("before", &*search.before)];
        let wanted = query(&[asked, places].concat());
        let page: InvoicesAnswer = console.get(&session, &format!("/invoices{wanted}")).await?;
        turns = LIST.turns(&asked, &page.ends);
        (found, scanned_to) = (page.invoices, page.scanned_to);
    }
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Invoices", "Invoices", ""),
        statuses: INVOICE_STATUSES.to_vec(),
        search,
        lists,
        found,
        scanned_to,
        turns,
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Invoice {
    #[serde(rename = "invoiceId")]
    pub(super) id: String,
    pub(super) customer_id: String,
    pub(super) amount: Amount,
    pub(super) status: String,
    pub(super) scheduled_time: Option<Timestamp>,
    pub(super) lane: String,
    pub(super) queue_status: String,
    pub(super) run: u32,
    pub(super) sends: u32,
    pub(super) why_not_running: Option<String>,
    exec_workflow_id: Option<String>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) checks: Vec<Judged>,
    pub(super) timeline: Vec<Event>,
}

#[derive(Deserialize)]
pub(super) struct Judged {
    pub(super) at: Timestamp,
    pub(super) check: String,
    pub(super) verdict: String,
    pub(super) reason: String,
}

impl Invoice {
    fn address(&self) -> String {
        address(&self.id)
    }
    fn has_failed(&self) -> bool {
        self.status == "FAILED"
    }
    /// Whether a person can give it another time; the API has the last word.
    fn moves(&self) -> bool {
        let waits = self.status == "PENDING" && self.queue_status == "READY";
        waits || self.has_failed()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Occurrences {
    next_occurrences: Vec<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct Done {
    #[serde(default)]
    done: String,
}

#[derive(Template)]
#[template(path = "invoice.html")]
struct Page {
    shell: Shell,
    invoice: Invoice,
    next: Vec<Timestamp>,
    /// Whether the reader may look at schedules.
    reads: bool,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(id): Path<String>,
    Query(Done { done }): Query<Done>,
) -> Result<Response, Problem> {
    let invoice: Invoice = console.get(&session, &of(&id)).await?;
    let occurrences = format!("{}/occurrences", of(&id));
    let occurrences: Occurrences = console.get(&session, &occurrences).await?;
    Ok(drawn(&Page {
        shell: Shell::new(&session, format!("Invoice {id}"), "Invoices", &done),
        invoice,
        next: occurrences.next_occurrences,
        reads: session.may(Needs::Read),
    }))
}

fn of(id: &str) -> String {
    format!("/invoices/{}", part(id))
}

#[derive(Deserialize)]
pub(super) struct Wish {
    reason: String,
    /// Derived from its schedule if empty.
    #[serde(default)]
    at: String,
}

pub(super) async fn reschedule(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    super::must_say_why(&form.reason)?;
    let mut wish = json!({"reason": form.reason});
    let at = form.at.trim();
    if !at.is_empty() {
        wish["at"] = at.into();
    }
    let what = format!("{}/reschedule", of(&id));
    console.act(&session, Method::POST, &what, &wish).await?;
    let next = format!("{}?done=moved", address(&id));
    Ok(Redirect::to(&next).into_response())
}
