//! The configured banks, provider, receivers and services as connectors.

pub(crate) mod banks;
pub(crate) mod check_services;
#[cfg(test)]
mod notification_tests;
pub(crate) mod providers;
pub(crate) mod receivers;
mod watches;
