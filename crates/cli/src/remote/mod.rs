//! Commands for a running Tollgate, over its HTTP API: whatever they can do, the API can.

mod accounts;
mod audit;
mod calendars;
mod check_status;
mod client;
mod customers;
mod dead_letters;
mod file_body;
mod import;
mod in_doubt;
mod invoice_import;
mod invoices;
mod lane_views;
mod lanes;
mod nodes;
mod payments;
mod progress;
mod rules;
mod schedules;
mod table;
mod tls;
mod types;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use client::Client;
pub(crate) use client::quoted;

/// Where the service is, and how answers are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The service's address.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8090"
    )]
    server: String,
    /// Reads the token from this file. Otherwise it is taken from the environment: `TOLLGATE_TOKEN`.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With https://: a PEM file with the authorities to trust instead of the system's.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Prints the API's answer as it is.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Args {
    fn shown(&self) -> Shown {
        Shown { json: self.json }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Payments: list, show, cancel, reschedule, release.
    Payments(Group<payments::Command>),
    /// Customers: who invoices are for.
    Customers(Group<customers::Command>),
    /// Invoices: list, show, create, reschedule, import.
    Invoices(Group<invoices::Command>),
    /// Schedules: when invoices are charged.
    Schedules(Group<schedules::Command>),
    /// Lanes: limits, pauses, plans and forecasts.
    Lanes(Group<lanes::Command>),
    /// Calendars: when lanes are open.
    Calendars(Group<calendars::Command>),
    /// Rules and routes: shown, read anew, tried.
    Rules(Group<rules::Command>),
    /// Item types: how items are dispatched, and the kill switch.
    Types(Group<types::Command>),
    /// Takes a file of payments in: NDJSON or CSV. Exits with 0 if every line was taken in, with 1
    /// if some were rejected, with 2 if it failed.
    Import {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        file: import::File,
    },
    /// Has payments asked about at their gateways. Exits with 0 if all were, with 1 if some could not
    /// be, with 2 if it failed.
    CheckStatus {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        asked: check_status::Asked,
    },
    /// Payments and invoices whose outcome nobody knows.
    InDoubt(Group<in_doubt::Command>),
    /// Processes on the store: which one leads.
    Nodes(Group<nodes::Command>),
    /// Items that the machine has given up.
    DeadLetters(Group<dead_letters::Command>),
    /// Who did what, newest first.
    Audit {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        asked: audit::Asked,
    },
    /// Control totals of a day: every payment and every invoice taken in, each in exactly one bucket.
    Totals {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        day: accounts::Day,
    },
}

/// What a running server answers.
pub(crate) async fn get(args: &Args, path: &str) -> anyhow::Result<Value> {
    Client::new(args)?.get(path).await
}

pub(crate) async fn post(args: &Args, path: &str, body: &Value) -> anyhow::Result<Value> {
    let client = Client::new(args)?;
    client.send(http::Method::POST, path, body).await
}

/// Commands about one kind of thing.
#[derive(Debug, clap::Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(flatten)]
    args: Args,
    #[command(subcommand)]
    command: C,
}

/// Shows an answer; `text` says how, unless the answer is wanted as it is.
struct Shown {
    json: bool,
}

impl Shown {
    fn show(&self, answer: &Value, text: impl FnOnce(&Value) -> String) {
        if self.json {
            Self::print(&serde_json::to_string_pretty(answer).unwrap_or_default());
        } else {
            Self::print(&text(answer));
        }
    }

    /// Whoever stops reading, as `head` does, has read enough.
    fn print(text: &str) {
        let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    }
}

pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Customers(Group { args, command }) => {
            customers::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Invoices(Group { args, command }) => {
            return invoices::run(&Client::new(&args)?, &args.shown(), command).await;
        }
        Command::Schedules(Group { args, command }) => {
            schedules::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Lanes(Group { args, command }) => {
            lanes::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Calendars(Group { args, command }) => {
            calendars::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::InDoubt(Group { args, command }) => {
            in_doubt::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Rules(Group { args, command }) => {
            rules::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Payments(Group { args, command }) => {
            payments::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Types(Group { args, command }) => {
            types::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Nodes(Group { args, command }) => {
            nodes::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::DeadLetters(Group { args, command }) => {
            dead_letters::run(&Client::new(&args)?, &args.shown(), command).await?;
        }
        Command::Audit { args, asked } => {
            audit::run(&Client::new(&args)?, &args.shown(), asked).await?;
        }
        Command::Import { args, file } => {
            return Ok(import::run(&args, &file).await);
        }
        Command::CheckStatus { args, asked } => {
            return Ok(check_status::run(&args, &asked).await);
        }
        Command::Totals { args, day } => {
            accounts::totals(&Client::new(&args)?, &args.shown(), &day).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
