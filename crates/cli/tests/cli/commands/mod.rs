//! Commands that need no running server, and what a server logs.

pub(crate) mod bad_starts;
mod completions;
mod demo;
mod sandbox;
mod telemetry;
mod tour;
