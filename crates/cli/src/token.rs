//! `tollgate token create`: a new token, shown once, and the entry by which the service knows it.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use rand::TryRng;
use rand::rngs::SysRng;
use tollgate_server::{Role, Token};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes a token. It is shown once and stored nowhere; the service keeps only its SHA-256.
    Create {
        /// Who will use it: a person or a system. It is the actor in the audit trail.
        #[arg(long)]
        name: String,
        /// What it is good for: ingest, read or operate.
        #[arg(long)]
        role: Role,
    },
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::Create { name, role } = command;
    let mut random = [0; 32];
    SysRng
        .try_fill_bytes(&mut random)
        .context("the system has no random numbers")?;
    let (text, entry) = Token::create(&random, name, *role)?;
    show(&text, &entry);
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the token and its entry are data")]
#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
fn show(text: &str, entry: &Token) {
    eprintln!("The token, shown this once; its user sends it as Authorization: Bearer TOKEN,");
    eprintln!("and the tollgate commands read it from TOLLGATE_TOKEN or --token-file:");
    println!("{text}");
    eprintln!("What the service needs to know it: add this to auth.tokens and start it again.");
    println!("{entry}");
}
