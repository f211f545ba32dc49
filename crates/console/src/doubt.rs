//! One of what nobody knows the outcome of: having its gateway asked, or deciding it.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_contract as contract;

use super::Console;
use super::archive::InWords;
use super::call::{Problem, part, query};
use super::in_doubt::{MONEY, address};
use super::payments::{Heard, Payment};
use super::session::{Act, Session};
use super::shell::{Shell, clock, clock_or, page as drawn, soft, status_word, times};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    #[serde(rename = "type")]
    item_type: String,
    done: String,
}

impl PageQuery {
    fn item_type(&self) -> &str {
        match self.item_type.as_str() {
            "" => MONEY[0],
            name => name,
        }
    }
}

fn of(item_type: &str, id: &str) -> String {
    format!("/admin/in-doubt/{}/{}", part(item_type), part(id))
}

/// As the API tells it.
enum Facts {
    Payment(Box<Payment>),
    Invoice(Box<contract::Invoice>),
}

impl Facts {
    fn amount(&self) -> String {
        match self {
            Self::Payment(it) => format!("{} {}", it.amount, it.currency),
            Self::Invoice(it) => format!("{} {}", it.amount.value, it.amount.currency),
        }
    }
    fn sends(&self) -> u32 {
        match self {
            Self::Payment(it) => it.sends,
            Self::Invoice(it) => it.sends,
        }
    }
    fn is_in_doubt(&self) -> bool {
        let status = match self {
            Self::Payment(it) => &it.status,
            Self::Invoice(it) => &it.status,
        };
        status == "IN_DOUBT"
    }
    /// Invoices have no gateway that could be asked.
    fn has_gateway(&self) -> bool {
        matches!(self, Self::Payment(_))
    }
}

impl Console {
    async fn doubtful(
        &self,
        session: &Session,
        item_type: &str,
        id: &str,
    ) -> Result<Facts, Problem> {
        let address = of(item_type, id);
        if item_type == MONEY[0] {
            let payment: contract::Payment = self.get(session, &address).await?;
            return Ok(Facts::Payment(Box::new(payment.into())));
        }
        let invoice = self.get(session, &address).await?;
        Ok(Facts::Invoice(Box::new(invoice)))
    }
}

#[derive(Template)]
#[template(path = "doubt.html")]
struct Page {
    shell: Shell,
    id: String,
    facts: Facts,
    action: String,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(id): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let facts = console.doubtful(&session, asked.item_type(), &id).await?;
    Ok(drawn(&Page {
        shell: Shell::new(&session, format!("In doubt: {id}"), "In doubt", &asked.done),
        action: address(asked.item_type(), &id, ""),
        id,
        facts,
    }))
}

#[derive(Deserialize)]
pub(super) struct Decision {
    /// As many as the page told of.
    sends: u32,
    outcome: String,
    reason: String,
    #[serde(default)]
    actor: String,
}

pub(super) async fn resolve(
    State(console): State<Console>,
    Path(id): Path<String>,
    Query(asked): Query<PageQuery>,
    Act { session, form }: Act<Decision>,
) -> Result<Response, Problem> {
    let item_type = asked.item_type();
    let mut wish = json!({"outcome": form.outcome, "sends": form.sends, "reason": form.reason});
    if !form.actor.trim().is_empty() {
        wish["actor"] = form.actor.into();
    }
    let what = format!("{}/resolve", of(item_type, &id));
    let told = console.act(&session, Method::POST, &what, &wish).await?;
    let next = if told["status"] == "PROPOSED" {
        address(item_type, &id, "proposed")
    } else {
        let asked = query(&[("type", &asked.item_type), ("done", "resolved")]);
        format!("/console/in-doubt{asked}")
    };
    Ok(Redirect::to(&next).into_response())
}

#[derive(Deserialize)]
pub(super) struct Question {
    /// One payment; all of a day if empty.
    #[serde(default)]
    id: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    zone: String,
}

impl Question {
    fn wish(&self) -> Value {
        if !self.id.is_empty() {
            return json!({"paymentIds": [self.id]});
        }
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        json!({"date": given(&self.date), "zone": given(&self.zone)})
    }
}

/// What is heard is on the page of the status check.
pub(super) async fn ask(
    State(console): State<Console>,
    Act { session, form }: Act<Question>,
) -> Result<Response, Problem> {
    let what = "/admin/in-doubt/ask";
    let told = console
        .act(&session, Method::POST, what, &form.wish())
        .await?;
    let told: contract::InDoubtQuestions = serde_json::from_value(told).map_err(|error| {
        tracing::error!(%error, "the console cannot read the result of the queries");
        Problem::internal()
    })?;
    let next = match &told.workflow_ids[..] {
        _ if told.resolved.is_some_and(|count| count > 0) => {
            "/console/in-doubt?done=proved".to_owned()
        }
        _ if told.asked.is_some() => "/console/in-doubt?done=unproved".to_owned(),
        [] => "/console/in-doubt?done=nothing".to_owned(),
        [one] => format!("/console/status-checks/{}?done=asked", part(one)),
        _ => "/console/status-checks?done=asked".to_owned(),
    };
    Ok(Redirect::to(&next).into_response())
}
