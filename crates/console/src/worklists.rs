//! Dead letters, and the item types with their kill switch.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{Shell, Tab, clock, page as drawn, tabs};
use super::turns::{Ends, ListAt, Turns};

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Letters {
    dead_letters: Vec<Letter>,
    #[serde(flatten)]
    ends: Ends,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/dead-letters",
    file: "/console/export/dead-letters",
    called: ("dead letter", "dead letters"),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Letter {
    item_type: String,
    id: String,
    status: String,
    amount: String,
    currency: String,
    lane: String,
    run: u32,
    retry_count: u32,
    last_error: Option<String>,
    due: Timestamp,
}

impl Letter {
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
    letters: Vec<Letter>,
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
    let found: Letters = console.get(&session, &address).await?;
    let turns = LIST.turns(&[of_type], &found.ends);
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    item_type: String,
    enabled: bool,
    batch_size: u32,
    exec_workflow_type: String,
    version: i64,
    since: Timestamp,
    actor: String,
    reason: String,
}

#[derive(Template)]
#[template(path = "item_types.html")]
struct TypesPage {
    shell: Shell,
    types: Vec<Kind>,
}

pub(super) async fn item_types(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let types: Vec<Kind> = console.get(&session, "/admin/item-types").await?;
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
