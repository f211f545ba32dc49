//! The console, by HTTP and in a real browser.

pub(crate) mod axe;
pub(crate) mod console;
mod console_pages;
mod hostile_names;
mod journeys;
pub(crate) mod pictures;
mod roles;
