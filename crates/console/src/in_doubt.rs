//! The worklist of what nobody knows the outcome of.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::Session;
use super::shell::{HasPage, Shell, Tab, clock, clock_or, grouped, page as drawn, soft, tabs};
use super::turns::{ListAt, Paged, Turns};

/// What can be in doubt.
pub(super) const MONEY: [&str; 2] = ["PAYMENT", "INVOICE"];

impl HasPage for contract::InDoubt {
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
pub(super) struct PageQuery {
    #[serde(rename = "type")]
    item_type: String,
    /// Empty is newest first.
    order: String,
    /// With the order by size: in which currency.
    currency: String,
    after: String,
    before: String,
    done: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/in-doubt",
    file: "/console/export/in-doubt",
    called: ("item in doubt", "items in doubt"),
};

impl PageQuery {
    /// The conditions, as the API has them.
    fn conditions(&self) -> [(&str, &str); 3] {
        [
            ("type", &self.item_type),
            ("order", &self.order),
            ("currency", &self.currency),
        ]
    }

    fn of_the_api(&self) -> String {
        let [of_type, order, currency] = self.conditions();
        let places = [("after", &*self.after), ("before", &*self.before)];
        let asked = query(&[of_type, order, currency, places[0], places[1]]);
        format!("/admin/in-doubt{asked}")
    }

    fn in_order(&self, name: String, order: &str, currency: &str) -> Tab {
        let asked = query(&[
            ("type", &self.item_type),
            ("order", order),
            ("currency", currency),
        ]);
        Tab {
            name,
            address: format!("/console/in-doubt{asked}"),
            here: self.order == order && self.currency == currency,
        }
    }
}

#[derive(Template)]
#[template(path = "in_doubt.html")]
struct ListPage {
    shell: Shell,
    tabs: Vec<Tab>,
    /// What may come first.
    orders: Vec<Tab>,
    list: contract::InDoubtList,
    turns: Turns,
    /// Whether their gateways can be asked: invoices have none.
    asks: bool,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let list: contract::InDoubtList = console.get(&session, &asked.of_the_api()).await?;
    let turns = LIST.turns(&asked.conditions(), &list.ends());
    let by_type = |name: &str| format!("/console/in-doubt{}", query(&[("type", name)]));
    let shell = Shell::new(&session, "In doubt", "In doubt", &asked.done);
    Ok(drawn(&ListPage {
        asks: shell.operates && ["", MONEY[0]].contains(&asked.item_type.as_str()),
        shell,
        tabs: tabs(&MONEY, &asked.item_type, by_type),
        orders: orders(&asked, &list.at_risk),
        list,
        turns,
    }))
}

/// The newest, the oldest, or the largest of a currency.
fn orders(asked: &PageQuery, at_risk: &[contract::AtRisk]) -> Vec<Tab> {
    let by_time = [("newest first", ""), ("oldest first", "oldest")];
    let by_time = by_time.map(|(name, order)| asked.in_order(name.to_owned(), order, ""));
    let largest = at_risk.iter().map(|risk| {
        let name = format!("largest in {} first", risk.currency);
        asked.in_order(name, "largest", &risk.currency)
    });
    by_time.into_iter().chain(largest).collect()
}
