//! PostgreSQL: the cases of the ports, on two nodes that share a database.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};
use tollgate_conformance::store::Fixture;
use tollgate_core::ports::Store;
use tollgate_store::MovableTime;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use tollgate_conformance::postgres as cluster;

tollgate_conformance::store_cases!(crate::postgres::fixture);

pub(crate) struct PostgresFixture {
    url: String,
    time: MovableTime,
    nodes: Mutex<Vec<Arc<PostgresStore>>>,
    next: AtomicUsize,
}

pub(crate) async fn fixture() -> PostgresFixture {
    let url = cluster::shared().database().await;
    let time = MovableTime::default();
    let nodes = Mutex::new(open_nodes(&url, &time).await);
    let next = AtomicUsize::new(0);
    PostgresFixture {
        url,
        time,
        nodes,
        next,
    }
}

async fn open_nodes(url: &str, time: &MovableTime) -> Vec<Arc<PostgresStore>> {
    let options = PostgresOptions {
        connections: 8,
        // Cases run beside each other on two cores.
        wait_timeout: Duration::from_secs(30),
        lock_timeout: Duration::from_secs(30),
        statement_timeout: Duration::from_mins(1),
        deadline: Duration::from_secs(90),
        time: time.clone(),
        ..PostgresOptions::at(url)
    };
    let open = async || Arc::new(PostgresStore::open(options.clone()).await.unwrap());
    vec![open().await, open().await]
}

#[async_trait::async_trait]
impl Fixture for PostgresFixture {
    /// One node after the other, so that no case is proved by what a node remembers.
    fn store(&self) -> Arc<dyn Store> {
        let nodes = self.nodes.lock().unwrap();
        let node = self.next.fetch_add(1, Ordering::Relaxed) % nodes.len();
        Arc::clone(&nodes[node]) as Arc<dyn Store>
    }
    async fn advance(&self, by: Duration) {
        self.time.advance(by);
    }
    async fn turn_back(&self, by: Duration) {
        self.time.turn_back(by);
    }
    async fn restart(&self) {
        self.nodes.lock().unwrap().clear();
        let nodes = open_nodes(&self.url, &self.time).await;
        *self.nodes.lock().unwrap() = nodes;
    }
    async fn another(&self) -> Box<dyn Fixture> {
        Box::new(fixture().await)
    }
    async fn damage(&self, sql: &str) {
        cluster::sql(&self.url, sql).await;
    }
    async fn typed(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let shell = cluster::connect(&self.url).await;
        let utc = "SET TIME ZONE 'UTC'";
        shell.batch_execute(utc).await.unwrap();
        let shown = shell.simple_query(sql).await;
        let shown =
            shown.map_err(|e| e.as_db_error().map_or(e.to_string(), ToString::to_string))?;
        let rows = shown.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text =
            |row: &SimpleQueryRow| (0..row.len()).map(|n| row.get(n).map(Into::into)).collect();
        Ok(rows.map(text).collect())
    }
}
