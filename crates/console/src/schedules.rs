//! When invoices are charged: for all, for a customer's, for one; what another schedule would mean, and
//! putting it in force.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{Shell, clock, page as drawn};

/// Whom a schedule is for; for all if neither is given.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Whose {
    customer: String,
    invoice: String,
}

impl Whose {
    fn of_the_api(&self) -> String {
        let level = match (self.customer.trim(), self.invoice.trim()) {
            ("", "") => "global".to_owned(),
            ("", invoice) => format!("invoice/{}", part(invoice)),
            (customer, _) => format!("customer/{}", part(customer)),
        };
        format!("/billing/schedules/{level}")
    }

    fn of_the_console(&self, done: &str) -> String {
        let (customer, invoice) = (self.customer.trim(), self.invoice.trim());
        let asked = query(&[("customer", customer), ("invoice", invoice), ("done", done)]);
        format!("/console/schedules{asked}")
    }

    fn title(&self) -> String {
        match (self.customer.trim(), self.invoice.trim()) {
            ("", "") => "Schedule of all invoices".to_owned(),
            ("", invoice) => format!("Schedule of invoice {invoice}"),
            (customer, _) => format!("Schedule of customer {customer}"),
        }
    }
}

/// A schedule as somebody types it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Typed {
    cron: String,
    zone: String,
    calendar: String,
}

impl Typed {
    fn wish(&self) -> Value {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        json!({
            "cron": self.cron.trim(), "timeZone": given(&self.zone), "calendar": given(&self.calendar)
        })
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    #[serde(flatten)]
    whose: Whose,
    #[serde(flatten)]
    typed: Typed,
    done: String,
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct Page {
    shell: Shell,
    whose: Whose,
    /// What is in force for whom it was asked; the next more general one counts if there is none.
    now: Option<contract::ScheduleInForce>,
    typed: Typed,
    /// What the typed one would mean.
    then: Option<contract::ScheduleInForce>,
}

impl Page {
    /// What a form that changes it was drawn from; none at all is zero.
    fn version(&self) -> i64 {
        version(self.now.as_ref())
    }
}

fn version(schedule: Option<&contract::ScheduleInForce>) -> i64 {
    schedule.and_then(|it| it.version).unwrap_or(0)
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let PageQuery { whose, typed, done } = asked;
    let now = console.in_force(&session, &whose).await?;
    let then = if typed.cron.trim().is_empty() {
        None
    } else {
        Some(console.meaning(&session, &typed).await?)
    };
    Ok(drawn(&Page {
        shell: Shell::new(&session, whose.title(), "Invoices", &done),
        whose,
        now,
        typed,
        then,
    }))
}

impl Console {
    async fn in_force(
        &self,
        session: &Session,
        whose: &Whose,
    ) -> Result<Option<contract::ScheduleInForce>, Problem> {
        match self.get(session, &whose.of_the_api()).await {
            Ok(schedule) => Ok(Some(schedule)),
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                // It has none, or there is no such customer or invoice; that is said by another question.
                self.must_exist(session, whose).await?;
                Ok(None)
            }
            Err(problem) => Err(problem),
        }
    }

    async fn must_exist(&self, session: &Session, whose: &Whose) -> Result<(), Problem> {
        let address = match (whose.customer.trim(), whose.invoice.trim()) {
            ("", "") => return Ok(()),
            ("", invoice) => format!("/invoices/{}", part(invoice)),
            (customer, _) => format!("/customers/{}", part(customer)),
        };
        self.get::<Value>(session, &address).await.map(drop)
    }

    async fn meaning(
        &self,
        session: &Session,
        typed: &Typed,
    ) -> Result<contract::ScheduleInForce, Problem> {
        let address = "/billing/schedules/preview";
        let wish = typed.wish();
        let told = self.act(session, Method::POST, address, &wish).await?;
        serde_json::from_value(told).map_err(|error| {
            tracing::error!(%error, "the console cannot read a schedule");
            Problem::internal()
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Change {
    #[serde(flatten)]
    whose: Whose,
    #[serde(flatten)]
    typed: Typed,
    /// As text: what is flattened is read as text only.
    version: String,
    reason: String,
}

pub(super) async fn save(
    State(console): State<Console>,
    Act { session, form }: Act<Change>,
) -> Result<Response, Problem> {
    super::must_say_why(&form.reason)?;
    let now = console.in_force(&session, &form.whose).await?;
    if version(now.as_ref()).to_string() != form.version {
        let error = "this schedule was changed after you opened the page; reload the page";
        return Err(Problem::new(StatusCode::CONFLICT, error));
    }
    let mut wish = form.typed.wish();
    wish["reason"] = form.reason.trim().into();
    let what = form.whose.of_the_api();
    console.act(&session, Method::PUT, &what, &wish).await?;
    Ok(Redirect::to(&form.whose.of_the_console("scheduled")).into_response())
}
