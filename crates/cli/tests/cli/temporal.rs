//! The production footing through the binary: PostgreSQL and a real Temporal server.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::shared;
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::id::FlowId;
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_temporal::{Server, record};

use crate::database_trouble::{payment, posted};
use crate::http::{get, post};
use crate::invoices::charged_once;
use crate::served::{BINARY, Setting, eventually};

/// More than anything takes on a busy machine.
const LONG: Duration = Duration::from_mins(1);

struct Footing {
    runtime: tokio::runtime::Runtime,
    database: String,
    bank: Bank,
}

impl Footing {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(shared().database());
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        Self {
            runtime,
            database,
            bank,
        }
    }

    fn setting(&self, temporal: &TemporalServer, extra: &str) -> Setting {
        let engine = format!("engine.url = \"{}\"\n{extra}", temporal.url());
        Setting::on(&self.database, &self.bank, &engine)
    }
}

fn shown(address: SocketAddr, id: &str) -> Option<Value> {
    let answer = get(address, &format!("/payments/{id}")).ok()?;
    (answer.status == 200).then_some(answer.body)
}

/// Waits for a payment's end and returns what is shown of it.
fn ended(address: SocketAddr, id: &str) -> Value {
    eventually(&format!("{id} ends"), LONG, || {
        shown(address, id).filter(|payment| payment["status"] == "PROCESSING")
    })
}

fn ready(address: SocketAddr) -> u16 {
    get(address, "/health/ready").map_or(0, |answer| answer.status)
}

