//! What the requests of operators do beyond a single port, and what the service tells about itself: below the API, which
//! reads and answers requests, and below the wiring of `server`, which starts it.

pub mod ages;
pub mod archive;
pub mod downstreams;
pub mod erasures;
mod grouped;
mod item_types;
pub mod jobs;
pub mod lane_activity;
pub mod needs_you;
pub mod nodes;
pub mod readiness;
pub mod rules;
pub mod totals;
pub mod write_check;

pub use grouped::grouped;
pub use item_types::item_types;
