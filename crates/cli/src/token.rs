//! `tollgate token create`: a new token, shown once, and the entry by which the service knows it.

use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use rand::TryRng;
use rand::rngs::SysRng;
use tollgate_server::{Role, Token};

/// Nobody guesses so many.
const RANDOM_BYTES: usize = 32;
/// By this, tools that look for leaked secrets know a token of ours.
const PREFIX: &str = "tg_";

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
    let text = random()?;
    let entry = Token::of(&text, name, *role)?;
    show(&text, &entry);
    Ok(ExitCode::SUCCESS)
}

fn random() -> anyhow::Result<String> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    SysRng
        .try_fill_bytes(&mut bytes)
        .context("the system has no random numbers")?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{PREFIX}{digits}"))
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