#[test]
fn a_payment_runs_on_temporal_and_postgresql() {
    let footing = Footing::new();
    let temporal = TemporalServer::start();
    let server = footing.setting(&temporal, "").start("127.0.0.1:0");
    let answer = post(server.address, "/payments", &payment("pay_1")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(answer.body["initWorkflowId"], "init-payment-pay_1");
    assert_eq!(posted(server.address, "pay_1"), 200, "the same again");
    let payment = ended(server.address, "pay_1");
    assert_eq!(payment["execWorkflowId"], "exec-payment-pay_1", "{payment}");
    let effective = footing.bank.ledger().effective();
    assert_eq!(effective.get("pay_1"), Some(&1));

    let invoice = charged_once(server.address, &footing.bank);
    assert_eq!(invoice["execWorkflowId"], "exec-invoice-inv_1", "{invoice}");

    // As Temporal's own tools show it.
    let flows = eventually("both flows are listed", LONG, || {
        let listed = temporal.ask(&["workflow", "list", "--limit", "50"])?;
        let types = [
            "PaymentInitWorkflow",
            "PaymentExecWorkflow",
            "DispatcherWorkflow",
        ];
        types
            .iter()
            .all(|name| listed.contains(name))
            .then_some(listed)
    });
    assert!(flows.contains("init-payment-pay_1"), "{flows}");
    let history = [
        "workflow",
        "show",
        "--workflow-id",
        "exec-payment-pay_1",
        "--output",
        "json",
    ];
    let history = temporal.ask(&history).unwrap();
    assert!(history.contains("\"execute_payment\""), "{history}");
    let local = history.matches("EVENT_TYPE_MARKER_RECORDED").count();
    assert_eq!(local, 2, "post_process and send_notifications: {history}");
    record_histories(&temporal);
    assert_eq!(server.stop(), Some(0), "a graceful stop is no failure");
}

/// With `TGTEST_HISTORIES=FOLDER`: what the replays of the Temporal engine's own tests are made of.
fn record_histories(temporal: &TemporalServer) {
    let Some(folder) = std::env::var_os("TGTEST_HISTORIES") else {
        return;
    };
    let query = "WorkflowType = 'DispatcherWorkflow' AND ExecutionStatus = 'Completed'";
    let round = eventually("a round is over", LONG, || {
        let list = [
            "workflow", "list", "--limit", "1", "--output", "json", "--query", query,
        ];
        let listed: Value = serde_json::from_str(&temporal.ask(&list)?).ok()?;
        let id = &listed.get(0)?["execution"]["workflowId"];
        Some(id.as_str()?.to_owned())
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::plain(&temporal.address(), "default", "recorder");
    for (id, file) in [
        ("init-payment-pay_1", "init-payment.json"),
        ("exec-payment-pay_1", "exec-payment.json"),
        (&round, "dispatch-payment.json"),
    ] {
        let history = runtime.block_on(record(&server, &FlowId::new(id))).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(file), history).unwrap();
    }
}

#[test]
fn with_keys_temporal_sees_no_account_and_a_new_key_takes_over() {
    let footing = Footing::new();
    let temporal = TemporalServer::start();
    let key = |name: &str, digit: &str| {
        format!("{{ name = \"{name}\", key = \"{}\" }}", digit.repeat(64))
    };
    let codec = |keys: &[String]| {
        let keys = keys.join(", ");
        footing.setting(
            &temporal,
            &format!("engine.temporal.codec_keys = [{keys}]\n"),
        )
    };
    let secret = |id: &str| {
        let mut payment = payment(id);
        payment["debtor"]["account"] = json!("DE89370400440532013000");
        payment
    };
    let server = codec(&[key("old", "1")]).start("127.0.0.1:0");
    let answer = post(server.address, "/payments", &secret("pay_1")).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    ended(server.address, "pay_1");
    for flow in ["init-payment-pay_1", "exec-payment-pay_1"] {
        let show = [
            "workflow",
            "show",
            "--output",
            "json",
            "--workflow-id",
            flow,
        ];
        let history = temporal.ask(&show).unwrap();
        assert!(
            history.contains("WORKFLOW_EXECUTION_COMPLETED"),
            "{history}"
        );
        assert!(
            history.contains("YmluYXJ5L2VuY3J5cHRlZA"),
            "binary/encrypted: {history}"
        );
        // As it is, and in base64 at each of its three places.
        for plain in [
            "DE89370400440532013000",
            "REU4OTM3MDQwMDQ0MDUz",
            "RFODkzNzA0MDA0NDA1Mz",
            "ERTg5MzcwNDAwNDQwNTM",
        ] {
            assert!(!history.contains(plain), "{plain} is in {history}");
        }
    }
    assert_eq!(server.stop(), Some(0));
    let server = codec(&[key("new", "2"), key("old", "1")]).start("127.0.0.1:0");
    assert_eq!(
        post(server.address, "/payments", &secret("pay_1"))
            .unwrap()
            .status,
        200
    );
    assert_eq!(
        post(server.address, "/payments", &secret("pay_2"))
            .unwrap()
            .status,
        201
    );
    ended(server.address, "pay_2");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_temporal_server_that_is_away_is_waited_for_and_nothing_dies_of_it() {
    let footing = Footing::new();
    let temporal = TemporalServer::not_yet_started();
    let server = footing.setting(&temporal, "").start("127.0.0.1:0");
    let address = server.address;
    assert_eq!(get(address, "/health/live").unwrap().status, 200);
    assert_eq!(ready(address), 503);
    assert_eq!(posted(address, "early"), 503);
    let said = server.said.join("\n");
    assert!(said.contains(&temporal.address()), "{said}");

    temporal.start_again();
    eventually("it is ready", LONG, || {
        (ready(address) == 200).then_some(())
    });
    assert_eq!(posted(address, "early"), 201);
    ended(address, "early");

    let because = json!({"reason": "to have something that waits"});
    let pause = post(address, "/admin/lanes/default/pause", &because).unwrap();
    assert_eq!(pause.status, 200, "{}", pause.body);
    assert_eq!(posted(address, "waiting"), 201);
    temporal.crash();
    eventually("it is not ready", LONG, || {
        (ready(address) == 503).then_some(())
    });
    let resume = post(address, "/admin/lanes/default/resume", &because).unwrap();
    assert_eq!(resume.status, 200, "{}", resume.body);
    assert_eq!(posted(address, "refused"), 503);
    assert_eq!(shown(address, "waiting").unwrap()["queueStatus"], "READY");
    temporal.start_again();
    assert_eq!(ended(address, "waiting")["run"], 1);
    assert_eq!(footing.bank.ledger().doubles(), Vec::<String>::new());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn each_process_does_what_its_roles_say() {
    let footing = Footing::new();
    let temporal = TemporalServer::start();
    let front = footing.setting(&temporal, "engine.roles = [\"api\", \"init\"]\n");
    let front = front.start("127.0.0.1:0");
    assert_eq!(posted(front.address, "pay_1"), 201, "taken in, not sent");
    let back = footing.setting(&temporal, "engine.roles = [\"dispatch\", \"exec\"]\n");
    let back = back.start("127.0.0.1:0");
    ended(front.address, "pay_1");
    let elsewhere = get(back.address, "/payments/pay_1").unwrap();
    assert_eq!(elsewhere.status, 404);
    let error = elsewhere.body["error"].as_str().unwrap();
    assert!(error.contains("does not serve the API"), "{error}");
    eventually("it is ready", LONG, || {
        (ready(back.address) == 200).then_some(())
    });
    assert_eq!(front.stop(), Some(0));
    assert_eq!(back.stop(), Some(0));
}

#[test]
fn starts_that_cannot_succeed_on_temporal_are_one_sentence() {
    let footing = Footing::new();
    let temporal = TemporalServer::start();
    let nowhere = format!("temporal://{}/nowhere", temporal.address());
    let table = [
        (
            footing.database.as_str(),
            nowhere.as_str(),
            "no namespace \"nowhere\"",
        ),
        ("sqlite:t.db", &temporal.url(), "SQLite"),
        (&footing.database, "temporal://somewhere", "engine.url"),
    ];
    for (store, engine, expected) in table {
        let output = Command::new(BINARY)
            .args([
                "serve",
                "--sandbox",
                "--listen",
                "127.0.0.1:0",
                "--store",
                store,
            ])
            .env("TOLLGATE_ENGINE__URL", engine)
            .env("RUST_LOG", "off")
            .output()
            .unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim().lines().count(), 1, "one sentence, not: {said}");
        assert!(said.contains(expected), "{said}");
    }
    drop(footing.runtime);
}
