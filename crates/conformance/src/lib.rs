//! The promises of the ports as cases, and what runs flows to prove them: an in-memory context
//! with a fault sweep. Knows no adapter: each adapter's own tests run the cases. Never shipped.
#![expect(
    clippy::unwrap_used,
    reason = "a case that cannot go on fails its test"
)]

pub mod cases;
pub mod memory;
pub mod postgres;
pub mod sample;
pub mod store;
pub mod temporal;
pub mod wrong_clock;
