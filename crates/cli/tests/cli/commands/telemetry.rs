//! What the log and the traces tell, and what they never tell.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tollgate_conformance::postgres::{self, Cluster};
use tollgate_sandbox::{Bank, BankOptions, Faults};
use tonic::transport::server::TcpIncoming;

use crate::fixture::footing::LONG;
use crate::fixture::http::{get, post};
use crate::fixture::pair::pair_on;
use crate::fixture::served::{Served, Setting, eventually};

/// Words that only a payment's parties have, and that nobody else may read.
const SECRETS: [&str; 5] = [
    "DE-SECRET-1",
    "Ada-Secret",
    "GB-SECRET-2",
    "Bob-Secret",
    "Bearer-Secret",
];

fn payment(id: &str) -> Value {
    json!({
        "paymentId": id, "amount": "10.00", "currency": "USD",
        "debtor": {"account": SECRETS[0], "name": SECRETS[1]},
        "creditor": {"account": SECRETS[2], "name": SECRETS[3]},
    })
}

fn bank(runtime: &Runtime, faults: &str) -> Bank {
    let _inside = runtime.enter();
    let faults = faults.parse::<Faults>().unwrap();
    Bank::start(BankOptions {
        faults,
        ..BankOptions::default()
    })
    .unwrap()
}

fn until_status(server: &Served, id: &str, wanted: &str) {
    eventually(id, Duration::from_secs(30), || {
        let told = get(server.address, &format!("/payments/{id}")).ok()?;
        (told.body["status"] == wanted).then_some(())
    });
}

/// A collector that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources.into_iter().flat_map(|r| r.scope_spans);
        self.0.lock().unwrap().extend(scopes.flat_map(|s| s.spans));
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn listen(&self, runtime: &Runtime) -> String {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(self.clone());
        let incoming = TcpIncoming::from(listener);
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        format!("http://{address}")
    }
}

#[test]
fn a_payment_is_one_trace_from_intake_to_bank() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, "");
    let collector = Collector::default();
    let url = collector.listen(&runtime);
    let setting = Setting::new(&bank, &format!("telemetry.otlp_url = \"{url}\"\n"));
    let server = setting.start("127.0.0.1:0");
    for id in ["one", "two"] {
        assert_eq!(
            post(server.address, "/payments", &payment(id))
                .unwrap()
                .status,
            201
        );
    }
    for id in ["one", "two"] {
        until_status(&server, id, "PROCESSING");
    }
    assert_eq!(
        server.stop(),
        Some(0),
        "its last spans go out before it ends"
    );

    let spans = collector.0.lock().unwrap();
    let mut traces: BTreeMap<&[u8], BTreeSet<&str>> = BTreeMap::new();
    for span in spans.iter() {
        traces.entry(&span.trace_id).or_default().insert(&span.name);
        for secret in SECRETS {
            assert!(!format!("{span:?}").contains(secret), "{span:?}");
        }
    }
    let road = [
        "accept",
        "admit",
        "exchange",
        "execute_payment",
        "prepare",
        "turn",
    ];
    // The answer does not differ and no receiver is configured, so the answer ends a payment. The flow that executes both has a trace of
    // its own.
    traces.retain(|_, names| !names.contains("execute_payments"));
    assert_eq!(traces.len(), 2, "a trace per payment: {traces:?}");
    // What the store and the connection to the bank took of each.
    let parts = BTreeSet::from([
        "connect",
        "lease",
        "read",
        "statement",
        "transaction",
        "write",
    ]);
    for names in traces.values() {
        assert_eq!(names.difference(&parts).copied().collect::<Vec<_>>(), road);
        for part in ["lease", "statement", "transaction", "write"] {
            assert!(names.contains(part), "no {part} in {names:?}");
        }
    }
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (&span.span_id, span)).collect();
    let exchange = spans.iter().find(|span| span.name == "exchange").unwrap();
    assert_eq!(by_id[&exchange.parent_span_id].name, "execute_payment");
    let told = format!("{:?}", exchange.attributes);
    assert!(
        told.contains("tollgate.outcome") && told.contains("DONE"),
        "{told}"
    );
}

#[test]
fn the_log_is_lines_of_json_with_ids_and_without_accounts() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, "send 2: garbage\nsend 5: 500 after");
    let cluster = Cluster::start();
    let extra = format!(
        "telemetry.log_format = \"json\"\ndownstream.payments.headers = {{\"Authorization\" = \"{}\"}}\n",
        SECRETS[4]
    );
    let setting = Setting::on(&runtime.block_on(cluster.database()), &bank, &extra);
    let server = Served::start_in(&[("RUST_LOG", "trace")], &setting.config("127.0.0.1:0"));
    for n in 0..6 {
        let answer = post(server.address, "/payments", &payment(&format!("p{n}"))).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    for n in 0..6 {
        until_status(&server, &format!("p{n}"), "PROCESSING");
    }
    let log = server.log();
    let mut with_ids = 0;
    for line in &log {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(
            event["timestamp"].is_string() && event["level"].is_string(),
            "{line}"
        );
        with_ids += u32::from(event["item"].is_string());
        for secret in SECRETS {
            assert!(!line.contains(secret), "{secret} is in the log: {line}");
        }
    }
    assert!(
        with_ids > 0,
        "no event of {} says which item it is about",
        log.len()
    );
}

