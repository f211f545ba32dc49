//! The words and rules of Tollgate, and its ports.
//!
//! Nothing here does IO, reads a clock or draws a random number: time and randomness are
//! arguments. The glossary in ARCHITECTURE.md names every word used below.

pub mod account;
pub mod actor;
pub mod archive;
pub mod audit_action;
pub mod calendar;
pub mod call_turn;
pub mod certificate;
pub mod details;
pub mod erasure;
pub mod excerpt;
pub mod flow;
pub mod forecast;
pub mod gate;
pub mod guard;
pub mod id;
pub mod item;
pub mod item_type;
pub mod job;
pub mod join;
pub mod lane;
pub mod lane_in_force;
pub mod leadership;
pub mod local_time;
pub mod marker;
pub mod money;
pub mod open_time;
pub mod outcome;
pub mod ports;
pub mod retention;
pub mod retry;
pub mod shared_settings;
pub mod slot;
pub mod storm;
pub mod timetable;
pub mod turns;
pub mod window;

pub use jiff::{SignedDuration, Timestamp};
