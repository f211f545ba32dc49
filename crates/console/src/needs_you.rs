//! What needs a person: the list of it, the number in the menu, and the banner of kill switches.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part};
use super::handbook;
use super::session::{Act, Session};
use super::shell::{Shell, clock, grouped, page as drawn};

/// An item type that is switched off, on every page.
#[derive(Debug, Clone)]
pub(super) struct Switch {
    pub(super) item_type: String,
    pub(super) by: String,
    pub(super) since: String,
    pub(super) reason: String,
}

impl From<contract::KillSwitch> for Switch {
    fn from(switch: contract::KillSwitch) -> Self {
        Self {
            since: clock(&switch.since),
            item_type: switch.item_type,
            by: switch.by,
            reason: switch.reason,
        }
    }
}

/// What pages say of one kind.
pub(super) trait OnPage {
    fn number(&self) -> String;
    /// What its time is.
    fn since(&self) -> &'static str;
    fn handbook(&self) -> String;
    fn seen_at(&self) -> String;
}

impl OnPage for contract::Need {
    fn number(&self) -> String {
        let more = if self.at_least { "at least " } else { "" };
        format!("{more}{}", grouped(&self.count))
    }
    fn since(&self) -> &'static str {
        match self.kind.as_str() {
            "deadlines-at-risk" => "First deadline",
            _ => "The oldest since",
        }
    }
    fn handbook(&self) -> String {
        handbook::address(&self.handbook)
    }
    fn seen_at(&self) -> String {
        format!("/console/needs-you/{}/seen", part(&self.kind))
    }
}

/// Which item types are off; a page that shows others is out of date.
pub(super) fn switches(needs: &contract::NeedsYou) -> String {
    names(needs.kill_switches.iter().map(|switch| &*switch.item_type))
}

/// What of it is on every page.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    pub(super) needs: usize,
    /// It could not be counted: the page must not look as if nothing needed a person.
    pub(super) is_unknown: bool,
    pub(super) switches: Vec<Switch>,
}

impl Frame {
    pub(super) fn switches(&self) -> String {
        names(self.switches.iter().map(|switch| &*switch.item_type))
    }
    /// Beside the name of the page; empty if nothing needs a person.
    pub(super) fn number(&self) -> String {
        match self.needs {
            _ if self.is_unknown => "?".to_owned(),
            0 => String::new(),
            number => number.to_string(),
        }
    }
}

fn names<'a>(types: impl Iterator<Item = &'a str>) -> String {
    types.collect::<Vec<_>>().join(" ")
}

impl Console {
    /// For those who may read it.
    pub(super) async fn frame(&self, session: &Session) -> Frame {
        if !session.may(contract::Needs::Read) {
            return Frame::default();
        }
        let told: Result<contract::NeedsYou, Problem> = self.get(session, "/admin/needs-you").await;
        told.map_or_else(
            |_| Frame {
                is_unknown: true,
                ..Frame::default()
            },
            |told| Frame {
                needs: told.needs.len(),
                is_unknown: false,
                switches: told.kill_switches.into_iter().map(Switch::from).collect(),
            },
        )
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    done: String,
}

#[derive(Template)]
#[template(path = "needs_you.html")]
struct NeedsPage {
    shell: Shell,
    list: contract::NeedsYou,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let list = console.get(&session, "/admin/needs-you").await?;
    let shell = Shell::new(&session, "Needs you", "Needs you", &asked.done);
    Ok(drawn(&NeedsPage { shell, list }))
}

#[derive(Deserialize)]
pub(super) struct SeenForm {
    count: u64,
    reason: String,
}

pub(super) async fn seen(
    State(console): State<Console>,
    Path(kind): Path<String>,
    Act { session, form }: Act<SeenForm>,
) -> Result<Response, Problem> {
    let what = format!("/admin/needs-you/{}/seen", part(&kind));
    let wish = json!({"reason": form.reason, "count": form.count});
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(Redirect::to("/console/needs-you?done=seen").into_response())
}
