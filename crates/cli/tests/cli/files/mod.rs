//! Files of payments: handed in, imported and exported.

pub(crate) mod bulk;
mod exports;
mod import;
