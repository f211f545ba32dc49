//! Traces: what happened to one payment, from intake to the bank, as OpenTelemetry spans.
//!
//! A payment waits for hours in a queue and is worked on by several processes. So that its spans
//! meet in one trace without being stored anywhere, the trace's id is computed from the payment's
//! own: everybody who works on it arrives at the same. The span at the top of the trace is only a
//! name for that and is never sent.

use std::time::Duration;

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use sha2::{Digest, Sha256};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{self, Layer};
use tracing_subscriber::registry::LookupSpan;

/// How long the collector may take for a batch, and the last batch when the process stops.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Turns spans of ours that say which flow or item they are about, and what lies inside them, into
/// OpenTelemetry's.
pub(super) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Traces {
    /// Needs a running tokio runtime. A collector that is away is tried again; spans are dropped meanwhile.
    pub(super) fn to(url: &str, share: f64) -> anyhow::Result<Self> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(url)
            .with_timeout(EXPORT_TIMEOUT)
            .build()?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            // By the trace's id, hence the same for all who work on a payment.
            .with_sampler(Sampler::TraceIdRatioBased(share))
            .with_resource(Resource::builder().with_service_name("tollgate").build())
            .build();
        let tracer = provider.tracer("tollgate");
        Ok(Self { provider, tracer })
    }

    pub(super) fn provider(&self) -> SdkTracerProvider {
        self.provider.clone()
    }
}

/// What is known of an open span.
struct Open(Context);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: layer::Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut said = Said::default();
        attributes.record(&mut said);
        let within = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Open>().map(|open| open.0.clone()));
        let Some(parent) = within.or_else(|| said.about.as_deref().map(root)) else {
            return;
        };
        let name = said
            .name
            .unwrap_or_else(|| attributes.metadata().name().to_owned());
        let builder = self
            .tracer
            .span_builder(name)
            .with_attributes(said.attributes);
        let started = self.tracer.build_with_context(builder, &parent);
        let open = Open(parent.with_span(started));
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: layer::Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        let mut said = Said::default();
        values.record(&mut said);
        if let Some(open) = span.extensions().get::<Open>() {
            open.0.span().set_attributes(said.attributes);
        }
    }

    fn on_close(&self, id: Id, ctx: layer::Context<'_, S>) {
        let Some(span) = ctx.span(&id) else { return };
        if let Some(open) = span.extensions_mut().remove::<Open>() {
            open.0.span().end();
        }
    }
}

/// Only our own spans, whatever the log shows.
pub(super) fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("tollgate")
}

/// The fields of a span. `flow` and `item` say what it is about, `step` is a better name.
#[derive(Default)]
struct Said {
    about: Option<String>,
    name: Option<String>,
    attributes: Vec<KeyValue>,
}

impl Said {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "flow" | "item" => self.about = Some(value.clone()),
            "step" => self.name = Some(value.clone()),
            _ => {}
        }
        let key = format!("tollgate.{}", field.name());
        self.attributes.push(KeyValue::new(key, value));
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

/// The top of the trace of whatever a flow or an item is about.
fn root(about: &str) -> Context {
    let digest = Sha256::digest(subject(about).as_bytes());
    let (mut trace, mut span) = ([0; 16], [0; 8]);
    trace.copy_from_slice(&digest[..16]);
    span.copy_from_slice(&digest[16..24]);
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    let flags = TraceFlags::SAMPLED;
    let root = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    Context::new().with_remote_span_context(root)
}

/// `payment-pay_1` for the item PAYMENT/pay_1, its init flows and its exec flows of any run.
fn subject(about: &str) -> String {
    if let Some((item_type, id)) = about.split_once('/') {
        return format!("{}-{id}", item_type.to_ascii_lowercase());
    }
    let flow = about
        .strip_prefix("init-")
        .or_else(|| about.strip_prefix("exec-"))
        .unwrap_or(about);
    let (subject, _run) = flow.split_once('~').unwrap_or((flow, ""));
    subject.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_work_on_a_payment_arrive_at_the_same_trace() {
        let all = [
            "PAYMENT/pay_1",
            "init-payment-pay_1",
            "init-payment-pay_1~2",
            "exec-payment-pay_1",
            "exec-payment-pay_1~7",
        ];
        for about in all {
            assert_eq!(subject(about), "payment-pay_1", "{about}");
        }
        let trace = |about| root(about).span().span_context().trace_id();
        assert_eq!(trace(all[0]), trace(all[4]));
        assert_ne!(trace("PAYMENT/pay_1"), trace("PAYMENT/pay_2"));
        assert_ne!(trace("PAYMENT/42"), trace("INVOICE/42"));
    }
}
