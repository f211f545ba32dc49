//! `tollgate bank …`: descriptions of banks, tried without a bank and with one.

use std::process::ExitCode;

use clap::Subcommand;
use tollgate_server::{Description, SHIPPED, read_description};

use crate::{bank_probe, bank_try};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a bank description and run its recorded examples. Exits with 1 on any error.
    Check {
        /// A TOML file, or the name of a shipped description.
        #[arg(value_name = "FILE|NAME")]
        description: String,
    },
    /// Send one payment to a configured bank through a running server, and show the result.
    Try(Box<bank_try::Try>),
    /// Ask a bank for the status of a payment, and show the answer and its meaning.
    Probe(bank_probe::Probe),
    /// List the shipped descriptions.
    List,
    /// Print a shipped description, as a template for your own.
    Show {
        /// Name from `tollgate bank list`.
        name: String,
    },
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check { description } => check(description),
        Command::Try(it) => bank_try::run_try(it).await,
        Command::Probe(it) => bank_probe::run(it).await,
        Command::List => Ok(list()),
        Command::Show { name } => show(name),
    }
}

#[expect(clippy::print_stdout, reason = "what was found is data")]
fn check(name: &str) -> anyhow::Result<ExitCode> {
    let description = read_description(name)?;
    println!("{}", description.title);
    for promise in description.bold_promises() {
        println!("promise: {promise}");
    }
    let checked = description.check();
    let wrong = checked.iter().filter(|it| !it.is_right).count();
    for it in &checked {
        let mark = if it.is_right { "ok" } else { "WRONG" };
        println!("{mark:5} line {}: {}", it.line, it.told);
    }
    if checked.is_empty() {
        println!(
            "no [[examples]]: nothing was tested; paste answers from the bank's documentation"
        );
    }
    println!("{} examples, {wrong} wrong", checked.len());
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[expect(clippy::print_stdout, reason = "the list is data")]
fn list() -> ExitCode {
    for (name, text) in SHIPPED {
        let title = Description::read(text).map_or_else(|it| it.to_string(), |it| it.title);
        println!("{name:20} {title}");
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "the description is data")]
fn show(name: &str) -> anyhow::Result<ExitCode> {
    let text = Description::shipped(name);
    let text = text.ok_or_else(|| {
        anyhow::anyhow!("{name:?} is not a shipped description; see `tollgate bank list`")
    })?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
