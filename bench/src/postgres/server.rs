//! The one server of a run, as durable as a careful operator would have it, and what it counts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tollgate_conformance::postgres::Cluster;

use super::target::connect;
use crate::scratch::filesystem_of;

/// What differs from PostgreSQL's defaults, each for a reason: a cache and a log that suit a
/// machine with some memory, so that no cell is cut by a checkpoint that the one before caused.
pub(crate) const SETTINGS: &str = "fsync = on\nsynchronous_commit = on\nfull_page_writes = on\n\
     wal_level = replica\nmax_connections = 200\nshared_buffers = 1GB\nmax_wal_size = 8GB\n\
     checkpoint_timeout = 30min\n";

#[derive(Debug)]
pub(crate) struct Server {
    cluster: Cluster,
    pub(super) filesystem: String,
    pub(super) version: String,
}

/// What the server has counted so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) wal_bytes: f64,
    commits: i64,
}

impl Counted {
    pub(super) fn wal_bytes_since(&self, before: &Self) -> f64 {
        self.wal_bytes - before.wal_bytes
    }

    pub(super) fn commits_since(&self, before: &Self) -> Result<u32> {
        Ok(u32::try_from(self.commits - before.commits)?)
    }
}

impl Server {
    pub(super) async fn start() -> Result<Self> {
        let cluster = tokio::task::spawn_blocking(|| Cluster::start_with(SETTINGS)).await?;
        let filesystem = filesystem_of(cluster.folder())?;
        ensure!(
            !["tmpfs", "ramfs"].contains(&filesystem.as_str()),
            "the scratch folder is {filesystem}, where fsync costs nothing; set TMPDIR to a folder on a disk"
        );
        let client = connect(&cluster.url("postgres", "postgres")).await?;
        let row = client.query_one("SHOW server_version", &[]).await?;
        Ok(Self {
            cluster,
            filesystem,
            version: row.get(0),
        })
    }

    /// The URL of a new, empty database.
    pub(crate) async fn database(&self) -> String {
        self.cluster.database().await
    }

    /// The URL of a copy of a database that has no open connections.
    pub(super) async fn copy_of(&self, url: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (from, number) = (name_of(url), NEXT.fetch_add(1, Ordering::SeqCst));
        let name = format!("copy_{number}");
        // Files are copied as they are: by default every page goes through the log.
        let copy = format!("CREATE DATABASE {name} TEMPLATE {from} STRATEGY FILE_COPY");
        self.cluster.sql(&copy).await;
        self.cluster.url("postgres", &name)
    }

    /// Of a database that nothing is measured in.
    pub(super) fn own_url(&self) -> String {
        self.cluster.url("postgres", "postgres")
    }

    pub(crate) async fn drop_database(&self, url: &str) {
        let name = name_of(url);
        self.cluster.sql(&format!("DROP DATABASE {name}")).await;
    }

    /// Their number depends on checkpoints, not on the work.
    pub(super) async fn full_page_writes(&self, on: bool) {
        let set = format!("ALTER SYSTEM SET full_page_writes = {on}");
        self.cluster.sql(&set).await;
        self.cluster.sql("SELECT pg_reload_conf()").await;
    }

    /// Fresh statistics, nothing dead, and all of it on the disk: the same start for every cell.
    pub(super) async fn settle(&self, url: &str) -> Result<()> {
        let client = connect(url).await?;
        client.batch_execute("VACUUM (ANALYZE)").await?;
        client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    /// Counted from outside, when nobody is connected any more: a session reports its commits
    /// late, at the latest when it ends.
    pub(crate) async fn counted(&self, url: &str) -> Result<Counted> {
        const COUNTED: &str = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8,
                (SELECT xact_commit FROM pg_stat_database WHERE datname = $1)";
        const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity
             WHERE datname = $1 AND backend_type = 'client backend'";
        let client = connect(&self.own_url()).await?;
        let name = name_of(url);
        while client.query_one(SESSIONS, &[&name]).await?.get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let row = client.query_one(COUNTED, &[&name]).await?;
        Ok(Counted {
            wal_bytes: row.get(0),
            commits: row.get(1),
        })
    }
}

fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}
