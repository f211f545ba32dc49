//! The one binary. Data goes to stdout, talk to stderr; the exit code says whether all is well.

mod config;
mod demo;
mod feed;
mod remote;
mod report;
mod sandbox;
mod serve;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Lands payments on a bank at exactly the rate it permits, each once.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: a storm of payments, a sandbox bank, and the proof. Needs no set-up.
    Demo(demo::Args),
    /// Run the service: HTTP API, dispatcher and engine.
    Serve(serve::Args),
    /// Run the fake bank alone, with faults of your choice and a ledger of its own.
    Sandbox(sandbox::Args),
    /// What is wrong with a configuration, without starting anything.
    Config(config::Args),
    #[command(flatten)]
    Remote(remote::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(matches!(cli.command, Command::Serve(_)));
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => demo::run(args).await,
            Command::Serve(args) => serve::run(args).await,
            Command::Sandbox(args) => sandbox::run(args).await,
            Command::Config(args) => Ok(config::run(&args)),
            Command::Remote(command) => remote::run(command).await,
        }
    });
    result.unwrap_or_else(|error| fail(&error))
}

/// `RUST_LOG` decides what is logged; the demo logs only what goes wrong.
fn start_log(serving: bool) {
    let default = if serving { "info" } else { "error" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}

#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("tollgate: {error:#}");
    ExitCode::FAILURE
}
