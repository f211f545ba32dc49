//! Acts on many payments: what was done, a form that previews, and a job with its progress.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{HasPage, Shell, clock, clock_or, grouped, live, page as drawn, soft};
use super::turns::{ListAt, Paged, Turns};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    after: String,
    before: String,
    done: String,
    /// Whether the form that stops a job is open.
    stop: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/jobs",
    file: "/console/export/jobs",
    called: ("job", "jobs"),
};

impl HasPage for contract::Job {
    fn address(&self) -> String {
        address(&self.job_id)
    }
}

/// What a page says of a job.
trait OnPage {
    fn looked_at(&self) -> u64;
    fn asks(&self) -> bool;
    fn runs(&self) -> bool;
    /// The conditions, as words.
    fn conditions(&self) -> String;
}

impl OnPage for contract::Job {
    fn looked_at(&self) -> u64 {
        self.done + self.left_out
    }
    fn asks(&self) -> bool {
        self.act == "ask"
    }
    fn runs(&self) -> bool {
        self.state == "RUNNING"
    }
    fn conditions(&self) -> String {
        let one = |(name, value): (&String, &Value)| match value {
            Value::Bool(true) => name.clone(),
            Value::String(text) => format!("{name} {text}"),
            value => format!("{name} {value}"),
        };
        let conditions: Vec<String> = self.filter.iter().map(one).collect();
        conditions.join(", ")
    }
}

fn address(job: &str) -> String {
    format!("/console/jobs/{}", part(job))
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct ListPage {
    shell: Shell,
    jobs: Vec<contract::Job>,
    turns: Turns,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let wanted = query(&[("after", &asked.after), ("before", &asked.before)]);
    let found: contract::JobList = console
        .get(&session, &format!("/admin/jobs{wanted}"))
        .await?;
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Jobs", "Jobs", &asked.done),
        turns: LIST.turns(&[], &found.ends()),
        jobs: found.jobs,
    }))
}

/// What the form asks for, by the names of its fields; one that was left empty is not asked.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Wish {
    act: String,
    digest: String,
    reason: String,
    execute_at: String,
    #[serde(flatten)]
    conditions: BTreeMap<String, String>,
}

/// Conditions as the form names them, and as the API does.
const TEXTS: [(&str, &str); 14] = [
    ("type", "type"),
    ("status", "status"),
    ("lane", "lane"),
    ("gateway", "gateway"),
    ("import", "import"),
    ("accepted_from", "acceptedFrom"),
    ("accepted_to", "acceptedTo"),
    ("due_from", "dueFrom"),
    ("due_to", "dueTo"),
    ("currency", "currency"),
    ("min_amount", "minAmount"),
    ("max_amount", "maxAmount"),
    ("account", "account"),
    ("reference", "reference"),
];
const FLAGS: [&str; 3] = ["held", "late", "all"];

impl Wish {
    fn said(&self, field: &str) -> Option<&str> {
        let text = self.conditions.get(field)?.trim();
        (!text.is_empty()).then_some(text)
    }

    fn request(&self) -> Value {
        let mut filter = Map::new();
        for (field, name) in TEXTS {
            let said = self.said(field);
            filter.extend(said.map(|text| (name.to_owned(), json!(text))));
        }
        for name in FLAGS {
            let said = self.said(name);
            filter.extend(said.map(|_| (name.to_owned(), json!(true))));
        }
        if let Some(storm) = self.said("storm") {
            let number = storm
                .parse::<i64>()
                .map_or_else(|_| json!(storm), Value::from);
            filter.insert("storm".to_owned(), number);
        }
        let mut request = json!({"act": self.act, "filter": filter});
        let at = self.execute_at.trim();
        if !at.is_empty() {
            request["executeAt"] = json!(at);
        }
        request
    }

    /// What a confirmation repeats, as hidden fields of its form.
    fn repeated(&self) -> Vec<(&str, String)> {
        let fields = TEXTS.map(|(field, _)| field).into_iter().chain(FLAGS);
        let said = |field| Some((field, self.said(field)?.to_owned()));
        let mut all: Vec<_> = fields.chain(["storm"]).filter_map(said).collect();
        all.push(("act", self.act.clone()));
        all.push(("execute_at", self.execute_at.clone()));
        all.retain(|(_, text)| !text.is_empty());
        all
    }
}

#[derive(Template)]
#[template(path = "job_preview.html")]
struct PreviewPage<'a> {
    shell: Shell,
    act: &'a str,
    preview: contract::JobPreview,
    repeated: Vec<(&'a str, String)>,
}

/// Without a digest a preview, with one the job itself.
pub(super) async fn begin(
    State(console): State<Console>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    let mut request = form.request();
    if form.digest.is_empty() {
        request["dryRun"] = json!(true);
        let found = console.act(&session, Method::POST, "/admin/jobs", &request);
        let preview = serde_json::from_value(found.await?).map_err(|error| {
            tracing::error!(%error, "the console cannot read a job preview");
            Problem::internal()
        })?;
        return Ok(drawn(&PreviewPage {
            shell: Shell::new(&session, "Preview", "Jobs", ""),
            repeated: form.repeated(),
            act: &form.act,
            preview,
        }));
    }
    request["digest"] = json!(form.digest);
    request["reason"] = json!(form.reason);
    let started = console.act(&session, Method::POST, "/admin/jobs", &request);
    let started = started.await?;
    let job = started["jobId"].as_str().unwrap_or_default();
    Ok(Redirect::to(&address(job)).into_response())
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: contract::Job,
    stops: bool,
    /// What was left out; of a job that asks, every item with its answer.
    items: Vec<contract::JobItem>,
    next: Option<String>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(job): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let api = format!("/admin/jobs/{}", part(&job));
    let found: contract::Job = console.get(&session, &api).await?;
    let left_out = if found.asks() { "" } else { "true" };
    let wanted = query(&[("leftOut", left_out), ("after", &asked.after)]);
    let items: contract::JobItems = console
        .get(&session, &format!("{api}/items{wanted}"))
        .await?;
    let here = found.address();
    let next = items
        .next
        .map(|after| query(&[("after", &after.to_string())]));
    let stops = !asked.stop.is_empty();
    // Nothing is drawn again under a form that someone fills in.
    let goes_on = found.runs() && !stops;
    let response = drawn(&JobPage {
        shell: Shell::new(&session, format!("Job {job}"), "Jobs", &asked.done),
        job: found,
        stops,
        items: items.items,
        next: next.map(|asked| format!("{here}{asked}")),
    });
    Ok(if goes_on { live(response) } else { response })
}

#[derive(Deserialize)]
pub(super) struct Because {
    reason: String,
}

pub(super) async fn stop(
    State(console): State<Console>,
    Path(job): Path<String>,
    Act { session, form }: Act<Because>,
) -> Result<Response, Problem> {
    let api = format!("/admin/jobs/{}/stop", part(&job));
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &api, &wish).await?;
    let there = format!("{}?done=stopped", address(&job));
    Ok(Redirect::to(&there).into_response())
}
