//! The one binary. Data goes to stdout, talk to stderr; the exit code says whether all is well.

mod bank;
mod bank_probe;
mod bank_try;
mod completions;
mod config;
mod demo;
mod feed;
mod remote;
mod report;
mod sandbox;
mod serve;
mod talk;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tollgate_server::Log;

/// Payments dispatcher: sends each payment once, within the bank's rate limit.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a demo: a burst of payments against a sandbox bank.
    Demo(demo::Args),
    /// Run the service: HTTP API, console, dispatcher and engine.
    Serve(serve::Args),
    /// Run the sandbox bank alone, with configurable faults.
    Sandbox(sandbox::Args),
    /// Print the OpenAPI document of the API.
    Openapi,
    /// Create tokens for the API.
    #[command(subcommand)]
    Token(token::Command),
    /// Check bank descriptions, or test a configured bank.
    Bank(bank::Args),
    /// Check a configuration without starting the service.
    Config(config::Args),
    /// Print a shell completion script.
    Completions(completions::Args),
    #[command(flatten)]
    Remote(remote::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tollgate_server::raise_descriptor_limit();
    if !matches!(cli.command, Command::Serve(_)) {
        Log::of_a_command();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => Box::pin(demo::run(args)).await,
            Command::Serve(args) => Box::pin(serve::run(args)).await,
            Command::Sandbox(args) => sandbox::run(args).await,
            Command::Openapi => Ok(print_openapi()),
            Command::Token(command) => token::run(&command),
            Command::Bank(args) => bank::run(&args).await,
            Command::Config(args) => config::run(&args).await,
            Command::Completions(args) => Ok(completions::run(&args)),
            Command::Remote(command) => remote::run(command).await,
        }
    });
    result.unwrap_or_else(|error| fail(&error))
}

#[expect(clippy::print_stdout, reason = "the document is data")]
fn print_openapi() -> ExitCode {
    print!("{}", tollgate_server::openapi_json());
    ExitCode::SUCCESS
}

fn fail(error: &anyhow::Error) -> ExitCode {
    talk::say(&format!("tollgate: {}", remote::sentence(error)));
    ExitCode::FAILURE
}
