//! Admission: items and their slots, guards and requests, many in one transaction.

pub(crate) mod admissions;
mod admit;
mod answers;
mod bodies;
mod guards;
mod requests;
