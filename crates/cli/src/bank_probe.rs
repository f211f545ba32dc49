//! `tollgate bank probe`: asks a bank about a payment, and shows the answer and what it means.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use tollgate_client::contract::BankAnswer;
use tollgate_core::Timestamp;
use tollgate_core::outcome::AttemptKind;
use tollgate_server::{Config, ask_directly, shown_request};

use crate::bank_try::request;
use crate::remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Gateway name, or "default" for downstream.payments.
    name: String,
    /// Payment id.
    payment_id: String,
    /// Print the status query with credentials masked, and send nothing.
    #[arg(long)]
    dry_run: bool,
    /// Ask without a server. The lane limit does not count this query.
    #[arg(long, conflicts_with = "dry_run")]
    direct: bool,
    /// Configuration file of the server, for --dry-run and --direct.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    remote: remote::Args,
}

#[expect(clippy::print_stdout, reason = "question and answer are data")]
pub(crate) async fn run(it: &Probe) -> anyhow::Result<ExitCode> {
    let Probe {
        name, payment_id, ..
    } = it;
    if it.dry_run {
        let config = Config::load(it.config.as_deref())?;
        let request = request(payment_id, &json!({ "paymentId": payment_id }));
        let shown = shown_request(&config, name, AttemptKind::Probe, &request)?;
        println!("{shown}");
        return Ok(ExitCode::SUCCESS);
    }
    let (answer, json) = if it.direct {
        let config = Config::load(it.config.as_deref())?;
        let answer = ask_directly(&config, name, payment_id, now()).await?;
        let json = serde_json::to_value(&answer)?;
        (answer, json)
    } else {
        let asked = ask(it).await;
        asked.context("the bank was not asked; without a server use --direct --config FILE")?
    };
    println!(
        "{}",
        if it.remote.json {
            json.to_string()
        } else {
            shown(&answer)
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// Through a running server: the answer, and as it came.
async fn ask(it: &Probe) -> anyhow::Result<(BankAnswer, Value)> {
    let client = remote::client(&it.remote)?;
    let answer = client.ask_bank(&it.name, &it.payment_id).await?;
    let json = serde_json::from_str(answer.raw())?;
    Ok((answer.into_value(), json))
}

fn shown(answer: &BankAnswer) -> String {
    let mut shown = format!("{}\n\n", answer.question);
    // Writing to a string does not fail.
    let _ = match answer.status {
        None => writeln!(shown, "no complete answer"),
        Some(status) => writeln!(shown, "status {status}"),
    };
    let body = answer.body.trim_end();
    if !body.is_empty() {
        let _ = writeln!(shown, "{body}");
    }
    let row = match answer.line {
        None => "no row of the description applies".to_owned(),
        Some(line) => format!("the row in line {line} of the description"),
    };
    let (means, explanation) = (&answer.means, &answer.explanation);
    let _ = write!(shown, "\n{means} ({row})\n{explanation}");
    shown
}

/// A signature may carry the time; there is no store to ask for it.
fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "one question without a store; nothing is decided by it"
    )]
    jiff::Timestamp::now()
}
