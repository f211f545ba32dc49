//! `tollgate token create`: a new token, shown once, and the entry by which the service knows it.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use rand::TryRng;
use rand::rngs::SysRng;
use tollgate_contract::Role;
use tollgate_server::Token;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a token. It is printed once and not stored; the service keeps only its SHA-256.
    Create {
        /// Person or system that uses the token. It appears as the actor in the audit log.
        #[arg(long)]
        name: String,
        /// Role: ingest, read or operate.
        #[arg(long)]
        role: Role,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Create { name, role } = command;
    let mut random = [0; 32];
    SysRng
        .try_fill_bytes(&mut random)
        .context("the system provides no random numbers")?;
    let (text, entry) = Token::create(&random, name, *role)?;
    show(&text, &entry);
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the token and its entry are data")]
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn show(text: &str, entry: &Token) {
    eprintln!("The token. It is shown only once. Clients send it as Authorization: Bearer TOKEN,");
    eprintln!("and the tollgate commands read it from TOLLGATE_TOKEN or --token-file:");
    println!("{text}");
    eprintln!("Add this entry to auth.tokens of the service and restart it:");
    println!("{entry}");
}
