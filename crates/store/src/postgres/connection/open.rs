//! Opening a database: connect, check that it can be ours, bring its schema up to date, fill the
//! pool. Whatever is wrong is one sentence that names the server and the remedy.

use std::error::Error as _;
use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};
use tollgate_core::leadership::ProcessId;
use tollgate_core::ports::{Settlement, StoreError, StoreResult};

use super::connect::Address;
use super::group::{Group, Work};
use super::migrate::{Trouble, migrate};
use super::run::Runner;
use super::tls::refused_certificate;
use crate::node::Node;
use crate::postgres::admission::admissions::{Admit, admit_all};
use crate::postgres::flows::Handouts;
use crate::postgres::flows::calls::Calls;
use crate::postgres::flows::writes::{FlowWrite, write_flows};
use crate::postgres::queue::finish::{Finish, finish_all};
use crate::postgres::sends::attempts::{LookAt, look_at_all};
use crate::postgres::sends::settle::settle_all;
use crate::postgres::{Postgres, PostgresOptions, PostgresStore, check_node};
use crate::store_on::StoreOn;
use crate::urgency::Urgency;

/// Older servers get no fixes any more, and nothing here is tested on them.
const OLDEST_SERVER: i32 = 140_000;

/// Batches of different lanes go beside each other. Of one lane, one batch is placed while the next one writes its bodies;
/// more writers would only split what could share a commit.
const ADMITTING: usize = 2;
/// One writes while another waits for the disk.
const SETTLING: usize = 2;
/// One reads while the other collects what comes next.
const LOOKING: usize = 2;
const FINISHING: usize = 2;

impl PostgresStore {
    pub async fn open(options: PostgresOptions) -> StoreResult<Self> {
        let address = Address::parse(&options).map_err(StoreError::Invalid)?;
        let process = prepare(&address).await.map_err(StoreError::Unavailable)?;
        let pool = address.pool(&options).map_err(StoreError::Invalid)?;
        let runner = Runner::new(pool, options.wait_timeout, options.deadline, options.time);
        let (margin, seed) = (options.gate_margin, options.seed);
        let admit: Work<Admit> =
            Arc::new(move |tx, jobs| Box::pin(admit_all(tx, jobs, margin, seed)));
        let settle: Work<Settlement> = Arc::new(|tx, jobs| Box::pin(settle_all(tx, jobs)));
        let look: Work<LookAt> = Arc::new(|tx, looks| Box::pin(look_at_all(tx, looks)));
        let node = Node::default();
        let write_flows: Work<FlowWrite> = Arc::new(|tx, jobs| Box::pin(write_flows(tx, jobs)));
        Ok(StoreOn(Postgres {
            admissions: Group::start(&runner, Urgency::Normal, ADMITTING, &admit),
            looks: Group::start(&runner, Urgency::Urgent, LOOKING, &look),
            settlements: Group::start(&runner, Urgency::Urgent, SETTLING, &settle),
            ends: finishing(&runner, &node),
            // One, so that two groups never wait for each other's flows.
            flow_writes: Group::start(&runner, Urgency::Urgent, 1, &write_flows),
            handouts: Arc::new(Handouts::of(process)),
            runner,
            gate_margin: margin,
            process: ProcessId(process),
            calls: Arc::new(Calls::at(address)),
            node,
        }))
    }
}

/// Ends of items, which only the node in force may write.
pub(crate) fn finishing(runner: &Runner, node: &Node) -> Group<Finish> {
    let node = node.clone();
    let finish: Work<Finish> = Arc::new(move |tx, jobs| {
        let node = node.clone();
        Box::pin(async move {
            check_node(tx, &node).await?;
            finish_all(tx, jobs).await
        })
    });
    Group::start(runner, Urgency::Urgent, FINISHING, &finish)
}

/// Answers with a number that no other process has.
async fn prepare(address: &Address) -> Result<i64, String> {
    let (mut client, driven) = address
        .connect()
        .await
        .map_err(|e| explain_connect(address, &e))?;
    let prepared = match prepare_on(&mut client, address).await {
        Ok(()) => number(&client, address).await,
        Err(why) => Err(why),
    };
    drop(client);
    // Ends with its client.
    let _ = driven.await;
    prepared
}

