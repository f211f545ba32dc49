//! The database under measurement: a store on it, or a plain connection.

use std::sync::Arc;

use anyhow::{Result, ensure};
use tokio_postgres::{Client, NoTls};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Lanes};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::measure::target::{lane_change, lane_name};

/// Of the lane that drains: its credit, what the gate can send in the claim-ahead time and two
/// seconds more, is then about 8,000 items under way. Nothing here asks the gate for a turn.
const WIDE_PER_SECOND: u32 = 1000;

pub(super) async fn open(url: &str) -> Result<Arc<PostgresStore>> {
    Ok(Arc::new(
        PostgresStore::open(PostgresOptions::at(url)).await?,
    ))
}

/// A store with the lane of the usual plan.
pub(super) async fn planned_lane(url: &str) -> Result<Arc<PostgresStore>> {
    with_lane(url, lane_change()).await
}

/// A store with a lane that is no obstacle.
pub(crate) async fn open_wide(url: &str) -> Result<Arc<PostgresStore>> {
    let change = LaneChange {
        max_per_second: Some(WIDE_PER_SECOND.into()),
        ..lane_change()
    };
    with_lane(url, change).await
}

async fn with_lane(url: &str, change: LaneChange) -> Result<Arc<PostgresStore>> {
    let store = open(url).await?;
    let author = Author::new("bench", "a lane to measure");
    store.change_lane(&lane_name(), change, author).await?;
    Ok(store)
}

/// A plain connection; it ends with its client.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Whether what was acknowledged is there.
pub(super) async fn check_rows(url: &str, query: &str, expected: u32) -> Result<()> {
    let found: i64 = connect(url).await?.query_one(query, &[]).await?.get(0);
    ensure!(
        found == i64::from(expected),
        "{query}: {found} rows, not {expected}"
    );
    Ok(())
}
