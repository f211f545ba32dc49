//! `tollgate completions SHELL`: what a shell needs to complete the commands and their flags.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::aot::{Shell, generate};

use crate::Cli;

const HELP: &str = "\
Install it with:
  bash   tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate
  zsh    tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  fish   tollgate completions fish > ~/.config/fish/completions/tollgate.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Shell to generate completions for.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut script = vec![];
    generate(args.shell, &mut Cli::command(), "tollgate", &mut script);
    // Whoever stops reading, as `head` does, has read enough.
    let _ = std::io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
