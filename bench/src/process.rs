//! Processes of the binary `tollgate` that are measured from outside: a server, or the fake bank.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::http;
use crate::stopwatch;

/// How often a process is asked whether it is there, or how far it is.
pub(crate) const PACE: Duration = Duration::from_millis(50);
/// Asked so often at most.
const TRIES: u32 = 1200;

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Of its configuration.
    _folder: Option<TempDir>,
}

impl Process {
    /// `tollgate serve`; everything goes to one bank by one lane, `default`.
    pub(crate) fn serve(store: &str, bank: &str, more: &str) -> Result<Self> {
        let (folder, address) = (tempfile::tempdir()?, free()?);
        let config = format!(
            "listen = \"{address}\"\nstore.url = \"{store}\"\n{more}\n\
             downstream.payments.url = \"{bank}\"\n\
             [downstream.gateways.sepa]\nurl = \"{bank}\"\nlane = \"default\"\n"
        );
        let file = folder.path().join("tollgate.toml");
        std::fs::write(&file, config)?;
        let mut command = Command::new(binary()?);
        command.args(["serve", "--config"]).arg(file);
        Self::start(command, address, "/health/ready", Some(folder))
    }

    /// `tollgate sandbox`, with a ledger of its own.
    pub(crate) fn bank(limit: u32) -> Result<Self> {
        Self::bank_as(limit, "contract")
    }

    /// One that speaks another API.
    pub(crate) fn bank_as(limit: u32, api: &str) -> Result<Self> {
        let address = free()?;
        let mut command = Command::new(binary()?);
        command.args(["sandbox", "--listen", &address.to_string(), "--as", api]);
        command.args(["--limit", &limit.to_string()]);
        // It tells people where it is.
        command.stderr(Stdio::null());
        Self::start(command, address, "/sandbox/ledger", None)
    }

    /// The services of status checks, which are as slow as these faults make them.
    pub(crate) fn services(faults: &str) -> Result<Self> {
        let address = free()?;
        let mut command = Command::new(binary()?);
        command.args(["sandbox", "--listen", &address.to_string()]);
        command.args(["--faults", faults]).stderr(Stdio::null());
        Self::start(command, address, "/sandbox/calls", None)
    }

    fn start(
        mut command: Command,
        address: SocketAddr,
        ready: &str,
        folder: Option<TempDir>,
    ) -> Result<Self> {
        let child = command
            .env("RUST_LOG", "error")
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        let mut process = Self {
            child,
            address,
            _folder: folder,
        };
        for _ in 0..TRIES {
            if http::get(address, ready).is_ok() {
                return Ok(process);
            }
            let ended = process.child.try_wait()?;
            ensure!(ended.is_none(), "{command:?} ended: {ended:?}");
            sleep(PACE);
        }
        anyhow::bail!("{command:?} does not answer at {address}")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// User and system time so far.
    pub(crate) fn cpu_secs(&self) -> Result<f64> {
        stopwatch::cpu_secs_of(&self.child.id().to_string())
    }

    /// The highest it has had.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        stopwatch::memory_mib_of(&self.child.id().to_string(), "VmHWM:")
    }

    pub(crate) fn memory_mib(&self) -> Result<f64> {
        stopwatch::memory_mib_of(&self.child.id().to_string(), "VmRSS:")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Beside this one, from the same build.
fn binary() -> Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("tollgate");
    ensure!(
        binary.exists(),
        "{} is missing; cargo build --release",
        binary.display()
    );
    Ok(binary)
}

/// An address where nobody listens now.
fn free() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}
