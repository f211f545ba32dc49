//! Questions to the configured banks, and requests as the banks get them.

pub mod asking;
mod connector;
pub mod questions;
mod shown_request;

pub use connector::{access_to, connector};
pub use shown_request::shown_request;
