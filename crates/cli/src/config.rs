//! `tollgate config check`: what is wrong with a configuration, without starting anything.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tollgate_server::Config;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what is wrong, one sentence per line; fails if anything is.
    Check {
        /// Configuration file; what it leaves out keeps its documented default.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

#[expect(clippy::print_stdout, reason = "what is wrong is data")]
pub(crate) fn run(args: &Args) -> ExitCode {
    let Command::Check { config } = &args.command;
    let problems = Config::problems(config.as_deref());
    if problems.is_empty() {
        for promise in Config::promises(config.as_deref()) {
            println!("promise: {promise}");
        }
        println!("the configuration is good");
        return ExitCode::SUCCESS;
    }
    for problem in problems {
        println!("{problem}");
    }
    ExitCode::FAILURE
}