#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, "");
    let setting = Setting::new(&bank, "telemetry.otlp_url = \"http://127.0.0.1:9\"\n");
    let server = setting.start("127.0.0.1:0");
    assert_eq!(
        post(server.address, "/payments", &payment("one"))
            .unwrap()
            .status,
        201
    );
    until_status(&server, "one", "PROCESSING");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_bank_that_says_another_amount_is_counted_logged_and_told_of_its_payment() {
    let runtime = Runtime::new().unwrap();
    let bank = bank(&runtime, "sends of payment other: wrong-amount");
    let setting = Setting::new(&bank, "");
    let server = setting.start("127.0.0.1:0");
    let differ = |count: u32| {
        let metrics = get(server.address, "/metrics").unwrap().text;
        let line = format!("tollgate_answers_differ_total{{lane=\"default\"}} {count}\n");
        assert!(metrics.contains(&line), "{metrics}");
    };
    differ(0);
    for id in ["same", "other"] {
        let answer = post(server.address, "/payments", &payment(id)).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
        until_status(&server, id, "PROCESSING");
    }
    differ(1);
    let metrics = get(server.address, "/metrics").unwrap().text;
    for (kind, outcome, count) in [
        ("send", "done", 2),
        ("send", "unknown", 0),
        ("probe", "done", 0),
    ] {
        let labels = format!("lane=\"default\",kind=\"{kind}\",outcome=\"{outcome}\"");
        let line = format!("tollgate_sends_total{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    let told = |id: &str| {
        let shown = get(server.address, &format!("/payments/{id}")).unwrap();
        let told = "the bank's answer differs: amount: sent 10.00, the bank reported 110.00";
        shown.body["timeline"].to_string().contains(told)
    };
    assert_eq!((told("same"), told("other")), (false, true));
    eventually("the log says so", LONG, || {
        let log = server.log();
        let line = log.iter().find(|line| line.contains("answer differs"))?;
        assert!(line.contains("PAYMENT/other") && line.contains("ERROR"));
        Some(())
    });
}

#[test]
fn a_reconciliation_by_hand_is_counted_and_logged() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(postgres::shared().database());
    let pair = pair_on(&url, "");
    let lane = json!({"reason": "nothing is sent"});
    post(pair.server.address, "/admin/lanes/default/pause", &lane).unwrap();
    let taken = post(pair.server.address, "/payments", &payment("p")).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.body);
    let wrong = "INSERT INTO lane_window (lane, generation, window_start, used)
                 SELECT lane, generation, window_start + 3600000000, 5 FROM lane_window LIMIT 1";
    runtime.block_on(postgres::sql(&url, wrong));
    let path = "/admin/lanes/default/reconcile";
    let put_right = post(pair.server.address, path, &json!({})).unwrap();
    assert_eq!(put_right.body["windowsCorrected"], 1, "{}", put_right.body);
    let told = get(pair.server.address, "/metrics").unwrap().text;
    let counted = "tollgate_windows_corrected_total{lane=\"default\"} 1\n";
    assert!(told.contains(counted), "{told}");
    let log = pair.server.log();
    assert!(
        log.iter().any(|line| line.contains("counters differed")),
        "{log:?}"
    );
}

/// The metrics that are described where the recorder is.
fn described() -> BTreeSet<String> {
    metrics_in(include_str!("../../../../server/src/telemetry/names.rs"))
}

fn metrics_in(text: &str) -> BTreeSet<String> {
    let ours = |word: &&str| {
        ["tollgate_", "dispatch_", "rate_limiter_"]
            .iter()
            .any(|start| word.starts_with(start))
    };
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(ours)
        .map(|word| word.trim_end_matches("_bucket").to_owned())
        .filter(|word| !word.ends_with('_'))
        .collect()
}

#[test]
fn rules_dashboard_and_handbook_name_the_metrics_that_there_are() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let read = |file: &str| std::fs::read_to_string(format!("{docs}/{file}")).unwrap();
    for file in ["monitoring/alerts.yml", "monitoring/dashboard.json"] {
        let unknown: Vec<_> = metrics_in(&read(file))
            .difference(&described())
            .cloned()
            .collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
    let mut handbook = metrics_in(&read("operations.md"));
    assert!(handbook.remove("dispatch_audit_log"), "it is a view");
    assert_eq!(handbook, described(), "docs/operations.md has them all");
}

#[test]
fn every_alert_has_its_page_in_the_handbook() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let handbook = std::fs::read_to_string(format!("{docs}/operations.md")).unwrap();
    let pages: BTreeSet<String> = handbook
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|title| title.to_lowercase().replace(' ', "-").replace(',', ""))
        .collect();
    let alerts = std::fs::read_to_string(format!("{docs}/monitoring/alerts.yml")).unwrap();
    let named = alerts.split("operations.md#").skip(1);
    for page in named.map(|rest| rest.split('"').next().unwrap()) {
        assert!(pages.contains(page), "no page {page:?} in {pages:?}");
    }
}

#[test]
fn promtool_accepts_the_alert_rules_and_they_fire() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring");
    let promtool = std::env::var("TGTEST_PROMTOOL").unwrap_or_else(|_| {
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../.dev/prometheus/usr/bin/promtool"
        )
        .to_owned()
    });
    let asked = [
        &["check", "rules", "alerts.yml"][..],
        &["test", "rules", "alerts_test.yml"],
        &["check", "config", "--syntax-only", "prometheus.yml"],
    ];
    for words in asked {
        let said = Command::new(&promtool)
            .args(words)
            .current_dir(folder)
            .output()
            .expect("no promtool: run ./dev setup");
        let words = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{words}");
    }
}
