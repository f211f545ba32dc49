//! A `tollgate serve` of its own: a folder, a configuration, a child process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tollgate_sandbox::Bank;

use crate::http::put;

/// More than a process that has to end takes on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_mins(2);

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");

/// What a server of a test runs with.
pub(crate) struct Setting {
    pub(crate) folder: TempDir,
    extra: String,
}

impl Setting {
    /// On a SQLite file in a folder of its own.
    pub(crate) fn new(bank: &Bank, extra: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("t.db").display());
        Self::with(folder, &url, bank, extra)
    }

    /// On any store. One process, which does not wait for the silence of the one before.
    pub(crate) fn on(url: &str, bank: &Bank, extra: &str) -> Self {
        let extra = format!("store.leadership = \"take_over\"\n{extra}");
        Self::with(tempfile::tempdir().unwrap(), url, bank, &extra)
    }

    /// One of several on a PostgreSQL database.
    pub(crate) fn among(url: &str, bank: &Bank, extra: &str) -> Self {
        Self::with(tempfile::tempdir().unwrap(), url, bank, extra)
    }

    fn with(folder: TempDir, url: &str, bank: &Bank, extra: &str) -> Self {
        let bank = bank.url();
        let places = [
            "downstream.payments",
            "downstream.invoices",
            "elasticsearch",
            "idb_facade",
            "pgi_gateway",
        ];
        let places = places
            .map(|place| format!("{place}.url = \"{bank}\"\n"))
            .concat();
        // A machine whose clock is set in the middle of a test costs a second, not a minute.
        let settle = ["payments", "invoices"]
            .map(|kind| format!("downstream.{kind}.settle_secs = 1\n"))
            .concat();
        let extra = format!("store.url = \"{url}\"\n{places}{settle}{extra}");
        Self { folder, extra }
    }

    pub(crate) fn config(&self, listen: &str) -> std::path::PathBuf {
        let path = self.folder.path().join("tollgate.toml");
        std::fs::write(&path, format!("listen = \"{listen}\"\n{}", self.extra)).unwrap();
        path
    }

    /// Starts it and waits until it serves.
    pub(crate) fn start(&self, listen: &str) -> Served {
        Served::start(&self.config(listen))
    }
}

pub(crate) struct Served {
    child: Child,
    /// What it said before it served.
    pub(crate) said: Vec<String>,
    lines: Arc<Mutex<Vec<String>>>,
    pub(crate) address: SocketAddr,
}

/// A server with these flags and no configuration file.
pub(crate) fn serve_with(flags: &[&str]) -> Served {
    Served::launch(Command::new(BINARY).arg("serve").args(flags))
}

impl Served {
    fn start(config: &Path) -> Self {
        Self::start_with(&[], config)
    }

    pub(crate) fn start_with(flags: &[&str], config: &Path) -> Self {
        let mut command = Command::new(BINARY);
        Self::launch(command.args(["serve", "--config"]).arg(config).args(flags))
    }

    /// With environment variables of its own.
    pub(crate) fn start_in(environment: &[(&str, &str)], config: &Path) -> Self {
        let mut command = Command::new(BINARY);
        command.envs(environment.iter().copied());
        Self::launch(command.args(["serve", "--config"]).arg(config))
    }

    /// By a command of its own, which becomes the server.
    pub(crate) fn start_by(command: &mut Command) -> Self {
        Self::launch(command)
    }

    fn launch(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (found, address) = mpsc::channel();
        let lines = Arc::new(Mutex::new(vec![]));
        let all = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if std::env::var_os("TGTEST_LOG").is_some() {
                    eprintln!("{line}");
                }
                if let Some(address) = address_in(&line) {
                    let _ = found.send((address, all.lock().unwrap().clone()));
                }
                all.lock().unwrap().push(line);
            }
        });
        let (address, said) = address
            .recv_timeout(Duration::from_secs(30))
            .expect("tollgate serve did not say where it serves");
        Self {
            child,
            said,
            lines,
            address,
        }
    }

    /// Everything it has logged; after its end, all of it.
    pub(crate) fn log(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// SIGKILL: no warning, no goodbye.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it holds in memory.
    pub(crate) fn memory_kib(&self) -> u64 {
        self.proc("status", "VmRSS:")
    }

    /// The process's peak of resident memory.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.proc("status", "VmHWM:")
    }

    fn proc(&self, file: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let value = value.and_then(|rest| rest.split_whitespace().next());
        value.unwrap().parse().unwrap()
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }

    /// Waits for its own end, within a bound: the exit code, and everything it has logged.
    pub(crate) fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let code = eventually("the process ends", ENDS_WITHIN, || {
            self.child.try_wait().unwrap()
        });
        let mut log = self.log();
        // The reader of its stderr may be a line behind.
        while Arc::strong_count(&self.lines) > 1 {
            std::thread::yield_now();
            log = self.log();
        }
        (code.code(), log)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Any signal, such as `-STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        Command::new("kill").args([name, &pid]).status().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where other nodes may live on (Temporal), what a killed one had claimed and not started is claimed
/// again after three seconds, not two minutes.
pub(crate) fn shorten_leases(address: SocketAddr, item_type: &str) {
    let path = format!("/admin/item-types/{item_type}");
    let change = json!({"staleClaimThresholdMins": 0.05, "reason": "it will be killed"});
    let changed = put(address, &path, &change).unwrap();
    assert_eq!(changed.status, 200, "{}", changed.body);
}

/// Where it serves, if this line of the log says so, as text or as JSON.
fn address_in(line: &str) -> Option<SocketAddr> {
    let text = line.split("address=").nth(1);
    let json = line.split("\"address\":\"").nth(1);
    let end = |c: char| c == ' ' || c == '"';
    text.or(json)?.split(end).next()?.parse().ok()
}

/// Asks again and again until the answer is there, within a bound.
pub(crate) fn eventually<T>(what: &str, within: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    eventually_or(what, within, || ask().ok_or(""))
}

/// The same, and what was last seen instead is told.
pub(crate) fn eventually_or<T, E: std::fmt::Display>(
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> Result<T, E>,
) -> T {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's own bound, outside of the program"
    )]
    let deadline = Instant::now() + within;
    loop {
        let instead = match ask() {
            Ok(answer) => return answer,
            Err(instead) => instead,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a test's own bound, outside of the program"
        )]
        let late = Instant::now() > deadline;
        assert!(!late, "{what}: not within {within:?}; {instead}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
