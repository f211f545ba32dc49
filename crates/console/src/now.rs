//! The first page: every lane as a gate, and what needs a person.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part};
use super::chart::Rate;
use super::needs_you::{OnPage, switches};
use super::session::Session;
use super::shell::{HasPage, Shell, clock, grouped, lasting, page as drawn};

impl HasPage for contract::Lane {
    fn address(&self) -> String {
        format!("/console/lanes/{}", part(&self.config_name))
    }
}

/// Nothing to tell of a process that is alone and leads.
fn worth_telling(nodes: Vec<contract::Node>) -> Vec<contract::Node> {
    let is_alone = nodes.len() < 2 && nodes.iter().all(|node| node.role == "leader");
    if is_alone { vec![] } else { nodes }
}

fn per_second(rate: Decimal) -> f64 {
    rate.to_f64().unwrap_or_default()
}

/// A lane as it is drawn.
pub(super) struct Gate {
    pub(super) now: contract::LaneNow,
    /// In the last whole second.
    last_second: u32,
    pub(super) drains: String,
    pub(super) picture: String,
}

impl Gate {
    pub(super) fn new(lane: contract::LaneNow, now: Timestamp, since: Timestamp) -> Self {
        let seconds: Vec<_> = lane.seconds.iter().map(|s| (s.at, s.sends)).collect();
        let whole = now.as_second() - 1;
        let last = seconds.iter().find(|(at, _)| at.as_second() == whole);
        let picture = Rate {
            from: since,
            to: now,
            seconds: &seconds,
            limit: per_second(lane.lane.max_per_second),
            plan: per_second(lane.planned_per_second),
        };
        let drains = match (lane.drained_at, &lane.provisional) {
            (Some(at), _) => format!("in {}, at {}", lasting(at.duration_since(now)), clock(&at)),
            (None, Some(provisional)) => {
                format!("no estimate is available: {}", provisional.reason)
            }
            (None, None) => "nothing is waiting".to_owned(),
        };
        Self {
            last_second: last.map_or(0, |(_, sends)| *sends),
            drains,
            picture: picture.svg(),
            now: lane,
        }
    }
}

impl Gate {
    /// Deadlines that will be missed, and those of what has no time.
    pub(super) fn late(&self) -> String {
        let (late, untold) = (grouped(&self.now.late), grouped(&self.now.untold));
        match self.now.untold {
            0 => late,
            _ => format!("{late}, and {untold} without an estimate"),
        }
    }
    pub(super) fn is_late(&self) -> bool {
        self.now.late + self.now.untold > 0
    }
    /// Below one a second a single send is within the limit.
    fn is_over(&self) -> bool {
        f64::from(self.now.worst_second) > per_second(self.now.lane.max_per_second).max(1.0)
    }
}

/// What changes every second.
#[derive(Template)]
#[template(path = "now_live.html")]
struct Live {
    now: Timestamp,
    gates: Vec<Gate>,
    needs: contract::NeedsYou,
    nodes: Vec<contract::Node>,
    trouble: Option<String>,
}

/// The live part, as text.
pub(super) async fn live(console: &Console, session: &Session) -> Result<String, Problem> {
    let told: contract::LanesActivity = console.get(session, "/admin/now").await?;
    let nodes: contract::Nodes = console.get(session, "/admin/nodes").await?;
    let ready = console.answer(session, ready()).await;
    let (now, since) = (told.now, told.since);
    let gate = |lane| Gate::new(lane, now, since);
    let live = Live {
        now,
        gates: told.lanes.into_iter().map(gate).collect(),
        needs: console.get(session, "/admin/needs-you").await?,
        nodes: worth_telling(nodes.nodes),
        trouble: ready.err().map(|problem| problem.error),
    };
    live.render().map_err(|error| {
        tracing::error!(%error, "a page cannot be drawn");
        Problem::internal()
    })
}

fn ready() -> axum::http::Request<axum::body::Body> {
    let mut request = axum::http::Request::new(axum::body::Body::empty());
    *request.uri_mut() = axum::http::Uri::from_static("/health/ready");
    request
}

#[derive(Template)]
#[template(path = "now.html")]
struct Page {
    shell: Shell,
    live: Arc<str>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
) -> Result<Response, Problem> {
    if !session.may(contract::Needs::Read) {
        // Whoever only hands payments in has no business with the lanes.
        return Ok(axum::response::IntoResponse::into_response(
            axum::response::Redirect::to("/console/payments"),
        ));
    }
    let live = console.drawing(&session).await?;
    let shell = Shell::new(&session, "Now", "Now", "");
    Ok(drawn(&Page { shell, live }))
}
