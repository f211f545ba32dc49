//! The worklist of what nobody knows the outcome of, and deciding one.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_core::Timestamp;

use super::Console;
use super::call::{Problem, part, query};
use super::now::Risk;
use super::payments::Payment;
use super::session::{Act, Session};
use super::shell::{Shell, clock, clock_or, grouped, page as drawn};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Worklist {
    at_risk: Vec<Risk>,
    items: Vec<Doubt>,
    next_after: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Doubt {
    id: String,
    amount: String,
    currency: String,
    lane: String,
    first_sent: Option<Timestamp>,
    sends: usize,
    questions: usize,
    last_heard: Option<String>,
    next_at: Timestamp,
}

impl Doubt {
    fn address(&self) -> String {
        address(&self.id)
    }
}

fn of(id: &str) -> String {
    format!("/admin/in-doubt/PAYMENT/{}", part(id))
}

fn address(id: &str) -> String {
    format!("/console/in-doubt/{}", part(id))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Asked {
    after: String,
    done: String,
}

#[derive(Template)]
#[template(path = "in_doubt.html")]
struct ListPage {
    shell: Shell,
    list: Worklist,
    next: Option<String>,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let address = format!("/admin/in-doubt{}", query(&[("after", &asked.after)]));
    let mut list: Worklist = console.get(&session, &address).await?;
    // The oldest first, within what one page holds.
    list.items.sort_by_key(|doubt| doubt.first_sent);
    let next = list.next_after.as_ref();
    let next = next.map(|after| format!("/console/in-doubt{}", query(&[("after", after)])));
    let shell = Shell::new(&session, "In doubt", "In doubt", &asked.done);
    Ok(drawn(&ListPage { shell, list, next }))
}

#[derive(Template)]
#[template(path = "doubt.html")]
struct Page {
    shell: Shell,
    payment: Payment,
    action: String,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let payment: Payment = console.get(&session, &of(&id)).await?;
    let shell = Shell::new(&session, format!("In doubt: {id}"), "In doubt", &asked.done);
    let action = address(&id);
    Ok(drawn(&Page {
        shell,
        payment,
        action,
    }))
}

#[derive(Deserialize)]
pub(super) struct Decision {
    /// The run that the page told of.
    run: u32,
    outcome: String,
    reason: String,
    #[serde(default)]
    actor: String,
}

pub(super) async fn resolve(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Decision>,
) -> Result<Response, Problem> {
    let now: Payment = console.get(&session, &of(&id)).await?;
    if now.run != form.run {
        // What the bank said before it was sent again says nothing about that.
        let error = "it has been sent again since you opened the page; open it again and look";
        return Err(Problem::new(StatusCode::CONFLICT, error));
    }
    let mut wish = json!({"outcome": form.outcome, "reason": form.reason});
    if !form.actor.trim().is_empty() {
        wish["actor"] = form.actor.into();
    }
    let what = format!("{}/resolve", of(&id));
    let told = console.act(&session, Method::POST, &what, &wish).await?;
    let next = if told["status"] == "PROPOSED" {
        format!("{}?done=proposed", address(&id))
    } else {
        "/console/in-doubt?done=resolved".to_owned()
    };
    Ok(Redirect::to(&next).into_response())
}
