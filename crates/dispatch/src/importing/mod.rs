//! Taking files in, chunk by chunk, in the order of their lines.

pub(crate) mod feeder;
pub(crate) mod file_order;
