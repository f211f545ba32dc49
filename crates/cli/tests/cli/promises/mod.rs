//! Promised times: forecasts, deadlines that are kept, and what an answer costs.

pub(crate) mod forecast;
mod promised;
mod statement_counts;
