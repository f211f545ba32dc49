//! `tollgate sandbox`: the fake bank alone, for drills against a Tollgate that runs elsewhere. It
//! also reads the flags that say how a fake bank behaves, which `serve --sandbox` shares.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tollgate_sandbox::{Bank, BankOptions, Dialect, Faults, Summary, WEBHOOK_SECRET};

use crate::serve::asked_to_stop;
use crate::talk::say;

const SPEC_HELP: &str = "\
Faults: write each as WHICH: FAULT, and separate several by ';' or newlines.
  WHICH  [1 in N] sends|probes|webhooks|lookups|notifies|checks|all
         [N | N-M | N-] [of payment ID | of each payment]
  FAULT  latency TIME, work TIME, settle TIME, forget-key TIME,
         with TIME as 20ms, 2s or 5m; decline (charges only); or
         STATUS, reset, stall, half, garbage, empty, wrong-id, wrong-amount
         or huge, each [before|after] the work
Reference: docs/sandbox.md";

#[derive(Debug, clap::Args)]
#[command(after_help = SPEC_HELP)]
pub(crate) struct Args {
    /// Listen address; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// The bank's limit: maximum number of requests in any second. It refuses more.
    #[arg(
        long,
        value_name = "PER_SECOND",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    limit: u32,
    /// API to emulate: the contract in docs/bank.md, Stripe transfers, or PayPal payouts.
    #[arg(long = "as", value_name = "API", default_value = "contract")]
    speaks: Speaks,
    /// With --as paypal: lifetime of OAuth tokens in seconds.
    #[arg(long, value_name = "SECS", default_value_t = 32_400, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    token_secs: u32,
    /// Random seed for faults with a probability ("1 in N").
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Faults to inject, as a file or as text: "send 3: reset after; 1 in 50: stall".
    #[arg(long, value_name = "FILE|SPEC")]
    faults: Option<String>,
    /// Delay every answer; shorthand for the fault "all: latency".
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=86_400_000))]
    latency_ms: Option<u32>,
    /// Forget idempotency keys after this time, so that a repeat pays twice; shorthand for "sends: forget-key".
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(..=86_400))]
    forget_keys_after: Option<u32>,
    /// Delay until status queries find a payment; shorthand for "sends: settle".
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(..=86_400))]
    settle: Option<u32>,
    /// Close connections that are idle for this long. Default: keep them open.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400_000))]
    close_idle_ms: Option<u32>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Speaks {
    Contract,
    Stripe,
    Paypal,
}

impl Speaks {
    fn dialect(self) -> Dialect {
        match self {
            Self::Contract => Dialect::Contract,
            Self::Stripe => Dialect::Stripe,
            Self::Paypal => Dialect::Paypal,
        }
    }

    /// What a configuration says of this bank, besides its URL and its lane.
    fn configuration(self, url: &str) -> String {
        match self {
            Self::Contract => format!("TOLLGATE_DOWNSTREAM__PAYMENTS__URL={url} tollgate serve"),
            Self::Stripe => format!(
                "[downstream.payments] url = \"{url}\", description = \"stripe-transfers\", login = {{kind = \"bearer\", token = \"sk_test_1\"}}"
            ),
            Self::Paypal => format!(
                "[downstream.payments] url = \"{url}\", description = \"paypal-payouts\", login = {{kind = \"oauth2\", token_url = \"{url}/v1/oauth2/token\", client_id = \"me\", client_secret = \"secret\"}}"
            ),
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let bank = Bank::start(BankOptions {
        listen: args.listen,
        limit_per_second: Some(args.limit),
        seed: args.seed,
        faults: args.faults()?,
        close_idle_after: args
            .close_idle_ms
            .map(|ms| Duration::from_millis(ms.into())),
        speaks: args.speaks.dialect(),
        tokens_live: Duration::from_secs(args.token_secs.into()),
        ..BankOptions::default()
    })?;
    let stop = asked_to_stop()?;
    announce(&bank, args.limit, args.speaks);
    stop.await;
    let ledger = bank.ledger().clone();
    bank.stop().await;
    say(&in_short(&ledger.summary()));
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The flags stand behind the spec: what it says about single arrivals goes first.
    fn faults(&self) -> anyhow::Result<Faults> {
        let spec = match &self.faults {
            Some(given) => read_faults("--faults", given)?,
            None => Faults::default(),
        };
        let flags = [
            self.latency_ms.map(|ms| format!("all: latency {ms}ms")),
            self.forget_keys_after
                .map(|secs| format!("sends: forget-key {secs}s")),
            self.settle.map(|secs| format!("sends: settle {secs}s")),
        ];
        let flags: Vec<String> = flags.into_iter().flatten().collect();
        Ok(spec.and_then(flags.join("\n").parse()?))
    }
}

/// A file of that name, or else the text itself. A rule has a colon and a space, which few file
/// names do.
pub(crate) fn read_faults(flag: &str, given: &str) -> anyhow::Result<Faults> {
    let is_file = Path::new(given).is_file();
    if !is_file && !given.contains(": ") {
        anyhow::bail!(
            "{flag}: \"{given}\" is neither a file nor a rule such as \"send 3: reset after\""
        );
    }
    let (text, place) = if is_file {
        let text = std::fs::read_to_string(given).with_context(|| format!("{flag}: {given}"))?;
        (text, format!("{flag}: {given}"))
    } else {
        (given.to_owned(), flag.to_owned())
    };
    text.parse().context(place)
}

/// The address is data, for scripts; the rest is talk.
#[expect(clippy::print_stdout, reason = "data goes to stdout")]
fn announce(bank: &Bank, limit: u32, speaks: Speaks) {
    let url = bank.url();
    let configuration = speaks.configuration(&url);
    println!("{url}");
    say(&format!(
        "sandbox bank on {url}, at most {limit} in any second\n\
         configure Tollgate:  {configuration}\n\
         ledger:              curl {url}/sandbox/ledger      (every arrival: ?entries=true)\n\
         webhooks:            curl {url}/sandbox/webhooks    (notify {url}/webhooks with the secret {WEBHOOK_SECRET})\n\
         faults:              curl {url}/sandbox/faults      (change it: -X PUT -d 'send 3: reset after')\n\
         reset:               curl -X DELETE {url}/sandbox/ledger"
    ));
}

fn in_short(summary: &Summary) -> String {
    let Summary {
        arrivals,
        effective,
        doubles,
        refused,
        worst_second_count,
        ..
    } = summary;
    format!(
        "{arrivals} arrivals, {effective} payments took effect, {doubles} of them more than once; \
         {refused} refused, worst second {worst_second_count}"
    )
}
