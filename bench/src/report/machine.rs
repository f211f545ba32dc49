//! The head of the report: the machine, the durability class and the command. No date: the
//! history of the file has it.

use std::fs;
use std::thread::available_parallelism;

use anyhow::{Context, Result};

use crate::arguments::Arguments;

pub(super) fn header(arguments: &Arguments, filesystem: &str) -> Result<String> {
    Ok(format!(
        "# SQLite store and embedded engine\n\n\
         {command}\n\n\
         Machine: {machine}, scratch files on {filesystem}, SQLite {sqlite}.\n\n\
         Durability class, unless a row says otherwise: WAL, `synchronous=FULL`; acknowledged after the \
         fsync of its commit.\n",
        command = command(arguments),
        machine = words()?,
        sqlite = rusqlite::version(),
    ))
}

/// What was run, and how its figures are to be read.
pub(crate) fn command(arguments: &Arguments) -> String {
    format!(
        "Command: `tollgate-bench {typed}`. Each cell: median (min–max) of {rounds} rounds, all cells of a \
         workload interleaved, each in a fresh process. Ratios are taken within each round. Machines are \
         noisy: only the ratios count.{few}",
        typed = arguments.typed,
        rounds = arguments.rounds,
        few = if arguments.rounds < 3 {
            " **Fewer than 3 rounds: a smoke test, not a result.**"
        } else {
            ""
        },
    )
}

pub(crate) fn words() -> Result<String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!(
        "{cores} cores, {memory} GiB memory, Linux {kernel}",
        cores = available_parallelism()?,
        memory = memory_gib()?,
        kernel = kernel.trim(),
    ))
}

/// How busy the machine was, whoever kept it so.
pub(crate) fn load() -> Result<String> {
    let load = fs::read_to_string("/proc/loadavg")?;
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    Ok(format!(
        "Load average of the machine at the end (1, 5 and 15 minutes): {}. Above its number of cores, others \
         were at work too.\n",
        load.join(" ")
    ))
}

fn memory_gib() -> Result<u64> {
    let info = fs::read_to_string("/proc/meminfo")?;
    let total = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .context("/proc/meminfo has no MemTotal")?;
    Ok(total.parse::<u64>()?.div_ceil(1024 * 1024))
}
