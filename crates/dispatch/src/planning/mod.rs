//! When something runs: timetables, forecasts, replans and what they change, and why something does not run.

pub(crate) mod forecaster;
pub(crate) mod planner;
pub(crate) mod replan_effect;
pub(crate) mod why;
