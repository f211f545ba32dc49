//! Status checks: all that are kept, and one with its gateways and what came of it; beginning another.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;
use tollgate_contract::Needs;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{Act, Session};
use super::shell::{self, HasPage, Shell, clock, clock_or, page as drawn, soft};
use super::turns::{ListAt, Paged, Turns};

/// At most this many payments or failures of one kind are on a page; the API has all of them.
const MOST_SHOWN: usize = 100;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    id: String,
    after: String,
    before: String,
    done: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/status-checks",
    file: "/console/export/status-checks",
    called: ("status check", "status checks"),
};

impl HasPage for contract::CheckLine {
    fn address(&self) -> String {
        address(&self.workflow_id)
    }
}

fn address(id: &str) -> String {
    format!("/console/status-checks/{}", part(id))
}

#[derive(Template)]
#[template(path = "status_checks.html")]
struct ListPage {
    shell: Shell,
    /// Whether the reader may look at all of them, and may begin one.
    lists: bool,
    begins: bool,
    checks: Vec<contract::CheckLine>,
    turns: Turns,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let id = asked.id.trim();
    if !id.is_empty() {
        return Ok(Redirect::to(&address(id)).into_response());
    }
    let lists = session.may(Needs::Read);
    let (mut checks, mut turns) = (vec![], Turns::default());
    if lists {
        let wanted = query(&[("after", &asked.after), ("before", &asked.before)]);
        let wanted = format!("/payments/check-status{wanted}");
        let found: contract::CheckList = console.get(&session, &wanted).await?;
        turns = LIST.turns(&[], &found.ends());
        checks = found.checks;
    }
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Status checks", "Status checks", &asked.done),
        lists,
        begins: session.may(Needs::Ingest),
        checks,
        turns,
    }))
}

#[derive(Deserialize)]
pub(super) struct Wish {
    ids: String,
}

pub(super) async fn begin(
    State(console): State<Console>,
    Act { session, form }: Act<Wish>,
) -> Result<Response, Problem> {
    let wish = json!({"paymentIds": pasted(&form.ids)});
    let what = "/payments/check-status";
    let told = console.act(&session, Method::POST, what, &wish).await?;
    let told: contract::CheckStatusStart = serde_json::from_value(told).map_err(|error| {
        tracing::error!(%error, "the console cannot read the start of a status check");
        Problem::internal()
    })?;
    let next = format!("{}?done=asked", address(&told.workflow_id));
    Ok(Redirect::to(&next).into_response())
}

/// Ids as people paste them: one per line, or between commas or spaces.
fn pasted(text: &str) -> Vec<&str> {
    let ids = text.split(|c: char| c.is_whitespace() || c == ',' || c == ';');
    ids.filter(|id| !id.is_empty()).collect()
}

/// As much of a result as fits a page.
trait OnPage {
    fn asked(&self) -> Vec<(&String, &Vec<String>)>;
    /// The first of all gateways' failures.
    fn failures(&self) -> Vec<(&String, &contract::FailedChunk)>;
    fn failures_left(&self) -> u32;
}

impl OnPage for contract::CheckResult {
    fn asked(&self) -> Vec<(&String, &Vec<String>)> {
        self.successful.iter().take(MOST_SHOWN).collect()
    }
    fn failures(&self) -> Vec<(&String, &contract::FailedChunk)> {
        let all = self.failed.iter();
        let all = all.flat_map(|(gateway, some)| some.iter().map(move |one| (gateway, one)));
        all.take(MOST_SHOWN).collect()
    }
    fn failures_left(&self) -> u32 {
        let left = left(self.failed.values().map(Vec::len).sum());
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

/// Numbers of this page are not that large.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates hand over references"
)]
fn grouped(number: &u32) -> String {
    shell::grouped(&u64::from(*number))
}

/// The first of them, between commas, and how many there are beside these.
fn some(ids: &[String]) -> String {
    let shown = ids[..ids.len().min(MOST_SHOWN)].join(", ");
    match left(ids.len()) {
        0 => shown,
        left => format!(
            "{shown} … and {} more; the API lists all of them",
            shell::grouped(&left)
        ),
    }
}

fn left(count: usize) -> u64 {
    count.saturating_sub(MOST_SHOWN) as u64
}

#[derive(Template)]
#[template(path = "status_check.html")]
struct Page {
    shell: Shell,
    check: contract::CheckStatus,
    progress: contract::CheckProgress,
    gateways: Vec<contract::CheckGateway>,
    next: Option<String>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(id): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let at = format!("/payments/check-status/{}", part(&id));
    let mut check: contract::CheckStatus = console.get(&session, &at).await.map_err(|problem| {
        // The contract tells an unknown check like a known one, which is no error to show.
        if problem.status != StatusCode::NOT_FOUND {
            return problem;
        }
        let error = format!("there is no status check {id}; its retention may have ended");
        Problem::new(StatusCode::NOT_FOUND, error)
    })?;
    let progress = check.progress.take().ok_or_else(|| {
        tracing::error!("the API returned no progress of the status check");
        Problem::internal()
    })?;
    let wanted = format!("{at}/gateways{}", query(&[("after", &asked.after)]));
    let gateways: contract::CheckGateways = console.get(&session, &wanted).await?;
    let next = gateways.next.map(|after| after.to_string());
    Ok(drawn(&Page {
        shell: Shell::new(&session, "A status check", "Status checks", &asked.done),
        next: next.map(|after| format!("{}{}", address(&id), query(&[("after", &after)]))),
        check,
        progress,
        gateways: gateways.gateways,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_however_they_were_pasted() {
        assert_eq!(pasted("a\r\nb, c;d  e\t,\n"), ["a", "b", "c", "d", "e"]);
        assert!(pasted(" \n,").is_empty());
    }

    #[test]
    fn a_page_shows_some_and_says_how_many_are_left() {
        let ids: Vec<String> = (0..102).map(|n| n.to_string()).collect();
        assert_eq!(some(&ids[..2]), "0, 1");
        assert_eq!(some(&ids[..100]).split(", ").count(), 100);
        let all = some(&ids);
        assert!(
            all.contains("99 … and 2 more") && !all.contains("100"),
            "{all}"
        );
    }
}
