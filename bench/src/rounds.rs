//! Rounds: every task once, in order, then all again (A-B-A-B), each in a fresh process.

use std::io::{Write, stderr};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::sample::Sample;
use crate::scratch::Scratch;
use crate::task::Task;

/// The samples of one task, one per round.
pub(crate) type Samples = Vec<Sample>;

/// Answers in the order of `tasks`.
pub(crate) fn interleaved(tasks: &[Task], rounds: u32, scratch: &Scratch) -> Result<Vec<Samples>> {
    let mut samples = vec![Samples::new(); tasks.len()];
    for round in 1..=rounds {
        for (task, samples) in tasks.iter().zip(&mut samples) {
            let sample = measured(task, scratch)?;
            let rate = sample.per_second();
            writeln!(stderr(), "round {round}: {rate:>9.0}/s  {task:?}")?;
            samples.push(sample);
        }
    }
    Ok(samples)
}

fn measured(task: &Task, scratch: &Scratch) -> Result<Sample> {
    let folder = scratch.folder()?;
    let output = Command::new(std::env::current_exe()?)
        .args(["measure", &serde_json::to_string(task)?])
        .arg(folder.path())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{task:?} ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("{task:?} said nothing useful"))
}
