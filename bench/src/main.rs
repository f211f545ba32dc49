//! Benchmarks of both stores, both engines and the binary from outside, with the physical limit
//! beside each.
//!
//! The parent only arranges and reports; every measurement is a fresh process of this same
//! binary, so that peaks of memory and warm caches do not mix. No timing is asserted anywhere.

mod arguments;
mod cost;
mod ended;
mod feeds;
mod http;
mod known;
mod measure;
mod payments;
mod postgres;
mod process;
mod report;
mod rounds;
mod sample;
mod scratch;
mod stopwatch;
mod storm;
mod task;
mod temporal;
mod workload;

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};

use arguments::{Arguments, Command, Store};
use sample::Sample;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = Command::parse(&words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Command::Measure { task, dir } => say(&measure::perform(&task, &dir).await?),
            Command::Postgres { phase, task, url } => {
                say(&postgres::perform(phase, &task, &url).await?)
            }
            Command::Report(arguments) => report(&arguments).await,
        }
    })
}

fn say(sample: &Sample) -> Result<()> {
    writeln!(stdout(), "{}", serde_json::to_string(sample)?)?;
    Ok(())
}

async fn report(arguments: &Arguments) -> Result<()> {
    for &store in &arguments.stores {
        let (workloads, out) = (arguments.workloads(store), arguments.out(store));
        let text = match store {
            Store::Sqlite => report::run(arguments, &workloads)?,
            Store::Postgres => {
                postgres::run(arguments, &workloads, |text| write_to(&out, text)).await?
            }
            Store::Temporal => temporal::run(arguments, &workloads).await?,
        };
        stdout().write_all(text.as_bytes())?;
        write_to(&out, &text)?;
    }
    Ok(())
}

fn write_to(out: &Path, text: &str) -> Result<()> {
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(out, text).with_context(|| format!("cannot write {}", out.display()))
}
