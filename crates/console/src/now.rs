//! The first page: every lane as a gate, and what needs a person.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;

use super::Console;
use super::call::{Problem, part};
use super::chart::Rate;
use super::needs_you;
use super::session::Session;
use super::shell::{Shell, clock, grouped, lasting, page as drawn};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NowAnswer {
    pub(super) now: Timestamp,
    pub(super) since: Timestamp,
    pub(super) lanes: Vec<LaneNow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LaneNow {
    pub(super) lane: Lane,
    planned_per_second: f64,
    pub(super) waiting: u64,
    pub(super) overdue: u64,
    late: u64,
    untold: u64,
    drained_at: Option<Timestamp>,
    provisional: Option<Provisional>,
    pub(super) slot_to_turn_ms: u64,
    worst_second: u32,
    seconds: Vec<Second>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lane {
    pub(super) config_name: String,
    pub(super) max_per_window: u32,
    pub(super) window_size_secs: u32,
    pub(super) max_per_second: f64,
    pub(super) calendar: Option<String>,
    pub(super) pause: Option<Pause>,
    /// The refusal storm that has paused it.
    pub(super) storm: Option<i64>,
    pub(super) version: i64,
    pub(super) open: bool,
    pub(super) closed_because: Option<String>,
    pub(super) opens_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct Pause {
    pub(super) actor: String,
    pub(super) reason: String,
}

/// Why no estimate is available.
#[derive(Deserialize)]
struct Provisional {
    reason: String,
}

#[derive(Deserialize)]
struct Second {
    at: Timestamp,
    sends: u32,
}

impl Lane {
    pub(super) fn address(&self) -> String {
        format!("/console/lanes/{}", part(&self.config_name))
    }
}

/// Amount in doubt in one currency.
#[derive(Deserialize)]
pub(super) struct Risk {
    pub(super) currency: String,
    pub(super) count: u64,
    pub(super) amount: String,
    pub(super) since: Timestamp,
}

/// The processes on the store.
#[derive(Deserialize)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    role: String,
    this: bool,
    cannot_lead: Option<String>,
}

impl Nodes {
    /// Nothing to tell of a process that is alone and leads.
    fn worth_telling(self) -> Vec<Node> {
        let is_alone = self.nodes.len() < 2 && self.nodes.iter().all(|node| node.role == "leader");
        if is_alone { vec![] } else { self.nodes }
    }
}

/// A lane as it is drawn.
pub(super) struct Gate {
    pub(super) now: LaneNow,
    /// In the last whole second.
    last_second: u32,
    pub(super) drains: String,
    pub(super) picture: String,
}

impl Gate {
    pub(super) fn new(lane: LaneNow, now: Timestamp, since: Timestamp) -> Self {
        let seconds: Vec<_> = lane.seconds.iter().map(|s| (s.at, s.sends)).collect();
        let whole = now.as_second() - 1;
        let last = seconds.iter().find(|(at, _)| at.as_second() == whole);
        let picture = Rate {
            from: since,
            to: now,
            seconds: &seconds,
            limit: lane.lane.max_per_second,
            plan: lane.planned_per_second,
        };
        let drains = match (lane.drained_at, &lane.provisional) {
            (Some(at), _) => format!("in {}, at {}", lasting(at.duration_since(now)), clock(&at)),
            (None, Some(provisional)) => {
                format!("no estimate is available: {}", provisional.reason)
            }
            (None, None) => "nothing waits".to_owned(),
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
            _ => format!("{late}, and {untold} without a time"),
        }
    }
    pub(super) fn is_late(&self) -> bool {
        self.now.late + self.now.untold > 0
    }
    /// Below one a second a single send is within the limit.
    fn is_over(&self) -> bool {
        f64::from(self.now.worst_second) > self.now.lane.max_per_second.max(1.0)
    }
}

/// What changes every second.
#[derive(Template)]
#[template(path = "now_live.html")]
struct Live {
    now: Timestamp,
    gates: Vec<Gate>,
    needs: needs_you::NeedsAnswer,
    nodes: Vec<Node>,
    trouble: Option<String>,
}

/// The live part, as text.
pub(super) async fn live(console: &Console, session: &Session) -> Result<String, Problem> {
    let told: NowAnswer = console.get(session, "/admin/now").await?;
    let nodes: Nodes = console.get(session, "/admin/nodes").await?;
    let ready = console.answer(session, ready()).await;
    let (now, since) = (told.now, told.since);
    let gate = |lane| Gate::new(lane, now, since);
    let live = Live {
        now,
        gates: told.lanes.into_iter().map(gate).collect(),
        needs: console.get(session, "/admin/needs-you").await?,
        nodes: nodes.worth_telling(),
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
    if !session.may(tollgate_contract::Needs::Read) {
        // Whoever only hands payments in has no business with the lanes.
        return Ok(axum::response::IntoResponse::into_response(
            axum::response::Redirect::to("/console/payments"),
        ));
    }
    let live = console.drawing(&session).await?;
    let shell = Shell::new(&session, "Now", "Now", "");
    Ok(drawn(&Page { shell, live }))
}
