//! Dead letters, and the item types with their kill switch.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{Shell, Tab, clock, page as drawn, tabs};
use super::turns::{ListAt, Paged, Turns};

/// What can be given up.
const LETTERS: [&str; 3] = ["PAYMENT", "INVOICE", "NOTIFICATION"];

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    #[serde(rename = "type")]
    item_type: String,
    after: String,
    before: String,
    done: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/dead-letters",
    file: "/console/export/dead-letters",
    called: ("dead letter", "dead letters"),
};

/// What can be done about a dead letter.
trait Replayable {
    fn replay(&self) -> String;
}

impl Replayable for contract::DeadLetter {
    fn replay(&self) -> String {
        let (item_type, id) = (part(&self.item_type), part(&self.id));
        format!("/console/dead-letters/{item_type}/{id}/replay")
    }
}

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct LettersPage {
    shell: Shell,
    tabs: Vec<Tab>,
    letters: Vec<contract::DeadLetter>,
    of_type: String,
    turns: Turns,
}

pub(super) async fn dead_letters(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let of_type = ("type", &*asked.item_type);
    let wanted = query(&[of_type, ("after", &asked.after), ("before", &asked.before)]);
    let address = format!("/admin/dead-letters{wanted}");
    let found: contract::DeadLetterList = console.get(&session, &address).await?;
    let turns = LIST.turns(&[of_type], &found.ends());
    let by_type = |name: &str| format!("/console/dead-letters{}", query(&[("type", name)]));
    Ok(drawn(&LettersPage {
        shell: Shell::new(&session, "Dead letters", "Dead letters", &asked.done),
        tabs: tabs(&LETTERS, &asked.item_type, by_type),
        letters: found.dead_letters,
        of_type: asked.item_type,
        turns,
    }))
}

#[derive(Deserialize)]
pub(super) struct Because {
    reason: String,
}

pub(super) async fn replay(
    State(console): State<Console>,
    Path((item_type, id)): Path<(String, String)>,
    Act { session, form }: Act<Because>,
) -> Result<Response, Problem> {
    let (of_type, id) = (part(&item_type), part(&id));
    let what = format!("/admin/dead-letters/{of_type}/{id}/replay");
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &what, &wish).await?;
    let asked = query(&[("type", &item_type), ("done", "replayed")]);
    Ok(Redirect::to(&format!("/console/dead-letters{asked}")).into_response())
}

#[derive(Template)]
#[template(path = "item_types.html")]
struct TypesPage {
    shell: Shell,
    types: Vec<contract::ItemType>,
}

pub(super) async fn item_types(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let types: Vec<contract::ItemType> = console.get(&session, "/admin/item-types").await?;
    let shell = Shell::new(&session, "Item types", "Item types", &asked.done);
    Ok(drawn(&TypesPage { shell, types }))
}

#[derive(Deserialize)]
pub(super) struct Switch {
    enabled: bool,
    reason: String,
}

pub(super) async fn switch(
    State(console): State<Console>,
    Path(item_type): Path<String>,
    Act { session, form }: Act<Switch>,
) -> Result<Response, Problem> {
    let what = format!("/admin/item-types/{}", part(&item_type));
    let wish = json!({"enabled": form.enabled, "reason": form.reason});
    console.act(&session, Method::PUT, &what, &wish).await?;
    Ok(Redirect::to("/console/item-types?done=switched").into_response())
}
