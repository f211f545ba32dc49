//! The API as its callers meet it: who may call, bad input, slow clients, errors, the document.

mod access;
mod api;
mod bad_input;
mod client_crate;
mod clients;
mod contract;
mod error_codes;
mod slow_clients;
mod tls;
