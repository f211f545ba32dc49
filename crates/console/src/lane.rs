//! A lane: its windows, its proof, what if, and what a person can do with it.

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::now::Gate;
use super::session::{Act, Session};
use super::shell::{HasPage, Shell, clock, clock_or, grouped, page as drawn};

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageQuery {
    done: String,
    /// The day of the certificate; today if empty.
    date: String,
    /// What if so many came at that time.
    count: String,
    execute_at: String,
    /// What if the limit were this one.
    what_if: String,
    reason: String,
}

/// A version of a lane on its page.
trait Said {
    /// What it said, in few words.
    fn said(&self) -> String;
}

impl Said for contract::Version {
    fn said(&self) -> String {
        let number = |name: &str| self.body.get(name).map(Value::to_string);
        let rate = number("max_per_second").or_else(|| number("maxPerSecond"));
        let rate = rate.map(|rate| format!("{} a second", rate.trim_matches('"')));
        let is_paused = self.body.get("pause").is_some_and(|pause| !pause.is_null());
        let paused = is_paused.then(|| "paused".to_owned());
        [rate, paused]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// A change that was asked for and not made yet.
struct Proposal {
    limit: String,
    reason: String,
    verdict: String,
    shift: Option<contract::Shift>,
}

#[derive(Template)]
#[template(path = "lane.html")]
struct Page {
    shell: Shell,
    gate: Gate,
    storm: Option<contract::Storm>,
    asked: PageQuery,
    answer: Option<String>,
    proposal: Option<Proposal>,
    history: Vec<contract::Version>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(name): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let gate = gate(&console, &session, &name).await?;
    let history = format!("/admin/lanes/{}/history", part(&name));
    let storm = console.storm(&session, &gate.now.lane).await?;
    let answer = console.foreseen(&session, &name, &asked).await?;
    let proposal = console.proposed(&session, &name, &asked).await?;
    let title = format!("Lane {name}");
    Ok(drawn(&Page {
        shell: Shell::new(&session, title, "", &asked.done),
        gate,
        storm,
        answer,
        proposal,
        history: console.get(&session, &history).await?,
        asked,
    }))
}

async fn gate(console: &Console, session: &Session, name: &str) -> Result<Gate, Problem> {
    let told: contract::LanesActivity = console.get(session, "/admin/now").await?;
    let (now, since) = (told.now, told.since);
    let mut lanes = told.lanes.into_iter();
    let found = lanes.find(|lane| lane.lane.config_name == name);
    let mut lane = found.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            format!("there is no lane \"{name}\""),
        )
    })?;
    // What was told may be a second old; what a form is drawn from must not be, or whoever has just
    // changed the lane would be refused for it.
    if let Some(fresh) = console.lane(session, name).await? {
        lane.lane = fresh;
    }
    Ok(Gate::new(lane, now, since))
}

impl Console {
    /// The refusal storm that has paused the lane.
    async fn storm(
        &self,
        session: &Session,
        lane: &contract::Lane,
    ) -> Result<Option<contract::Storm>, Problem> {
        let Some(number) = lane.storm else {
            return Ok(None);
        };
        let told: contract::StormList = self.get(session, "/admin/storms").await?;
        let mut storms = told.storms.into_iter();
        Ok(storms.find(|storm| storm.storm == number))
    }

    /// The answer to "what if so many came?".
    async fn foreseen(
        &self,
        session: &Session,
        lane: &str,
        asked: &PageQuery,
    ) -> Result<Option<String>, Problem> {
        if asked.count.is_empty() {
            return Ok(None);
        }
        let count: u64 = number(&asked.count, "how many")?;
        let mut wish = json!({"configName": lane, "count": count});
        if !asked.execute_at.is_empty() {
            wish["executeAt"] = asked.execute_at.as_str().into();
        }
        let told = self.forecast(session, &wish).await?;
        Ok(Some(told.verdict))
    }

    /// What a new limit would do to what waits.
    async fn proposed(
        &self,
        session: &Session,
        lane: &str,
        asked: &PageQuery,
    ) -> Result<Option<Proposal>, Problem> {
        if asked.what_if.is_empty() {
            return Ok(None);
        }
        let limit: f64 = number(&asked.what_if, "the limit")?;
        let wish = json!({"configName": lane, "change": {"maxPerSecond": limit}});
        let told = self.forecast(session, &wish).await?;
        Ok(Some(Proposal {
            limit: asked.what_if.clone(),
            reason: asked.reason.clone(),
            verdict: told.verdict,
            shift: told.queue,
        }))
    }

    async fn forecast(
        &self,
        session: &Session,
        wish: &Value,
    ) -> Result<contract::Forecast, Problem> {
        let address = "/admin/rate-limit/forecast";
        let told = self.act(session, Method::POST, address, wish).await?;
        serde_json::from_value(told).map_err(|error| {
            tracing::error!(%error, "the console cannot read a forecast");
            Problem::internal()
        })
    }

