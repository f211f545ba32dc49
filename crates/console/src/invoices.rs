//! Invoices: finding them, and everything there is to say about one.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;
use tollgate_contract::{INVOICE_STATUSES, Needs};

use super::Console;
use super::call::{Problem, part, query};
use super::payments::Heard;
use super::session::{Act, Session};
use super::shell::{HasPage, Shell, clock, clock_or, page as drawn, soft, times};
use super::turns::{ListAt, Paged, Turns};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Search {
    id: String,
    status: String,
    customer: String,
    after: String,
    before: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/invoices",
    file: "/console/export/invoices",
    called: ("invoice", "invoices"),
};

impl HasPage for contract::InvoiceLine {
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
    found: Vec<contract::InvoiceLine>,
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
        let page: contract::InvoiceList =
            console.get(&session, &format!("/invoices{wanted}")).await?;
        turns = LIST.turns(&asked, &page.ends());
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

impl HasPage for contract::Invoice {
    fn address(&self) -> String {
        address(&self.invoice_id)
    }
}

/// What a person can do with an invoice.
trait Movable {
    fn has_failed(&self) -> bool;
    /// Whether a person can give it another time; the API has the last word.
    fn moves(&self) -> bool;
}

impl Movable for contract::Invoice {
    fn has_failed(&self) -> bool {
        self.status == "FAILED"
    }
    fn moves(&self) -> bool {
        let waits = self.status == "PENDING" && self.queue_status == "READY";
        waits || self.has_failed()
    }
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
    invoice: contract::Invoice,
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
    let invoice: contract::Invoice = console.get(&session, &of(&id)).await?;
    let occurrences = format!("{}/occurrences", of(&id));
    let occurrences: contract::InvoiceOccurrences = console.get(&session, &occurrences).await?;
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
