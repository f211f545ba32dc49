//! `tollgate bank try`: what a configured bank would be sent, byte for byte; and one ordinary payment through a running
//! server, with what came of it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
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
    fn payment(&self, id: &str) -> Value {
        let mut payment = json!({
            "paymentId": id, "amount": self.amount, "currency": self.currency,
            "debtor": {"account": self.debtor, "name": self.debtor_name},
            "creditor": {"account": self.creditor, "name": self.creditor_name},
        });
        if self.name != "default" {
            payment["gateway"] = json!(self.name);
        }
        payment
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
    let mut sent = payment.clone();
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
    let answer = remote::post(&it.remote, "/payments", &payment).await?;
    println!("\n{id} is {}", word(&answer, "status"));
    let ended = wait(&it.remote, &id).await?;
    let attempts = ended["attempts"].as_array().cloned().unwrap_or_default();
    ensure!(
        !attempts.is_empty(),
        "{id} was not sent within {PATIENCE:?}: {}",
        word(&ended, "whyNotRunning")
    );
    for attempt in &attempts {
        let said = attempt.get("answer").or_else(|| attempt.get("reason"));
        let said = said.and_then(Value::as_str).unwrap_or_default();
        println!(
            "{} {}: {said}",
            word(attempt, "kind"),
            word(attempt, "outcome")
        );
    }
    println!("{id} is {} now", word(&ended, "status"));
    Ok(ExitCode::SUCCESS)
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
async fn wait(args: &remote::Args, id: &str) -> anyhow::Result<Value> {
    let path = format!("/payments/{id}");
    let waiting = ["INITIALIZING", "SCHEDULED", "ACCEPTED"];
    let look = async {
        loop {
            let seen = remote::get(args, &path).await?;
            let attempts = seen["attempts"].as_array().map_or(0, Vec::len);
            if attempts > 0 && !waiting.contains(&word(&seen, "status").as_str()) {
                return anyhow::Ok(seen);
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(seen) => seen,
        Err(_) => remote::get(args, &path).await.context("it has not ended"),
    }
}

fn word(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or("unknown").to_owned()
}

fn confirmed(question: &str) -> anyhow::Result<bool> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
