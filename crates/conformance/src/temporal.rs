//! A real Temporal server for tests: on a free port, with its database in a file, so that it can be
//! killed and started again. A guard process ends it when the test process ends, however it ends.
//! Tests that do not harm it share one, each in a namespace of its own.

use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const TRIES: u32 = 150;
const PAUSE: Duration = Duration::from_millis(200);

/// Reads until the test process is gone, then ends the server and removes what only it had.
const GUARD: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
kill -KILL "$1" 2> /dev/null
[ -z "$2" ] || { sleep 1; rm -rf "$2"; }
"#;

#[derive(Debug)]
pub struct TemporalServer {
    folder: TempDir,
    port: u16,
    running: Mutex<Option<Running>>,
    /// Nobody drops it: its guard removes the folder.
    shared: bool,
}

/// The server that the tests of this binary share.
pub fn shared() -> &'static TemporalServer {
    static SERVER: OnceLock<TemporalServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = TemporalServer {
            shared: true,
            ..TemporalServer::not_yet_started()
        };
        server.start_again();
        server
    })
}

/// A part of a server where nobody else is: task queues, schedules and flow ids have fixed names.
#[derive(Debug)]
pub struct Namespace {
    pub server: &'static TemporalServer,
    pub name: String,
}

impl Namespace {
    /// A new one on the shared server.
    pub fn create() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self {
            server: shared(),
            name: format!("test-{number}"),
        };
        let created = namespace.ask(&["operator", "namespace", "create"]);
        created.expect("a namespace can be created");
        namespace
    }

    /// As a configuration names it.
    pub fn url(&self) -> String {
        format!("temporal://{}/{}", self.server.address(), self.name)
    }

    /// Asks with Temporal's own command line, about this namespace.
    pub fn ask(&self, question: &[&str]) -> Option<String> {
        let here = ["--namespace", self.name.as_str()];
        self.server.ask(&[question, &here].concat())
    }
}

#[derive(Debug)]
struct Running {
    process: Child,
    guard: Child,
}

impl TemporalServer {
    /// Starts one and waits until it answers.
    pub fn start() -> Self {
        let server = Self::not_yet_started();
        server.start_again();
        server
    }

    /// Has an address, where nobody listens yet.
    pub fn not_yet_started() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            folder: TempDir::with_prefix("tollgate-temporal-").unwrap(),
            port: listener.local_addr().unwrap().port(),
            running: Mutex::new(None),
            shared: false,
        }
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// As a configuration names it.
    pub fn url(&self) -> String {
        format!("temporal://{}/default", self.address())
    }

    /// Its database, in SQLite; only to be read.
    pub fn database(&self) -> PathBuf {
        self.folder.path().join("temporal.db")
    }

    /// SIGKILL: whoever is connected is not told.
    pub fn crash(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        drop(running.take());
    }

    /// On the same port and the same database file. One that ends at once is started once more: somebody
    /// else had taken a port of its own meanwhile.
    pub fn start_again(&self) {
        self.spawn();
        let question = [
            "operator",
            "namespace",
            "describe",
            "--namespace",
            "default",
        ];
        for _ in 0..TRIES {
            if self.ask(&question).is_some() {
                return;
            }
            if self.forget_ended() {
                self.spawn();
            }
            thread::sleep(PAUSE);
        }
        panic!("the Temporal server at {} never answered", self.address());
    }

    /// Whether it has ended. Its guard goes first: it would remove what the next one works on.
    fn forget_ended(&self) -> bool {
        let mut running = self.running.lock().unwrap();
        let ended = running.take_if(|it| matches!(it.process.try_wait(), Ok(Some(_))));
        let Some(mut ended) = ended else {
            return false;
        };
        let _ = ended.guard.kill();
        true
    }

    fn spawn(&self) {
        let process = Command::new(program())
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
            .args(["--port", &self.port.to_string(), "--log-level", "never"])
            .args(["--sqlite-pragma", "journal_mode=wal"])
            .args(["--sqlite-pragma", "synchronous=1", "--db-filename"])
            .arg(self.database())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let guard = guard(process.id(), self.shared.then(|| self.folder.path()));
        *self.running.lock().unwrap() = Some(Running { process, guard });
    }

    /// Asks with Temporal's own command line, as an operator would; `None` if it has no answer.
    pub fn ask(&self, question: &[&str]) -> Option<String> {
        let output = Command::new(program())
            .args(question)
            .args(["--address", &self.address()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(answer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn program() -> PathBuf {
    if let Some(program) = env::var_os("TGTEST_TEMPORAL_BIN") {
        return program.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let on_path = env::var_os("PATH").unwrap_or_default();
    let mut places = vec![workspace.join(".dev/temporal/bin")];
    places.extend(env::split_paths(&on_path));
    places
        .into_iter()
        .map(|place| place.join("temporal"))
        .find(|program| program.is_file())
        .expect("no `temporal` program found: run `./dev setup`, or set TGTEST_TEMPORAL_BIN")
}

fn guard(server: u32, folder: Option<&Path>) -> Child {
    Command::new("setsid")
        .args(["sh", "-c", GUARD, "guard", &server.to_string()])
        .arg(folder.unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