async fn prepare_on(client: &mut Client, address: &Address) -> Result<(), String> {
    check_server(client, address).await?;
    let (server, database) = (address.server(), address.database());
    migrate(client).await.map_err(|trouble| match trouble {
        Trouble::Newer => format!(
            "the database {database:?} on {server} was written by a newer release of tollgate; start that release, or use another database"
        ),
        Trouble::Another => format!(
            "the database {database:?} on {server} {}",
            crate::schema::MADE_BY_ANOTHER_BUILD
        ),
        Trouble::Refused(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => format!(
            "another node has been migrating the database {database:?} on {server} for too long; wait for it, then start again"
        ),
        Trouble::Refused(error) => may_not_migrate(address, &describe(&error), error.code()),
        Trouble::NotMigrated { why, code } => may_not_migrate(address, &why, code.as_ref()),
    })
}

async fn number(client: &Client, address: &Address) -> Result<i64, String> {
    let next = client
        .query_one("SELECT nextval('flow_handout')", &[])
        .await;
    next.map(|row| row.get(0)).map_err(|e| {
        let (server, database, user) = (address.server(), address.database(), address.user());
        format!(
            "the user {user:?} cannot use the tables in the database {database:?} on {server}: {}; grant it rights on tables and sequences",
            describe(&e)
        )
    })
}

fn may_not_migrate(address: &Address, why: &str, code: Option<&SqlState>) -> String {
    let (server, database, user) = (address.server(), address.database(), address.user());
    if code == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        format!(
            "the user {user:?} may not create tables in the database {database:?} on {server}; grant CREATE on its schema, or migrate once as its owner"
        )
    } else {
        format!("the database {database:?} on {server} cannot be brought up to date: {why}")
    }
}

async fn check_server(client: &Client, address: &Address) -> Result<(), String> {
    let question = "SELECT current_setting('server_version_num')::integer, \
                    current_setting('server_version'), pg_is_in_recovery()";
    let row = client
        .query_one(question, &[])
        .await
        .map_err(|e| format!("{} does not answer: {}", address.server(), describe(&e)))?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if let Some(sentence) = too_old(number, &version, &address.server()) {
        return Err(sentence);
    }
    if row.get(2) {
        return Err(format!(
            "{} is a replica, which cannot be written to; give the address of the primary",
            address.server()
        ));
    }
    Ok(())
}

fn too_old(number: i32, version: &str, server: &str) -> Option<String> {
    (number < OLDEST_SERVER).then(|| {
        format!(
            "{server} runs PostgreSQL {version}; tollgate needs {} or newer",
            OLDEST_SERVER / 10_000
        )
    })
}

fn explain_connect(address: &Address, error: &Error) -> String {
    let (server, database, user) = (address.server(), address.database(), address.user());
    if let Some(why) = refused_certificate(error) {
        return format!(
            "the certificate of {server} is not trusted: {why}; set the certificate authority with sslrootcert in the store's URL, and use the host name of the certificate"
        );
    }
    match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => {
            format!("{server} refused the password of user {user:?}; check the store's URL")
        }
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => format!(
            "{server} rejected user {user:?}: {}; check the user, pg_hba.conf, and whether it wants ?sslmode=require",
            describe(error)
        ),
        Some(&SqlState::INVALID_CATALOG_NAME) => format!(
            "there is no database {database:?} on {server}; create it with: createdb {database}"
        ),
        Some(_) => format!("{server} refused the connection: {}", describe(error)),
        None => format!(
            "PostgreSQL cannot be reached at {server}: {}; check that it runs and that host, port and sslmode are right",
            describe(error)
        ),
    }
}

fn describe(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => db.message().to_owned(),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_older_than_14_is_named_with_what_is_needed() {
        let said = too_old(130_011, "13.11", "db:5432").unwrap();
        assert_eq!(
            said,
            "db:5432 runs PostgreSQL 13.11; tollgate needs 14 or newer"
        );
        assert_eq!(too_old(140_000, "14.0", "db:5432"), None);
    }
}
