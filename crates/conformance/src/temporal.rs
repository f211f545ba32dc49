//! A real Temporal server for tests: on a free port, with its database in a file, so that it can be
//! killed and started again. A guard process ends it when the test process ends, however it ends.

use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const TRIES: u32 = 150;
const PAUSE: Duration = Duration::from_millis(200);

/// Reads until the test process is gone, then ends the server.
const GUARD: &str = "trap '' INT TERM HUP; cat > /dev/null; kill -KILL \"$1\" 2> /dev/null";

#[derive(Debug)]
pub struct TemporalServer {
    folder: TempDir,
    port: u16,
    running: Mutex<Option<Running>>,
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

    /// SIGKILL: whoever is connected is not told.
    pub fn crash(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        drop(running.take());
    }

    /// On the same port and the same database file.
    pub fn start_again(&self) {
        let process = Command::new(program())
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
            .args(["--port", &self.port.to_string(), "--log-level", "never"])
            .args(["--sqlite-pragma", "journal_mode=wal"])
            .args(["--sqlite-pragma", "synchronous=1", "--db-filename"])
            .arg(self.folder.path().join("temporal.db"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let guard = guard(process.id());
        *self.running.lock().unwrap() = Some(Running { process, guard });
        for _ in 0..TRIES {
            if self
                .ask(&[
                    "operator",
                    "namespace",
                    "describe",
                    "--namespace",
                    "default",
                ])
                .is_some()
            {
                return;
            }
            thread::sleep(PAUSE);
        }
        panic!("the Temporal server at {} never answered", self.address());
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

fn guard(server: u32) -> Child {
    Command::new("setsid")
        .args(["sh", "-c", GUARD, "guard", &server.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
