//! Limit, plan and calendar of a lane, and the slots of what waits, in one previewed form: how deadlines at risk are cured.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{Shell, clock_or, grouped, page as drawn};

/// The numbers that were asked for; none of them: those that would be enough.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    limit: String,
    plan: String,
    window: String,
    /// `none` takes it off.
    calendar: String,
}

impl PageQuery {
    fn fields(&self) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        if !self.limit.trim().is_empty() {
            let limit: f64 = number(&self.limit, "the limit")?;
            fields.insert("maxPerSecond".into(), json!(limit));
        }
        let whole = [
            ("maxPerWindow", &self.plan, "the plan"),
            ("windowSizeSecs", &self.window, "the length of a window"),
        ];
        for (field, text, what) in whole {
            if !text.trim().is_empty() {
                fields.insert(field.into(), json!(number::<u32>(text, what)?));
            }
        }
        match self.calendar.trim() {
            "" => {}
            NO_CALENDAR => drop(fields.insert("calendar".into(), Value::Null)),
            name => drop(fields.insert("calendar".into(), json!(name))),
        }
        Ok(fields)
    }
}

const NO_CALENDAR: &str = "none";

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Problem> {
    let error = || format!("{what} must be a number, not {text:?}");
    text.trim()
        .parse()
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, error()))
}

/// As the form names it.
trait Named {
    fn calendar(&self) -> &str;
}

impl Named for contract::LaneSettings {
    fn calendar(&self) -> &str {
        self.calendar.as_deref().unwrap_or(NO_CALENDAR)
    }
}

/// What the page says of a preview.
trait OnPage {
    fn lane_address(&self) -> String;
    fn payments(&self) -> String;
    fn binds(&self) -> &'static str;
    fn changes(&self) -> bool;
}

impl OnPage for contract::LaneAdjusted {
    fn lane_address(&self) -> String {
        address(&self.lane)
    }
    fn payments(&self) -> String {
        let wanted = query(&[("lane", &self.lane), ("atRisk", "true")]);
        format!("/console/payments{wanted}")
    }
    fn binds(&self) -> &'static str {
        match self.binds.as_deref() {
            Some("plan") => "the plan",
            Some(_) => "the hard limit",
            None => "none: no deadline is missed",
        }
    }
    fn changes(&self) -> bool {
        self.before != self.after
    }
}

fn address(lane: &str) -> String {
    format!("/console/lanes/{}", part(lane))
}

#[derive(Template)]
#[template(path = "adjust.html")]
struct Page {
    shell: Shell,
    preview: contract::LaneAdjusted,
    calendars: Vec<contract::Calendar>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(lane): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let mut wish = asked.fields()?;
    wish.insert("dryRun".into(), json!(true));
    let at = format!("/admin/lanes/{}/adjust", part(&lane));
    let told = console
        .act(&session, Method::POST, &at, &wish.into())
        .await?;
    let preview: contract::LaneAdjusted = serde_json::from_value(told).map_err(|error| {
        tracing::error!(%error, "the console cannot read an adjustment preview");
        Problem::internal()
    })?;
    let calendars = console.get(&session, "/admin/calendars").await?;
    Ok(drawn(&Page {
        shell: Shell::new(&session, format!("Adjust lane {lane}"), "", ""),
        preview,
        calendars,
    }))
}

#[derive(Deserialize)]
pub(super) struct Confirmed {
    digest: String,
    reason: String,
    #[serde(flatten)]
    asked: PageQuery,
    #[serde(default)]
    confirm: String,
}

pub(super) async fn apply(
    State(console): State<Console>,
    Path(lane): Path<String>,
    Act { session, form }: Act<Confirmed>,
) -> Result<Response, Problem> {
    super::must_say_why(&form.reason)?;
    let mut wish = form.asked.fields()?;
    wish.insert("digest".into(), json!(form.digest));
    wish.insert("reason".into(), json!(form.reason.trim()));
    wish.insert("confirm".into(), json!(form.confirm == "yes"));
    let at = format!("/admin/lanes/{}/adjust", part(&lane));
    console
        .act(&session, Method::POST, &at, &wish.into())
        .await?;
    Ok(Redirect::to(&format!("{}?done=adjusted", address(&lane))).into_response())
}
