//! The log: one line per event to stderr, for people or for machines, and the traces beside it.

use std::io::IsTerminal;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tollgate_config::{LogFormat, Telemetry};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use super::traces::{Traces, is_ours};

/// Stops log and traces when the process ends: what is still in memory goes to the collector.
#[derive(Debug, Default)]
pub struct Log(Option<SdkTracerProvider>);

impl Log {
    /// Starts logging as configured; `RUST_LOG` decides how much. Needs a running tokio runtime.
    pub fn start(telemetry: &Telemetry) -> anyhow::Result<Self> {
        let traces = if telemetry.otlp_url.is_empty() {
            None
        } else {
            Some(Traces::to(&telemetry.otlp_url, telemetry.trace_share)?)
        };
        let provider = traces.as_ref().map(Traces::provider);
        tracing_subscriber::registry()
            .with(lines(telemetry.log_format).with_filter(how_much("info")))
            .with(traces.map(|traces| traces.with_filter(filter_fn(is_ours))))
            .init();
        Ok(Self(provider))
    }

    /// For a command that is not a server: what goes wrong, as text.
    pub fn of_a_command() {
        tracing_subscriber::registry()
            .with(lines(LogFormat::Text).with_filter(how_much("error")))
            .init();
    }

    /// Sends what is left. Bounded in time.
    pub fn stop(self) {
        if let Some(provider) = self.0 {
            // A collector that is away must not keep the process from ending well.
            let _ = provider.shutdown();
        }
    }
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    }
}

/// `RUST_LOG`, else `default`. Never so much that a driver writes down what is in a payment: at
/// debug, the one of PostgreSQL logs the parameters of its statements.
fn how_much(default: &str) -> EnvFilter {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let quiet = ["tokio_postgres=info", "h2=info", "hyper=info"];
    quiet
        .into_iter()
        .fold(filter, |filter, directive| match directive.parse() {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter.add_directive(LevelFilter::ERROR.into()),
        })
}
