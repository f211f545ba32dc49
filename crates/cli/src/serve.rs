//! `tollgate serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tollgate_sandbox::{Bank, BankOptions, Faults, WEBHOOK_SECRET};
use tollgate_server::{Config, Log, Tollgate};

use crate::sandbox::read_faults;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file. Keys that are not set keep their documented default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override `listen`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Override `store.url`, e.g. sqlite:tollgate.db.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Serve the API without the console.
    #[arg(long)]
    no_console: bool,
    /// Apply new rules even if they stop more than 100 waiting payments.
    #[arg(long)]
    confirm_rules: bool,
    /// Start a sandbox bank in this process and send everything to it.
    #[arg(long)]
    sandbox: bool,
    /// With --sandbox: the bank's limit in requests per second.
    #[arg(
        long,
        value_name = "PER_SECOND",
        default_value_t = 50,
        requires = "sandbox",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    sandbox_limit: u32,
    /// With --sandbox: faults to inject, as a file or as text: "1 in 50: reset after".
    #[arg(long, value_name = "FILE|SPEC", requires = "sandbox")]
    sandbox_faults: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = Config::read(args.config.as_deref())?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if let Some(store) = args.store {
        config.store.url = store;
    }
    config.http.console &= !args.no_console;
    config.confirm_rules = args.confirm_rules;
    config.validate()?;
    let log = Log::start(&config.telemetry)?;
    let faults = match &args.sandbox_faults {
        Some(given) => read_faults("--sandbox-faults", given)?,
        None => Faults::default(),
    };
    let bank = if args.sandbox {
        Some(start_bank(args.sandbox_limit, &faults, config.listen)?)
    } else {
        None
    };
    if let Some(bank) = &bank {
        config.downstream.send_all_to(&bank.url());
        let receiver = format!("{}/webhooks", bank.url());
        config.downstream.tell_only(&receiver, WEBHOOK_SECRET);
        config.check_at(&bank.url());
    }
    // The port first: if it is taken, nothing has been started.
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!(
            "listen: {} is already in use; stop the process that uses it, or set another address with --listen",
            config.listen
        )
    })?;
    let address = listener.local_addr()?;
    config.listen = address;
    let tollgate = Tollgate::start(&config).await?;
    tracing::info!(%address, store = config.store.shown(), bank = config.downstream.payments.url, "serving");
    tollgate.serve(listener, asked_to_stop()?).await?;
    tracing::info!("stopped");
    log.stop();
    Ok(ExitCode::SUCCESS)
}

/// On the port after our own, so that a restart finds it where it was: webhooks that were not delivered yet, and payments
/// in doubt, are for that address. With any port of our own, or if that one is taken, on any.
fn start_bank(limit: u32, faults: &Faults, beside: SocketAddr) -> anyhow::Result<Bank> {
    let at = |port| BankOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        limit_per_second: Some(limit),
        faults: faults.clone(),
        ..BankOptions::default()
    };
    let kept = beside.port().checked_add(1).filter(|_| beside.port() != 0);
    let bank = match kept.map(|port| (port, Bank::start(at(port)))) {
        Some((_, Ok(bank))) => bank,
        Some((port, Err(error))) => {
            tracing::warn!(%error, port, "the usual port of the sandbox bank is in use; it listens on another one");
            Bank::start(at(0))?
        }
        None => Bank::start(at(0))?,
    };
    tracing::info!(
        url = bank.url(),
        limit,
        "sandbox bank; GET /sandbox/ledger shows the payments, GET /sandbox/webhooks the webhooks"
    );
    Ok(bank)
}

/// Resolves on SIGTERM or Ctrl-C.
pub(crate) fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
