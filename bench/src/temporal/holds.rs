//! What a Temporal server holds: rows and bytes of its database, and the workflows that it counts.

use anyhow::{Context, Result};
use rusqlite::{Connection, OpenFlags};
use tollgate_conformance::temporal::TemporalServer;

/// What a server's database holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holds {
    pub(super) rows: f64,
    pub(super) bytes: f64,
}

impl Holds {
    pub(super) fn now(server: &TemporalServer) -> Result<Self> {
        let database =
            Connection::open_with_flags(server.database(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let pragma =
            |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, f64>(0));
        let pages = pragma("page_count")? - pragma("freelist_count")?;
        // A virtual table has its rows in tables of its own, which are counted.
        let mut names = database
            .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")?;
        let names = names.query_map([], |row| row.get::<_, String>(0))?;
        let mut rows = 0.0;
        for name in names {
            let count = format!("SELECT count(*) FROM \"{}\"", name?);
            rows += database.query_row(&count, [], |row| row.get::<_, f64>(0))?;
        }
        Ok(Self {
            rows,
            bytes: pages * pragma("page_size")?,
        })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            rows: self.rows - before.rows,
            bytes: self.bytes - before.bytes,
        }
    }
}

pub(super) fn running(server: &TemporalServer, namespace: &str) -> Result<u64> {
    counted(server, namespace, "ExecutionStatus = 'Running'")
}

pub(super) fn counted(server: &TemporalServer, namespace: &str, query: &str) -> Result<u64> {
    let count = [
        "workflow",
        "count",
        "--namespace",
        namespace,
        "--query",
        query,
    ];
    let said = server.ask(&count).context("the server does not count")?;
    let number = said.split_whitespace().last().context("it said nothing")?;
    number.parse().with_context(|| format!("no number: {said}"))
}
