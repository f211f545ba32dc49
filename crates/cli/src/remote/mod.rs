//! Commands for a running Tollgate, over its HTTP API: whatever they can do, the API can.

mod accounts;
mod archive;
mod archive_views;
mod audit;
mod calendars;
mod check_status;
mod connect;
mod customers;
mod dead_letters;
mod erase;
mod events;
mod feeds;
mod held;
mod import;
mod in_doubt;
mod invoice_import;
mod invoice_views;
mod invoices;
mod jobs;
mod lane_views;
mod lanes;
mod nodes;
mod payment_views;
mod payments;
mod progress;
mod rules;
mod schedules;
mod sentence;
mod status;
mod table;
mod types;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;
use tollgate_client::Answer;

pub(crate) use connect::client;
pub(crate) use sentence::sentence;

/// Where the service is, and how answers are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the service.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8090"
    )]
    server: String,
    /// Read the token from this file. Default: the environment variable `TOLLGATE_TOKEN`.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With https://: PEM file with the certificate authorities to trust instead of the system's.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print the API's JSON answer.
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
    /// Show what needs attention: held payments, payments in doubt, stopped lanes, kill switches and more.
    ///
    /// Exits with 3 while something needs attention, with 0 if nothing does.
    Status {
        #[command(flatten)]
        args: Args,
    },
    /// Mark an entry of `status` as seen: it is left out until its count grows.
    Seen {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        seen: status::Marked,
    },
    /// List, show, cancel, reschedule, release or reopen payments.
    Payments(Group<payments::Command>),
    /// List, show, create or change the customers of invoices.
    Customers(Group<customers::Command>),
    /// List, show, create, reschedule, correct or import invoices.
    Invoices(Group<invoices::Command>),
    /// Show, preview or set schedules of invoice charges.
    Schedules(Group<schedules::Command>),
    /// Show or change lanes: limits, pauses, plans, forecasts.
    Lanes(Group<lanes::Command>),
    /// Show or change calendars: the opening hours of lanes.
    Calendars(Group<calendars::Command>),
    /// Show, reload or test rules and routes.
    Rules(Group<rules::Command>),
    /// Show or change item types: dispatching, kill switch.
    Types(Group<types::Command>),
    /// Import a file of payments: NDJSON or CSV.
    ///
    /// Exits with 0 if every line was accepted, with 1 if some lines were rejected, with 2 if the
    /// import failed.
    Import {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        file: import::File,
    },
    /// Ask the gateways for the status of payments.
    ///
    /// Exits with 0 if all payments were checked, with 1 if some could not be checked, with 2 if the
    /// status check failed.
    CheckStatus {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        asked: check_status::CheckArgs,
    },
    /// List, release or cancel held items.
    ///
    /// Held items missed their deadline, or a rule holds them. They wait until someone releases or cancels them.
    Held(Group<held::Command>),
    /// List or resolve items in doubt.
    ///
    /// Items in doubt are payments and invoices that were sent and whose outcome is unknown.
    InDoubt(Group<in_doubt::Command>),
    /// Show the state of event publishing, or turn it off.
    Events(Group<events::Command>),
    /// List, pause, resume or move feeds: topics whose records are imported.
    Feeds(Group<feeds::Command>),
    /// List the processes that share the service's store, and show the leader.
    Nodes(Group<nodes::Command>),
    /// List or replay dead letters.
    ///
    /// Dead letters are items that Tollgate has given up.
    DeadLetters(Group<dead_letters::Command>),
    /// Preview, start, follow or stop actions on many items.
    Jobs(Group<jobs::Command>),
    /// Erase a person's data from items that have ended.
    ///
    /// Erases names, accounts, references, metadata, texts and content hashes. Keeps ids, amounts, statuses and times.
    /// Without --digest, shows a preview. With the --digest of that preview, erases.
    Erase {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        wish: erase::Wish,
    },
    /// List, export, verify or restore the days of the archive.
    ///
    /// The archive contains ended items, grouped by the day on which they ended.
    Archive(Group<archive::Command>),
    /// Show the audit log, newest first.
    Audit {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        asked: audit::AuditArgs,
    },
    /// Show the control totals of a day.
    ///
    /// Counts all payments and invoices accepted on that day, each in exactly one status.
    Totals {
        #[command(flatten)]
        args: Args,
        #[command(flatten)]
        day: accounts::Day,
    },
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
    fn show<T>(&self, answer: &Answer<T>, text: impl FnOnce(&T) -> String) {
        if self.json {
            // As it came: the type may know less than the service says.
            let answer: Value = serde_json::from_str(answer.raw()).unwrap_or_default();
            self.show_json(&answer, String::new);
        } else {
            Self::print(&text(answer));
        }
    }

    /// For what a command has put together itself.
    fn show_json(&self, answer: &Value, text: impl FnOnce() -> String) {
        if self.json {
            Self::print(&serde_json::to_string_pretty(answer).unwrap_or_default());
        } else {
            Self::print(&text());
        }
    }

    /// A closed pipe is not an error: `head` stops reading.
    fn print(text: &str) {
        let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "one arm for each command, and nothing else"
)]
pub(crate) async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Customers(Group { args, command }) => {
            customers::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Invoices(Group { args, command }) => {
            return invoices::run(&client(&args)?, &args.shown(), command).await;
        }
        Command::Schedules(Group { args, command }) => {
            schedules::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Lanes(Group { args, command }) => {
            lanes::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Calendars(Group { args, command }) => {
            calendars::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Status { args } => {
            return status::status(&client(&args)?, &args.shown()).await;
        }
        Command::Seen { args, seen } => {
            status::seen(&client(&args)?, &args.shown(), seen).await?;
        }
        Command::Held(Group { args, command }) => {
            held::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::InDoubt(Group { args, command }) => {
            in_doubt::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Rules(Group { args, command }) => {
            rules::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Payments(Group { args, command }) => {
            payments::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Types(Group { args, command }) => {
            types::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Events(Group { args, command }) => {
            events::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Feeds(Group { args, command }) => {
            feeds::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Nodes(Group { args, command }) => {
            nodes::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::DeadLetters(Group { args, command }) => {
            dead_letters::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Jobs(Group { args, command }) => {
            jobs::run(&client(&args)?, &args.shown(), command).await?;
        }
        Command::Erase { args, wish } => {
            erase::run(&client(&args)?, &args.shown(), wish).await?;
        }
        Command::Archive(Group { args, command }) => {
            return archive::run(&client(&args)?, &args.shown(), command).await;
        }
        Command::Audit { args, asked } => {
            audit::run(&client(&args)?, &args.shown(), asked).await?;
        }
        Command::Import { args, file } => {
            return Ok(import::run(&args, &file).await);
        }
        Command::CheckStatus { args, asked } => {
            return Ok(check_status::run(&args, &asked).await);
        }
        Command::Totals { args, day } => {
            accounts::totals(&client(&args)?, &args.shown(), day).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
