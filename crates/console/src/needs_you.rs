//! What needs a person: the list of it, the number in the menu, and the banner of kill switches.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::Console;
use super::call::{Problem, part};
use super::handbook;
use super::session::{Act, Session};
use super::shell::{Shell, clock, grouped, page as drawn};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NeedsAnswer {
    pub(super) as_of: Timestamp,
    pub(super) needs: Vec<Need>,
    pub(super) seen: Vec<Need>,
    kill_switches: Vec<Switch>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Need {
    pub(super) kind: String,
    pub(super) title: String,
    count: u64,
    at_least: bool,
    pub(super) amounts: Vec<Sum>,
    pub(super) oldest: Option<Timestamp>,
    pub(super) todo: String,
    pub(super) console: String,
    handbook: String,
    pub(super) details: Vec<Detail>,
    pub(super) seen: Option<Seen>,
}

#[derive(Deserialize)]
pub(super) struct Sum {
    pub(super) currency: String,
    pub(super) amount: String,
}

#[derive(Deserialize)]
pub(super) struct Detail {
    pub(super) what: String,
}

#[derive(Deserialize)]
pub(super) struct Seen {
    pub(super) by: String,
    pub(super) at: Timestamp,
    pub(super) reason: String,
}

/// An item type that is switched off.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Switch {
    pub(super) item_type: String,
    pub(super) by: String,
    since: Timestamp,
    pub(super) reason: String,
}

impl Switch {
    pub(super) fn since(&self) -> String {
        clock(&self.since)
    }
}

impl Need {
    pub(super) fn number(&self) -> String {
        let more = if self.at_least { "at least " } else { "" };
        format!("{more}{}", grouped(&self.count))
    }
    /// What its time is.
    pub(super) fn since(&self) -> &'static str {
        match self.kind.as_str() {
            "deadlines-at-risk" => "First deadline",
            _ => "The oldest since",
        }
    }
    pub(super) fn handbook(&self) -> String {
        handbook::address(&self.handbook)
    }
    fn seen_at(&self) -> String {
        format!("/console/needs-you/{}/seen", part(&self.kind))
    }
}

impl NeedsAnswer {
    /// Which item types are off; a page that shows others is out of date.
    pub(super) fn switches(&self) -> String {
        names(&self.kill_switches)
    }
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
        names(&self.switches)
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

fn names(switches: &[Switch]) -> String {
    let names = switches.iter().map(|switch| switch.item_type.as_str());
    names.collect::<Vec<_>>().join(" ")
}

impl Console {
    /// For those who may read it.
    pub(super) async fn frame(&self, session: &Session) -> Frame {
        if !session.may(tollgate_contract::Needs::Read) {
            return Frame::default();
        }
        let told: Result<NeedsAnswer, Problem> = self.get(session, "/admin/needs-you").await;
        told.map_or_else(
            |_| Frame {
                is_unknown: true,
                ..Frame::default()
            },
            |told| Frame {
                needs: told.needs.len(),
                is_unknown: false,
                switches: told.kill_switches,
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
    list: NeedsAnswer,
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
