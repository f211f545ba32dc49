//! The configured banks, provider, receivers and services as connectors, and questions to them.

pub(crate) mod asking;
pub(crate) mod banks;
pub(crate) mod check_services;
pub(crate) mod providers;
pub(crate) mod questions;
pub(crate) mod receivers;
pub(crate) mod shown_request;
mod watches;
