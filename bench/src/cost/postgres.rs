//! The cost on PostgreSQL: row versions by `pg_stat_user_tables`, WAL by the log's position, with
//! full-page writes off, since their number depends on checkpoints and not on payments.

use std::io::{Write, stderr};
use std::path::Path;

use anyhow::Result;

use super::{COUNT, Cost, ENDED, LOOK_EVERY, RUNNING, Stage};
use crate::postgres::server::Server;
use crate::postgres::target::connect;

/// One round, in a fresh database.
pub(crate) async fn measure(server: &Server, folder: &Path, more: &str) -> Result<Cost> {
    let url = server.database().await;
    // Tables, settings and lanes are made by a first start.
    let first = Stage::serve(&url, more)?;
    first.set_limit()?;
    drop(first);
    let meter = Meter::begin(server, &url).await?;
    let stage = Stage::serve(&url, more)?;
    stage.hand_in(folder)?;
    let looker = connect(&url).await?;
    loop {
        let ended: i64 = looker.query_one(ENDED, &[]).await?.get(0);
        let running: i64 = looker.query_one(RUNNING, &[]).await?.get(0);
        if ended == i64::from(COUNT) && running == 0 {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    stage.check()?;
    drop((stage, looker));
    let cost = meter.end().await?;
    say_by_table(&url).await?;
    server.drop_database(&url).await;
    Ok(cost)
}

/// Which tables the rows were written to, for whoever wants them fewer.
async fn say_by_table(url: &str) -> Result<()> {
    const BY_TABLE: &str = "SELECT relname::text, n_tup_ins::float8, n_tup_upd::float8,
            n_tup_hot_upd::float8, n_tup_del::float8
         FROM pg_stat_user_tables WHERE n_tup_ins + n_tup_upd > $1 ORDER BY n_tup_ins + n_tup_upd DESC";
    for row in connect(url)
        .await?
        .query(BY_TABLE, &[&i64::from(COUNT / 100)])
        .await?
    {
        let [inserted, updated, hot, deleted] =
            [1, 2, 3, 4].map(|n| row.get::<_, f64>(n) / f64::from(COUNT));
        let table: &str = row.get(0);
        let line = format!(
            "{inserted:.2} inserted, {updated:.2} updated ({hot:.2} on their page), {deleted:.2} deleted"
        );
        writeln!(stderr(), "  {table}: {line}")?;
    }
    Ok(())
}

/// Counts what happens in one database until it is asked again.
pub(crate) struct Meter<'s> {
    server: &'s Server,
    url: &'s str,
    kept_bytes: f64,
    row_versions: f64,
    wal_bytes: f64,
}

impl<'s> Meter<'s> {
    pub(crate) async fn begin(server: &'s Server, url: &'s str) -> Result<Self> {
        let kept_bytes = kept_bytes(url).await?;
        Ok(Self {
            row_versions: row_versions(url).await?,
            wal_bytes: server.counted(url).await?.wal_bytes,
            server,
            url,
            kept_bytes,
        })
    }

    /// The log's position first: reading the rest may write to it.
    pub(crate) async fn end(self) -> Result<Cost> {
        let wal_bytes = self.server.counted(self.url).await?.wal_bytes;
        Ok(Cost {
            row_versions: row_versions(self.url).await? - self.row_versions,
            wal_bytes: wal_bytes - self.wal_bytes,
            kept_bytes: kept_bytes(self.url).await? - self.kept_bytes,
        })
    }
}

/// Known when the sessions that wrote them have ended.
async fn row_versions(url: &str) -> Result<f64> {
    const ROWS: &str = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::float8
         FROM pg_stat_user_tables";
    Ok(connect(url).await?.query_one(ROWS, &[]).await?.get(0))
}

/// As large as what lives in it, since it is written anew.
async fn kept_bytes(url: &str) -> Result<f64> {
    const SIZE: &str = "SELECT pg_database_size(current_database())::float8";
    let client = connect(url).await?;
    client.batch_execute("VACUUM FULL").await?;
    Ok(client.query_one(SIZE, &[]).await?.get(0))
}
