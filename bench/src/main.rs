//! Benchmarks of the SQLite store and the embedded engine, with the physical limit beside each.
//!
//! The parent only arranges and reports; every measurement is a fresh process of this same
//! binary, so that peaks of memory and warm caches do not mix. No timing is asserted anywhere.

mod arguments;
mod measure;
mod payments;
mod report;
mod rounds;
mod sample;
mod scratch;
mod stopwatch;
mod task;

use std::fs;
use std::io::{Write, stdout};

use anyhow::{Context, Result};

use arguments::{Arguments, Command};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Command::parse(&words)? {
        Command::Measure { task, dir } => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?;
            let sample = runtime.block_on(measure::perform(&task, &dir))?;
            writeln!(stdout(), "{}", serde_json::to_string(&sample)?)?;
            Ok(())
        }
        Command::Report(arguments) => report(&arguments),
    }
}

fn report(arguments: &Arguments) -> Result<()> {
    let text = report::run(arguments)?;
    stdout().write_all(text.as_bytes())?;
    let out = &arguments.out;
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(out, text).with_context(|| format!("cannot write {}", out.display()))
}
