//! The OpenAPI document: made from the handlers that are served, with the words and the errors that they share.

pub(crate) mod document;
pub(crate) mod refusals;
mod webhooks;
pub(crate) mod words;
