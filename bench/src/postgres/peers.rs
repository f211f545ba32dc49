//! The queues that are measured beside ours, each a small program in `bench/peers` that takes the
//! same words: `prepare|measure insert|drain URL FILE COUNT`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::target::connect;
use super::task::{Peer, Work};

const TEMPORAL_SDK: &str = "temporalio==1.35.0";

/// Installs those on Node; nothing that is measured.
pub(super) fn install() -> Result<()> {
    let mut npm = Command::new("npm");
    succeeds(
        npm.args(["ci", "--no-audit", "--no-fund"])
            .current_dir(folder()),
    )
}

/// Builds the one in Rust.
pub(super) fn build() -> Result<()> {
    succeeds(
        Command::new("cargo")
            .args(["build", "--release", "--locked", "--quiet"])
            .current_dir(folder().join("graphile_worker"))
            .env("CARGO_TARGET_DIR", built()),
    )
}

pub(super) fn command(peer: Peer) -> Command {
    let script = |name: &str| {
        let mut command = Command::new("node");
        command.arg(folder().join(name));
        command
    };
    match peer {
        Peer::GraphileWorker => script("graphile-worker.mjs"),
        Peer::PgBoss => script("pg-boss.mjs"),
        Peer::GraphileWorkerRs => Command::new(built().join("release/bench-peer-graphile-worker")),
    }
}

/// Whether what was said to be done is there.
pub(super) async fn check(peer: Peer, work: Work, url: &str, count: u32) -> Result<()> {
    let jobs = match peer {
        Peer::GraphileWorker | Peer::GraphileWorkerRs => {
            "SELECT count(*) FROM graphile_worker._private_jobs"
        }
        Peer::PgBoss => "SELECT count(*) FROM pgboss.job WHERE state <> 'completed'",
    };
    let expected = match work {
        Work::Insert => i64::from(count),
        Work::Drain => 0,
    };
    let found: i64 = connect(url).await?.query_one(jobs, &[]).await?.get(0);
    ensure!(
        found == expected,
        "{peer:?} has left {found} jobs, not {expected}"
    );
    Ok(())
}

/// Temporal's limit of a task queue, in a Python environment of its own.
pub(super) fn temporal_limit() -> Result<Command> {
    let python = built().join("temporal");
    if !python.join("bin/temporal-is-there").exists() {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
        let pip = python.join("bin/pip");
        succeeds(Command::new(pip).args(["install", "--quiet", TEMPORAL_SDK]))?;
        std::fs::write(python.join("bin/temporal-is-there"), TEMPORAL_SDK)?;
    }
    let mut command = Command::new(python.join("bin/python"));
    command.arg(folder().join("temporal_limit.py"));
    Ok(command)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Beside what Cargo builds of ours, wherever that is.
fn built() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    target.unwrap_or_else(ours).join("bench-peers")
}

pub(super) fn succeeds(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| {
        format!("{command:?} cannot be run; peers need Node 20, npm, Python 3 and Cargo")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(())
}
