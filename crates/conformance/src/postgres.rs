//! A private, real PostgreSQL server for tests and benchmarks: in a scratch directory, on a free port, as the user
//! `postgres` when we are root. A guard process stops it and removes its directory when the test
//! process ends, however it ends.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// Reads until the test process is gone, then stops the server by its pid and cleans up.
const GUARD: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
[ -n "$pid" ] && kill -QUIT "$pid"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -n "$pid" ] && kill -0 "$pid" 2> /dev/null && sleep 0.1
done
rm -rf "$1"
"#;

/// Nothing is flushed to the disk, but a commit still reaches the kernel, which outlives a crash
/// of the server.
const FOR_TESTS: &str = "fsync = off\nfull_page_writes = off\n\
                         max_connections = 300\nshared_buffers = 64MB\n";

#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    port: u16,
    /// Lines of `postgresql.conf`.
    settings: String,
    guard: Child,
}

/// The server that the tests of this binary share, each with a database of its own.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

impl Cluster {
    pub fn start() -> Self {
        Self::start_with(FOR_TESTS)
    }

    /// With other settings than tests have: lines of `postgresql.conf`.
    pub fn start_with(settings: &str) -> Self {
        let cluster = Self::initialised(settings);
        cluster.pg_ctl(&["start"]);
        cluster
    }

    /// One that offers TLS with this certificate and key.
    pub fn with_tls(certificate_pem: &str, key_pem: &str) -> Self {
        let cluster = Self::initialised(FOR_TESTS);
        cluster.write_secret("server.crt", certificate_pem);
        cluster.write_secret("server.key", key_pem);
        cluster.set("ssl = on\n");
        cluster.pg_ctl(&["start"]);
        cluster
    }

    fn initialised(settings: &str) -> Self {
        let cluster = Self::unstarted(settings);
        run(tool("initdb")
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(cluster.data()));
        cluster.configure();
        cluster
    }

    /// Another cluster that follows this one and cannot be written to.
    #[must_use]
    pub fn replica(&self) -> Self {
        let replica = Self::unstarted(&self.settings);
        run(tool("pg_basebackup")
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-R",
                "-c",
                "fast",
                "-p",
            ])
            .arg(self.port.to_string())
            .arg("-D")
            .arg(replica.data()));
        replica.configure();
        replica.pg_ctl(&["start"]);
        replica
    }

    fn unstarted(settings: &str) -> Self {
        let dir = TempDir::with_prefix("tollgate-postgres-").unwrap().keep();
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&dir));
        }
        let guard = guard(&dir);
        Self {
            dir,
            port: free_port(),
            settings: settings.to_owned(),
            guard,
        }
    }

    fn configure(&self) {
        let settings = format!(
            "port = {}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\n{}",
            self.port,
            self.dir.display(),
            self.settings
        );
        self.set(&settings);
    }

    fn set(&self, settings: &str) {
        let path = self.data().join("postgresql.auto.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(settings.as_bytes()).unwrap();
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// The server takes a key only if nobody else can read it.
    fn write_secret(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        std::fs::write(&path, text).unwrap();
        run(Command::new("chmod").arg("600").arg(&path));
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&path));
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn pg_ctl(&self, what: &[&str]) {
        run(tool("pg_ctl")
            .args(what)
            .args(["--wait", "--timeout=60", "--silent", "-D"])
            .arg(self.data())
            .arg("-l")
            .arg(self.dir.join("log")));
    }

    /// As if the machine had lost power: no connection is told, recovery follows.
    pub fn crash_and_restart(&self) {
        self.pg_ctl(&["restart", "--mode=immediate"]);
    }
    pub fn crash(&self) {
        self.pg_ctl(&["stop", "--mode=immediate"]);
    }
    pub fn start_again(&self) {
        self.pg_ctl(&["start"]);
    }

    /// Makes a replica a primary, on a timeline of its own.
    pub fn promote(&self) {
        self.pg_ctl(&["promote"]);
    }

    /// What the server has written to its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From here on nobody gets in without TLS.
    pub fn insist_on_tls(&self) {
        let path = self.data().join("pg_hba.conf");
        std::fs::write(&path, "hostssl all all 127.0.0.1/32 trust\n").unwrap();
        self.pg_ctl(&["reload"]);
    }

    /// The URL of a new, empty database.
    pub async fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("case_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE DATABASE {name}")).await;
        self.url("postgres", &name)
    }

    /// Runs statements as superuser in the database `postgres`.
    pub async fn sql(&self, statements: &str) {
        sql(&self.url("postgres", "postgres"), statements).await;
    }

    /// Appends lines before all others in pg_hba.conf, and lets them take effect.
    pub async fn ask_for_passwords_of(&self, user: &str) {
        let path = self.data().join("pg_hba.conf");
        let rules = std::fs::read_to_string(&path).unwrap();
        let rule = format!("host all {user} 127.0.0.1/32 scram-sha-256\n{rules}");
        std::fs::write(&path, rule).unwrap();
        self.sql("SELECT pg_reload_conf()").await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// A session of its own, which ends with its client.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs statements in a database.
pub async fn sql(url: &str, statements: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    client.batch_execute(statements).await.unwrap();
    drop(client);
    let _ = driven.await;
}

/// The one number that a question is answered with.
pub async fn count(url: &str, question: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    let count = client.query_one(question, &[]).await.unwrap().get(0);
    drop(client);
    let _ = driven.await;
    count
}

/// Everything in a database, as text.
pub fn dump(url: &str) -> String {
    let dumped = tool("pg_dump").arg(url).output().unwrap();
    let said = String::from_utf8_lossy(&dumped.stderr).into_owned();
    assert!(dumped.status.success(), "{said}");
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

/// One of PostgreSQL's own programs, as a user that the server accepts: it refuses root.
fn tool(name: &str) -> Command {
    let path = newest_bin().join(name);
    if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(path);
        command.current_dir("/");
        command
    } else {
        Command::new(path)
    }
}

fn newest_bin() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let bins = installed
        .flatten()
        .map(|version| version.path().join("bin"));
    let newest = bins.filter(|bin| bin.join("initdb").exists()).max();
    newest.expect("PostgreSQL is not installed in /usr/lib/postgresql; run ./dev setup")
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn guard(dir: &Path) -> Child {
    Command::new("setsid")
        .args(["sh", "-c", GUARD, "guard"])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run(command: &mut Command) {
    // What a server keeps open must not be ours, or we would wait for its end.
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{command:?} ended with {status}");
}
