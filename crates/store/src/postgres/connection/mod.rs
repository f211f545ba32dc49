//! Connections and transactions: how one is opened, shared by small writes, and what its errors mean.

mod away;
pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod group;
mod migrate;
pub(crate) mod open;
pub(crate) mod perform;
pub(crate) mod run;
mod tls;
pub(crate) mod value;
