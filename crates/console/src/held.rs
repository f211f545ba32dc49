//! The worklist of what is held.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::in_doubt::MONEY;
use super::session::{Act, Session};
use super::shell::{HasPage, Shell, Tab, clock, clock_or, grouped, page as drawn, tabs};
use super::turns::{ListAt, Paged, Turns};

impl HasPage for contract::Held {
    fn address(&self) -> String {
        let of_type = if self.is_payment() {
            "payments"
        } else {
            "invoices"
        };
        format!("/console/{of_type}/{}", part(&self.id))
    }
}

/// What a person does with a held item here.
trait Decided {
    /// Invoices are released and cancelled on their own pages.
    fn is_payment(&self) -> bool;
    fn act(&self) -> String;
}

impl Decided for contract::Held {
    fn is_payment(&self) -> bool {
        self.item_type == MONEY[0]
    }
    fn act(&self) -> String {
        format!("/console/held/{}", part(&self.id))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    #[serde(rename = "type")]
    item_type: String,
    gateway: String,
    order: String,
    after: String,
    before: String,
    done: String,
}

impl PageQuery {
    /// The conditions, as the API has them.
    fn conditions(&self) -> [(&str, &str); 3] {
        [
            ("type", &self.item_type),
            ("gateway", self.gateway.trim()),
            ("order", &self.order),
        ]
    }

    fn in_order(&self, order: &str) -> String {
        let [of_type, gateway, _] = self.conditions();
        let asked = query(&[of_type, gateway, ("order", order)]);
        format!("/console/held{asked}")
    }

    /// What may come first.
    fn orders(&self) -> Vec<Tab> {
        let tab = |name: &str, order: &str| Tab {
            name: name.to_owned(),
            address: self.in_order(order),
            here: self.order == order,
        };
        vec![tab("newest first", ""), tab("oldest first", "due")]
    }

    fn is_of_payments(&self) -> bool {
        ["", MONEY[0]].contains(&self.item_type.as_str())
    }
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/held",
    file: "/console/export/held",
    called: ("held item", "held items"),
};

#[derive(Template)]
#[template(path = "held.html")]
struct ListPage {
    shell: Shell,
    tabs: Vec<Tab>,
    orders: Vec<Tab>,
    asked: PageQuery,
    list: contract::HeldList,
    turns: Turns,
    /// Whether all of them can be acted on at once: invoices cannot.
    acts: bool,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let [of_type, gateway, order] = asked.conditions();
    let places = [("after", &*asked.after), ("before", &*asked.before)];
    let wanted = query(&[of_type, gateway, order, places[0], places[1]]);
    let list: contract::HeldList = console
        .get(&session, &format!("/admin/held{wanted}"))
        .await?;
    let turns = LIST.turns(&asked.conditions(), &list.ends());
    let by_type = |name: &str| format!("/console/held{}", query(&[("type", name)]));
    let shell = Shell::new(&session, "Held", "Held", &asked.done);
    Ok(drawn(&ListPage {
        acts: shell.operates && asked.is_of_payments(),
        shell,
        tabs: tabs(&MONEY, &asked.item_type, by_type),
        orders: asked.orders(),
        asked,
        list,
        turns,
    }))
}

#[derive(Deserialize)]
pub(super) struct Decision {
    act: String,
    reason: String,
}

pub(super) async fn decide(
    State(console): State<Console>,
    Path(id): Path<String>,
    Act { session, form }: Act<Decision>,
) -> Result<Response, Problem> {
    let done = match form.act.as_str() {
        "release" => "released",
        "cancel" => "cancelled",
        _ => {
            let error = "act must be release or cancel";
            return Err(Problem::new(StatusCode::BAD_REQUEST, error));
        }
    };
    let what = format!("/payments/{}/{}", part(&id), form.act);
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &what, &wish).await?;
    let address = format!("/console/held{}", query(&[("done", done)]));
    Ok(Redirect::to(&address).into_response())
}
