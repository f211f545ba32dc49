//! `tollgate demo`: a storm of payments on a sandbox bank, watched live and proved at the end.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rust_decimal::Decimal;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate_core::actor;
use tollgate_core::id::{FlowId, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Store};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_domains::payments::{self, Intake, Verdict};
use tollgate_sandbox::{Bank, BankOptions, Ledger};
use tollgate_server::{Config, Tollgate};

use crate::feed::Feed;
use crate::report::Report;
use crate::serve::asked_to_stop;
use crate::talk::{bar, say};

const WINDOW_SECS: u32 = 4;
const LANE: &str = "default";
/// Time from the first accepted payment to the second in which all are due.
const LEAD_SECS: i64 = 3;
/// A storm that has not ended this long after its planned finish is reported as it is.
const SLACK: SignedDuration = SignedDuration::from_mins(1);
/// How often the screen is brought up to date.
const LOOK: Duration = Duration::from_millis(200);
/// Without a terminal, a line this often.
const LINE_EVERY: u32 = 25;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of payments due in the same second.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    payments: u32,
    /// The bank's limit: maximum number of requests in any second. It refuses more.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=5000))]
    limit: u32,
    /// Random seed; the same seed generates the same payments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the console running after the demo, until Ctrl-C.
    #[arg(long)]
    stay: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir().context("a folder for the demo's database")?;
    let bank = Bank::start(BankOptions {
        limit_per_second: Some(args.limit),
        ..BankOptions::default()
    })?;
    let mut config = Config::load(None)?;
    config.store.url = format!("sqlite:{}", folder.path().join("demo.db").display());
    config.downstream.send_all_to(&bank.url());
    config.check_at(&bank.url());
    config.downstream.payments.lane = LaneName::new(LANE);
    let tollgate = Tollgate::start(&config).await?;
    let (store, intake) = (Arc::clone(tollgate.store()), Arc::clone(tollgate.intake()));
    set_limit(&*store, args.limit).await?;
    let console = Console::open(tollgate).await?;

    say(&format!(
        "{} payments, all due in the same second, for a bank that accepts {} a second (seed {})",
        args.payments, args.limit, args.seed
    ));
    say(&format!("watch it at {}", console.url));
    let started = store.now().await?;
    let due = Timestamp::from_second(started.as_second() + LEAD_SECS)?;
    let last_slot = take_in(&intake, &args, due).await?;
    let planned = last_slot.duration_since(due);
    say(&format!(
        "due at {due}, planned to finish at {last_slot} ({:.0} s later)",
        planned.as_secs_f64()
    ));
    watch(&*store, bank.ledger(), &args, started, last_slot).await?;

    let report = Report::make(&*store, bank.ledger(), &args.expected(started)).await?;
    report.print();
    if args.stay {
        console.stay().await?;
    } else {
        console.close().await?;
    }
    bank.stop().await;
    Ok(if report.all_well() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What serves the console meanwhile, at a free port: another Tollgate may have the usual one.
struct Console {
    url: String,
    served: JoinHandle<anyhow::Result<()>>,
    stop: oneshot::Sender<()>,
}

impl Console {
    async fn open(tollgate: Tollgate) -> anyhow::Result<Self> {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(free)
            .await
            .context("a port for the console")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let served = tollgate.serve(listener, async {
            let _ = stopped.await;
        });
        Ok(Self {
            url,
            served: tokio::spawn(served),
            stop,
        })
    }

    /// Until somebody ends it.
    async fn stay(mut self) -> anyhow::Result<()> {
        let stop = asked_to_stop()?;
        say(&format!(
            "the console stays open at {}; Ctrl-C ends it",
            self.url
        ));
        let ended = tokio::select! {
            () = stop => None,
            ended = &mut self.served => Some(ended),
        };
        match ended {
            None => self.close().await,
            Some(ended) => ended?,
        }
    }

    async fn close(self) -> anyhow::Result<()> {
        let _ = self.stop.send(());
        self.served.await?
    }
}

impl Args {
    fn expected(&self, started: Timestamp) -> crate::report::Expected {
        crate::report::Expected {
            payments: u64::from(self.payments),
            limit: self.limit,
            lane: LaneName::new(LANE),
            since: started - SignedDuration::from_secs(60),
        }
    }
}

async fn set_limit(store: &dyn Store, limit: u32) -> anyhow::Result<()> {
    let change = LaneChange {
        max_per_window: Some(limit * WINDOW_SECS),
        window_size_secs: Some(WINDOW_SECS),
        max_per_second: Some(Decimal::from(limit)),
        ..LaneChange::default()
    };
    let author = Author::new(actor::DEMO, "the bank's limit");
    store
        .change_lane(&LaneName::new(LANE), change, author)
        .await?;
    Ok(())
}

/// Takes the feed in, in batches; returns the last slot that was given.
async fn take_in(intake: &Intake, args: &Args, due: Timestamp) -> anyhow::Result<Timestamp> {
    let bar = bar(args.payments.into(), "intake {bar:40} {pos}/{len} {msg}");
    let mut feed = Feed::new(args.seed, args.payments, due);
    let mut last_slot = due;
    for number in 1_u32.. {
        let batch = feed.batch(payments::MAX_BATCH)?;
        if batch.is_empty() {
            break;
        }
        let flow = FlowId::new(format!("init-payment-demo-batch-{number}"));
        let size = batch.len() as u64;
        let answers = intake
            .accept_batch(&flow, batch, Duration::from_mins(1))
            .await?;
        for answer in answers.context("intake did not answer within a minute")? {
            let Verdict::Scheduled { placed, .. } = answer.verdict else {
                anyhow::bail!("the generated feed was refused: {:?}", answer.verdict);
            };
            last_slot = last_slot.max(placed.scheduled);
        }
        bar.inc(size);
    }
    bar.finish();
    Ok(last_slot)
}

/// Shows the storm until every payment has ended.
async fn watch(
    store: &dyn Store,
    ledger: &Ledger,
    args: &Args,
    started: Timestamp,
    last_slot: Timestamp,
) -> anyhow::Result<()> {
    let give_up_at = last_slot + SLACK;
    let bar = bar(args.payments.into(), "sent   {bar:40} {pos}/{len} {msg}");
    let expected = args.expected(started);
    for look in 0_u32.. {
        let (sent, worst) = (ledger.arrivals(), ledger.worst_second().count);
        bar.set_position(sent as u64);
        bar.set_message(format!("worst second so far {worst} of {}", args.limit));
        if bar.is_hidden() && look % LINE_EVERY == 0 {
            say(&format!(
                "sent {sent}/{}, worst second so far {worst} of {}",
                args.payments, args.limit
            ));
        }
        if sent >= args.payments as usize && ended(store, &expected).await? == expected.payments {
            break;
        }
        if store.now().await? > give_up_at {
            say("not all payments ended in time; see which check failed below");
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    bar.finish();
    Ok(())
}

async fn ended(store: &dyn Store, expected: &crate::report::Expected) -> anyhow::Result<u64> {
    let totals = store
        .totals(&payments::item_type(), expected.since, Timestamp::MAX)
        .await?;
    let processing = payments::PaymentStatus::Processing.as_str();
    Ok(totals
        .iter()
        .filter(|total| total.status == processing)
        .map(|total| total.count)
        .sum())
}
