//! The file: how it is opened, its one writer and its readers, and what its errors mean.

pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod open;
pub(crate) mod perform;
pub(crate) mod reader;
pub(crate) mod value;
pub(crate) mod writer;
