//! Rounds on PostgreSQL: every task once, in order, then all again (A-B-A-B), each in a fresh
//! database and in processes of its own.

use std::io::{Write, stderr};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::peers;
use super::server::Server;
use super::task::{Phase, Task};
use crate::rounds::Samples;
use crate::sample::Sample;

/// Answers in the order of `tasks`.
pub(super) async fn interleaved(
    tasks: &[Task],
    rounds: u32,
    server: &Server,
) -> Result<Vec<Samples>> {
    let mut samples = vec![Samples::new(); tasks.len()];
    for round in 1..=rounds {
        for (task, samples) in tasks.iter().zip(&mut samples) {
            let url = server.database().await;
            prepare(task, &url, server).await?;
            let sample = measure(task, &url, server).await?;
            server.drop_database(&url).await;
            say(round, task, &sample)?;
            samples.push(sample);
        }
    }
    Ok(samples)
}

pub(super) fn say(round: u32, task: &Task, sample: &Sample) -> Result<()> {
    let rate = sample.per_second();
    writeln!(stderr(), "round {round}: {rate:>9.0}/s  {task:?}")?;
    Ok(())
}

/// What comes before and is not measured.
pub(super) async fn prepare(task: &Task, url: &str, server: &Server) -> Result<()> {
    output_of(Phase::Prepare, task, url)?;
    server.settle(url).await
}

/// In a process of its own, with what the server counted meanwhile.
pub(super) async fn measure(task: &Task, url: &str, server: &Server) -> Result<Sample> {
    let before = server.counted(url).await?;
    let said = output_of(Phase::Measure, task, url)?;
    let after = server.counted(url).await?;
    let sample: Sample =
        serde_json::from_slice(&said).with_context(|| format!("{task:?} said nothing useful"))?;
    ensure!(sample.count > 0, "{task:?} has done nothing");
    if let Task::Peer {
        peer, work, count, ..
    } = task
    {
        peers::check(*peer, *work, url, *count).await?;
    }
    Ok(Sample {
        wal_bytes: Some(after.wal_bytes_since(&before)),
        commits: Some(after.commits_since(&before)?),
        ..sample
    })
}

pub(super) fn output_of(phase: Phase, task: &Task, url: &str) -> Result<Vec<u8>> {
    let mut command = match task {
        Task::Peer {
            peer,
            work,
            input,
            count,
        } => {
            let mut command = peers::command(*peer);
            command.args([phase.word(), work.word(), url]).arg(input);
            command.arg(count.to_string());
            command
        }
        ours => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["postgres", phase.word(), &serde_json::to_string(ours)?, url]);
            command
        }
    };
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{task:?} ended with {}", output.status);
    }
    Ok(output.stdout)
}
