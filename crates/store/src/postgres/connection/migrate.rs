//! Bringing the schema up to date, by one node at a time.

use std::error::Error as _;

use refinery::Runner;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::schema::{Schema, Sums, ours};

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// Several nodes that start at once would all create the same tables.
const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended('tollgate/migrations', 0))";

pub(super) enum Trouble {
    /// The schema holds a migration that this release does not know.
    Newer,
    /// The schema was made by a migration of the same number and another content.
    Another,
    Refused(Error),
    NotMigrated {
        why: String,
        code: Option<SqlState>,
    },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The lock goes with the connection, which is dropped after this.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Trouble> {
    client.batch_execute(LOCK).await?;
    let runner = embedded::migrations::runner();
    match Schema::judge(&ours(&runner), &theirs(client).await?) {
        // A role without the right to create tables is then enough.
        Schema::UpToDate => Ok(()),
        Schema::Behind => run(&runner, client).await,
        Schema::Newer => Err(Trouble::Newer),
        Schema::Another => Err(Trouble::Another),
    }
}

async fn run(runner: &Runner, client: &mut Client) -> Result<(), Trouble> {
    // A migration of a large table may take longer than any statement of ours.
    client.batch_execute("SET statement_timeout = 0").await?;
    let done = runner.run_async(client).await;
    done.map(drop).map_err(|error| {
        let cause = error.source().and_then(|e| e.downcast_ref::<Error>());
        Trouble::NotMigrated {
            why: error.to_string(),
            code: cause.and_then(Error::code).cloned(),
        }
    })
}

async fn theirs(client: &Client) -> Result<Sums, Error> {
    let history = client
        .query_one(
            "SELECT to_regclass('refinery_schema_history') IS NOT NULL",
            &[],
        )
        .await?;
    if !history.get::<_, bool>(0) {
        return Ok(Sums::new());
    }
    let applied = "SELECT version::bigint, checksum FROM refinery_schema_history";
    let applied = client.query(applied, &[]).await?;
    Ok(applied.iter().map(|row| (row.get(0), row.get(1))).collect())
}
