//! The engine's cases on a real Temporal server, and what only a real one can show.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod conformance;
mod doors;
mod failures;
mod layers;
mod outages;
mod replays;
mod schedules;
mod town;

use tollgate_conformance::temporal::TemporalServer;
use tollgate_temporal::Server;

/// How a client of a test finds it.
fn at(server: &TemporalServer, caller: &str) -> Server {
    Server::plain(&server.address(), "default", caller)
}
