//! `tollgate bank try`: what a configured bank would be sent, byte for byte; and one ordinary payment through a running
//! server, with what came of it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use tollgate_client::Client;
use tollgate_client::contract::{Attempt, NewPayment, Party, Payment};
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::Request;
use tollgate_server::{Config, shown_request};

use crate::remote;

/// How long a payment is waited for; it takes a turn in its lane like any other.
const PATIENCE: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Try {
    /// Gateway name, or "default" for downstream.payments.
    name: String,
    /// Amount to pay, such as 1.00.
    #[arg(long)]
    amount: String,
    /// Currency, such as EUR.
    #[arg(long)]
    currency: String,
    /// Debtor account.
    #[arg(long, value_name = "ACCOUNT")]
    debtor: String,
    /// Debtor name.
    #[arg(long, value_name = "NAME", default_value = "Tollgate")]
    debtor_name: String,
    /// Creditor account.
    #[arg(long, value_name = "ACCOUNT")]
    creditor: String,
    /// Creditor name.
    #[arg(long, value_name = "NAME", default_value = "Tollgate")]
    creditor_name: String,
    /// Print the request as it would be sent, with credentials masked; send nothing.
    #[arg(long)]
    dry_run: bool,
    /// Send without asking for confirmation.
    #[arg(long)]
    yes: bool,
    /// Configuration file of the server.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    remote: remote::Args,
}

impl Try {
    /// As the API takes it.
    fn payment(&self, id: &str) -> NewPayment {
        let party = |account: &String, name: &String| Party {
            account: account.clone(),
            name: name.clone(),
        };
        let debtor = party(&self.debtor, &self.debtor_name);
        let creditor = party(&self.creditor, &self.creditor_name);
        NewPayment {
            gateway: (self.name != "default").then(|| self.name.clone()),
            ..NewPayment::new(id, &self.amount, &self.currency, debtor, creditor)
        }
    }
}

#[expect(clippy::print_stdout, reason = "what goes out and comes back is data")]
pub(crate) async fn run_try(it: &Try) -> anyhow::Result<ExitCode> {
    let id = format!(
        "try-{:012x}",
        RandomState::new().build_hasher().finish() >> 16
    );
    let config = Config::load(it.config.as_deref())?;
    let payment = it.payment(&id);
    let mut sent = json!(payment);
    sent["gateway"] = json!(it.name);
    sent["reference"] = Value::Null;
    let request = request(&id, &sent);
    println!(
        "{}",
        shown_request(&config, &it.name, AttemptKind::Send, &request)?
    );
    if it.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !it.yes
        && !confirmed(&format!(
            "Pay {} {} to {}?",
            it.amount, it.currency, it.creditor
        ))?
    {
        bail!("nothing was sent");
    }
    let client = remote::client(&it.remote)?;
    let accepted = client.payments().submit(&payment).await?;
    println!("\n{id} is {}", accepted.status);
    let ended = wait(&client, &id).await?;
    ensure!(
        !attempts(&ended).is_empty(),
        "{id} was not sent within {PATIENCE:?}: {}",
        why_not_running(&ended)
    );
    for attempt in attempts(&ended) {
        let said = attempt.answer.as_ref().or(attempt.reason.as_ref());
        let said = said.map_or("", String::as_str);
        println!("{} {}: {said}", attempt.kind, attempt.outcome);
    }
    println!("{id} is {} now", status(&ended));
    Ok(ExitCode::SUCCESS)
}

fn attempts(payment: &Payment) -> &[Attempt] {
    match payment {
        Payment::Known(planned) => &planned.attempts,
        Payment::Initializing(_) | Payment::NotTaken(_) => &[],
    }
}

fn why_not_running(payment: &Payment) -> &str {
    let why = match payment {
        Payment::Known(planned) => planned.why_not_running.as_deref(),
        Payment::Initializing(pending) => Some(pending.why_not_running.as_str()),
        Payment::NotTaken(_) => None,
    };
    why.unwrap_or("unknown")
}

fn status(payment: &Payment) -> &str {
    match payment {
        Payment::Known(planned) => &planned.status,
        Payment::Initializing(pending) => &pending.status,
        Payment::NotTaken(refused) => &refused.status,
    }
}

pub(crate) fn request(id: &str, body: &Value) -> Request {
    Request {
        reference: id.to_owned(),
        idempotency_key: format!("payment-{id}"),
        body_json: body.to_string(),
        sent_by: None,
    }
}

/// Until it has been sent and is decided for now.
async fn wait(client: &Client, id: &str) -> anyhow::Result<Payment> {
    let waiting = ["INITIALIZING", "SCHEDULED", "ACCEPTED"];
    let look = async {
        loop {
            let seen = client.payments().get(id).await?.into_value();
            if !attempts(&seen).is_empty() && !waiting.contains(&status(&seen)) {
                return anyhow::Ok(seen);
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(seen) => seen,
        Err(_) => {
            let seen = client.payments().get(id).await;
            Ok(seen.context("it has not ended")?.into_value())
        }
    }
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