    /// The current lane.
    async fn lane(&self, session: &Session, name: &str) -> Result<Option<contract::Lane>, Problem> {
        let lanes: Vec<contract::Lane> = self.get(session, "/admin/rate-limit/config").await?;
        Ok(lanes.into_iter().find(|lane| lane.config_name == name))
    }

    /// Somebody else's change in between must be seen before it is overwritten.
    async fn unchanged(&self, session: &Session, name: &str, version: i64) -> Result<(), Problem> {
        let lane = self.lane(session, name).await?;
        if lane.is_some_and(|lane| lane.version == version) {
            return Ok(());
        }
        let error = "this lane was changed after you opened the page; reload the page";
        Err(Problem::new(StatusCode::CONFLICT, error))
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Problem> {
    let error = || format!("{what} must be a number, not {text:?}");
    text.trim()
        .parse()
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, error()))
}

#[derive(Deserialize)]
pub(super) struct Change {
    version: i64,
    reason: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    limit: String,
    /// That something which waits may run much later, or never.
    #[serde(default)]
    confirm: String,
}

pub(super) async fn pause(
    State(console): State<Console>,
    Path(lane): Path<String>,
    Act { session, form }: Act<Change>,
) -> Result<Response, Problem> {
    console.unchanged(&session, &lane, form.version).await?;
    let mut wish = json!({"reason": form.reason});
    if !form.until.is_empty() {
        wish["until"] = form.until.into();
    }
    let address = format!("/admin/lanes/{}/pause", part(&lane));
    console.act(&session, Method::POST, &address, &wish).await?;
    Ok(back(&lane, "paused"))
}

pub(super) async fn resume(
    State(console): State<Console>,
    Path(lane): Path<String>,
    Act { session, form }: Act<Change>,
) -> Result<Response, Problem> {
    console.unchanged(&session, &lane, form.version).await?;
    let address = format!("/admin/lanes/{}/resume", part(&lane));
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &address, &wish).await?;
    Ok(back(&lane, "resumed"))
}

pub(super) async fn limit(
    State(console): State<Console>,
    Path(lane): Path<String>,
    Act { session, form }: Act<Change>,
) -> Result<Response, Problem> {
    console.unchanged(&session, &lane, form.version).await?;
    let limit: f64 = number(&form.limit, "the limit")?;
    super::must_say_why(&form.reason)?;
    let reason = form.reason.trim();
    let wish = json!({
        "configName": lane, "maxPerSecond": limit, "reason": reason, "confirm": form.confirm == "yes"
    });
    let address = "/admin/rate-limit/config";
    console.act(&session, Method::POST, address, &wish).await?;
    Ok(back(&lane, "limit"))
}

fn back(lane: &str, done: &str) -> Response {
    Redirect::to(&format!("/console/lanes/{}?done={done}", part(lane))).into_response()
}

pub(super) async fn windows(
    State(console): State<Console>,
    session: Session,
    Path(lane): Path<String>,
) -> Result<Response, Problem> {
    let asked = query(&[("configName", &lane), ("format", "svg"), ("limit", "400")]);
    let address = format!("/admin/rate-limit/windows{asked}");
    console.relayed(&session, &address).await
}

#[derive(Deserialize)]
pub(super) struct Day {
    #[serde(default)]
    date: String,
}

pub(super) async fn rate(
    State(console): State<Console>,
    session: Session,
    Path(lane): Path<String>,
    Query(day): Query<Day>,
) -> Result<Response, Problem> {
    let asked = query(&[("lane", &lane), ("date", &day.date), ("format", "svg")]);
    let address = format!("/admin/rate-limit/certificate{asked}");
    console.relayed(&session, &address).await
}

pub(super) async fn certificate(
    State(console): State<Console>,
    session: Session,
    Path(lane): Path<String>,
    Query(day): Query<Day>,
) -> Result<Response, Problem> {
    let asked = query(&[("lane", &lane), ("date", &day.date), ("format", "text")]);
    let address = format!("/admin/rate-limit/certificate{asked}");
    console.relayed(&session, &address).await
}

impl Console {
    /// What the API answers, for the browser as it is.
    async fn relayed(&self, session: &Session, address: &str) -> Result<Response, Problem> {
        let request = Request::get(address).body(Body::empty());
        let unusual = |_| Problem::new(StatusCode::BAD_REQUEST, "the request is invalid");
        let answer = self.answer(session, request.map_err(unusual)?).await?;
        let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
        let mut relayed = answer.into_body().into_response();
        if let Some(kind) = kind {
            relayed.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        Ok(relayed)
    }
}
