//! `tollgate config check`: what is wrong with a configuration, without starting anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use tollgate_server::Config;

use crate::remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration and print one error per line. Exits with 1 on any error.
    Check {
        /// Configuration file. Keys that are not set keep their documented default.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Also compare the lanes of the file with those of a running server.
        #[arg(long)]
        lanes: bool,
        #[command(flatten)]
        remote: remote::Args,
    },
}

#[expect(clippy::print_stdout, reason = "what is wrong is data")]
pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Check {
        config,
        lanes,
        remote,
    } = &args.command;
    let problems = tollgate_server::problems(config.as_deref());
    if problems.is_empty() {
        for promise in Config::promises(config.as_deref()) {
            println!("promise: {promise}");
        }
        if *lanes {
            for difference in lane_differences(config.as_deref(), remote).await? {
                println!("{difference}");
            }
        }
        println!("the configuration is valid");
        return Ok(ExitCode::SUCCESS);
    }
    for problem in problems {
        println!("{problem}");
    }
    Ok(ExitCode::FAILURE)
}

/// What the file says of a lane and the running server does not.
async fn lane_differences(
    config: Option<&Path>,
    remote: &remote::Args,
) -> anyhow::Result<Vec<String>> {
    let config = Config::read(config)?;
    let running = remote::client(remote)?.lanes().list().await?;
    let told = config.lanes.iter().filter_map(|(name, text)| {
        let found = running.iter().find(|lane| lane.config_name == name.as_str());
        let Some(lane) = found else {
            return Some(format!("lanes.{name}: the running server has no such lane"));
        };
        let said = (lane.max_per_window, lane.window_size_secs);
        let file = (text.max_per_window, text.window_size_secs);
        let same = said == file && text.max_per_second.is_none_or(|limit| limit == lane.max_per_second);
        (!same).then(|| {
            format!(
                "lanes.{name}: the file says {} per {} s, the server {} per {} s and at most {} a second; the server's settings apply (tollgate lanes set {name})",
                file.0,
                file.1,
                said.0,
                said.1,
                json!(lane.max_per_second),
            )
        })
    });
    Ok(told.collect())
}
