//! Every adapter against the promises of its port; one binary, one module per adapter.

mod memory;
mod plain_words;
mod tidy;
