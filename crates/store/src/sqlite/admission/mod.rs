//! Admission: items and their slots, guards and requests, in the transaction of the writer.

pub(crate) mod admit;
mod guards;
mod requests;
