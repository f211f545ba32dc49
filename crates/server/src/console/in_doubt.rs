//! The worklist of what nobody knows the outcome of.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use tollgate_core::Timestamp;

use super::Console;
use super::call::{Problem, part, query};
use super::now::Risk;
use super::session::Session;
use super::shell::{Shell, Tab, clock, clock_or, grouped, page as drawn, tabs};

/// What can be in doubt.
pub(super) const MONEY: [&str; 2] = ["PAYMENT", "INVOICE"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Worklist {
    at_risk: Vec<Risk>,
    items: Vec<Doubt>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Doubt {
    item_type: String,
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
        address(&self.item_type, &self.id, "")
    }
}

/// A payment's page has no type in its address: it is the type that is meant when none is asked for.
pub(super) fn address(item_type: &str, id: &str, done: &str) -> String {
    let item_type = if item_type == MONEY[0] { "" } else { item_type };
    let asked = query(&[("type", item_type), ("done", done)]);
    format!("/console/in-doubt/{}{asked}", part(id))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Asked {
    #[serde(rename = "type")]
    item_type: String,
    /// The currency whose largest come first; the oldest do if there is none.
    largest: String,
    after: String,
    done: String,
}

impl Asked {
    fn of_the_api(&self) -> String {
        let order = if self.largest.is_empty() {
            "oldest"
        } else {
            "largest"
        };
        let asked = query(&[
            ("type", &self.item_type),
            ("order", order),
            ("currency", &self.largest),
            ("after", &self.after),
        ]);
        format!("/admin/in-doubt{asked}")
    }
    fn of_the_console(&self, largest: &str, after: &str) -> String {
        let asked = query(&[
            ("type", &self.item_type),
            ("largest", largest),
            ("after", after),
        ]);
        format!("/console/in-doubt{asked}")
    }
}

#[derive(Template)]
#[template(path = "in_doubt.html")]
struct ListPage {
    shell: Shell,
    tabs: Vec<Tab>,
    /// What may come first.
    orders: Vec<Tab>,
    list: Worklist,
    next: Option<String>,
    /// Whether their gateways can be asked: invoices have none.
    asks: bool,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let list: Worklist = console.get(&session, &asked.of_the_api()).await?;
    let next = list.next.as_ref();
    let next = next.map(|after| asked.of_the_console(&asked.largest, after));
    let by_type = |name: &str| format!("/console/in-doubt{}", query(&[("type", name)]));
    let shell = Shell::new(&session, "In doubt", "In doubt", &asked.done);
    Ok(drawn(&ListPage {
        asks: shell.operates && ["", MONEY[0]].contains(&asked.item_type.as_str()),
        shell,
        tabs: tabs(&MONEY, &asked.item_type, by_type),
        orders: orders(&asked, &list.at_risk),
        list,
        next,
    }))
}

/// The oldest, or the largest of a currency.
fn orders(asked: &Asked, at_risk: &[Risk]) -> Vec<Tab> {
    let oldest = Tab {
        name: "oldest first".to_owned(),
        address: asked.of_the_console("", ""),
        here: asked.largest.is_empty(),
    };
    let largest = at_risk.iter().map(|risk| Tab {
        name: format!("largest in {} first", risk.currency),
        address: asked.of_the_console(&risk.currency, ""),
        here: asked.largest == risk.currency,
    });
    std::iter::once(oldest).chain(largest).collect()
}
