//! The production footing through the binary: PostgreSQL and a real Temporal server.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_conformance::temporal::{Namespace, TemporalServer};
use tollgate_core::ports::{Author, SettingKind, Settings};
use tollgate_domains::payments;
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::billing::invoices::charged_once;
use crate::database::database_trouble::{payment, posted};
use crate::fixture::footing::{LONG, database, take_in};
use crate::fixture::http::{get, post, put};
use crate::fixture::served::{BINARY, Setting, eventually};

struct Place {
    runtime: tokio::runtime::Runtime,
    database: String,
    bank: Bank,
}

impl Place {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        Self {
            runtime,
            database: database(),
            bank,
        }
    }

    fn setting(&self, engine: &str, extra: &str) -> Setting {
        let engine = format!("engine.url = \"{engine}\"\n{extra}");
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
    let place = Place::new();
    let temporal = Namespace::create();
    let server = place.setting(&temporal.url(), "").start("127.0.0.1:0");
    for item_type in ["PAYMENT", "INVOICE"] {
        items_per_flow(server.address, item_type, 1);
    }
    let answer = take_in(server.address, &payment("pay_1"));
    assert_eq!(answer.body["initWorkflowId"], "init-payment-pay_1");
    assert_eq!(posted(server.address, "pay_1"), 200, "the same again");
    let payment = ended(server.address, "pay_1");
    assert_eq!(payment["execWorkflowId"], "exec-payment-pay_1", "{payment}");
    let effective = place.bank.ledger().effective();
    assert_eq!(effective.get("pay_1"), Some(&1));

    let invoice = charged_once(server.address, &place.bank);
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
    let about = [
        "workflow",
        "describe",
        "--workflow-id",
        "exec-payment-pay_1",
    ];
    let about = temporal.ask(&[&about[..], &["--output", "json"]].concat());
    let about: Value = serde_json::from_str(&about.unwrap()).unwrap();
    let memo = &about["workflowExecutionInfo"]["memo"]["fields"];
    assert_eq!(memo, &json!({"item": "PAYMENT/pay_1", "lane": "default"}));
    payments_move_to_another_task_queue(&place, &temporal, server.address);
    a_flow_of_several_names_its_items_only(&temporal, server.address);
    assert_eq!(server.stop(), Some(0), "a graceful stop is no failure");
}

fn items_per_flow(address: SocketAddr, item_type: &str, items: u32) {
    let wish = json!({"itemsPerFlow": items, "reason": "a test"});
    let path = format!("/admin/item-types/{item_type}");
    let answer = put(address, &path, &wish).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["itemsPerFlow"], items);
}

fn a_flow_of_several_names_its_items_only(temporal: &Namespace, address: SocketAddr) {
    items_per_flow(address, "PAYMENT", 50);
    let mut new = payment("pay_3");
    new["debtor"]["account"] = json!("DE89370400440532013000");
    take_in(address, &new);
    let payment = ended(address, "pay_3");
    let flow = payment["execWorkflowId"].as_str().unwrap();
    assert!(flow.starts_with("exec-payment-batch-BATCH-"), "{payment}");
    let about = ["workflow", "describe", "--output", "json", "--workflow-id"];
    let about = temporal.ask(&[&about[..], &[flow]].concat()).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    let batch = &payment["dispatchBatchId"];
    let memo = &about["workflowExecutionInfo"]["memo"]["fields"];
    assert_eq!(
        memo,
        &json!({"items": "1", "lane": "default", "batch": batch})
    );
    let history = ["workflow", "show", "--output", "json", "--workflow-id"];
    let history = temporal.ask(&[&history[..], &[flow]].concat()).unwrap();
    assert!(history.contains("WORKFLOW_EXECUTION_COMPLETED"));
    names_no_account(&history);
}

/// As it is, and in base64 at each of its three places.
fn names_no_account(history: &str) {
    for plain in [
        "DE89370400440532013000",
        "REU4OTM3MDQwMDQ0MDUz",
        "RFODkzNzA0MDA0NDA1Mz",
        "ERTg5MzcwNDAwNDQwNTM",
    ] {
        assert!(!history.contains(plain), "{plain} is in {history}");
    }
}

/// Another process polls it first; the one that takes payments in has never heard of it.
fn payments_move_to_another_task_queue(place: &Place, temporal: &Namespace, address: SocketAddr) {
    let moved = |queue: &str| {
        let wish = json!({"execTaskQueue": queue, "reason": "machines of their own"});
        put(address, "/admin/item-types/PAYMENT", &wish).unwrap()
    };
    assert_eq!(moved("a name").status, 400);
    let refused = moved("payments-two");
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(
        refused.text.contains("no process polls"),
        "{}",
        refused.text
    );
    let polls =
        "engine.roles = [\"exec\"]\nengine.temporal.exec_task_queues = [\"payments-two\"]\n";
    let other = place.setting(&temporal.url(), polls).start("127.0.0.1:0");
    let answer = eventually("it is polled", LONG, || {
        let answer = moved("payments-two");
        (answer.status != 409).then_some(answer)
    });
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["execTaskQueue"], "payments-two");
    assert_eq!(other.stop(), Some(0));
    take_in(address, &payment("pay_2"));
    ended(address, "pay_2");
    let flow = [
        "workflow",
        "describe",
        "--workflow-id",
        "exec-payment-pay_2",
    ];
    let about = temporal.ask(&[&flow[..], &["--output", "json"]].concat());
    assert!(about.unwrap().contains("\"payments-two\""));
}

#[test]
fn with_keys_temporal_sees_no_account_and_a_new_key_takes_over() {
    let place = Place::new();
    let temporal = Namespace::create();
    let key = |name: &str, digit: &str| {
        format!("{{ name = \"{name}\", key = \"{}\" }}", digit.repeat(64))
    };
    let codec = |keys: &[String]| {
        let keys = keys.join(", ");
        place.setting(
            &temporal.url(),
            &format!("engine.temporal.codec_keys = [{keys}]\n"),
        )
    };
    let secret = |id: &str| {
        let mut payment = payment(id);
        payment["debtor"]["account"] = json!("DE89370400440532013000");
        payment
    };
    let server = codec(&[key("old", "1")]).start("127.0.0.1:0");
    items_per_flow(server.address, "PAYMENT", 1);
    take_in(server.address, &secret("pay_1"));
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
        names_no_account(&history);
    }
    assert_eq!(server.stop(), Some(0));
    let server = codec(&[key("new", "2"), key("old", "1")]).start("127.0.0.1:0");
    assert_eq!(
        post(server.address, "/payments", &secret("pay_1"))
            .unwrap()
            .status,
        200
    );
    take_in(server.address, &secret("pay_2"));
    ended(server.address, "pay_2");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_temporal_server_that_is_away_is_waited_for_and_nothing_dies_of_it() {
    let place = Place::new();
    let temporal = TemporalServer::not_yet_started();
    let server = place.setting(&temporal.url(), "").start("127.0.0.1:0");
    let address = server.address;
    assert_eq!(get(address, "/health/live").unwrap().status, 200);
    assert_eq!(ready(address), 503);
    assert_eq!(posted(address, "early"), 202, "durable, and planned later");
    let why = shown(address, "early").unwrap()["whyNotRunning"].clone();
    let why = why.as_str().unwrap();
    assert!(why.contains("the engine cannot be reached"), "{why}");
    let said = server.said.join("\n");
    assert!(said.contains(&temporal.address()), "{said}");

    temporal.start_again();
    eventually("it is ready", LONG, || {
        (ready(address) == 200).then_some(())
    });
    ended(address, "early");

    let because = json!({"reason": "to have something that waits"});
    let pause = post(address, "/admin/lanes/default/pause", &because).unwrap();
    assert_eq!(pause.status, 200, "{}", pause.body);
    take_in(address, &payment("waiting"));
    temporal.crash();
    eventually("it is not ready", LONG, || {
        (ready(address) == 503).then_some(())
    });
    let resume = post(address, "/admin/lanes/default/resume", &because).unwrap();
    assert_eq!(resume.status, 200, "{}", resume.body);
    assert_eq!(posted(address, "meanwhile"), 202);
    eventually("it says that the engine is away", LONG, || {
        let shown = shown(address, "waiting")?;
        // For a moment, each time that the dispatcher tries.
        let waits = ["READY", "CLAIMED"].map(Value::from);
        assert!(waits.contains(&shown["queueStatus"]), "{shown}");
        let why = shown["whyNotRunning"].as_str()?;
        why.contains("the engine cannot be reached").then_some(())
    });
    temporal.start_again();
    ended(address, "waiting");
    ended(address, "meanwhile");
    assert_eq!(
        place.bank.ledger().doubles(),
        Vec::<String>::new(),
        "MONEY: paid twice"
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn each_process_does_what_its_roles_say() {
    let place = Place::new();
    let temporal = Namespace::create();
    let front = place.setting(&temporal.url(), "engine.roles = [\"api\", \"init\"]\n");
    let front = front.start("127.0.0.1:0");
    take_in(front.address, &payment("pay_1"));
    eventually(
        "no process has the role dispatch, and it says so",
        LONG,
        || {
            let shown = shown(front.address, "pay_1")?;
            assert_eq!(shown["queueStatus"], "READY", "{shown}");
            let why = shown["whyNotRunning"].as_str()?;
            why.contains("no process has the role dispatch")
                .then_some(())
        },
    );
    let middle = place.setting(&temporal.url(), "engine.roles = [\"dispatch\"]\n");
    let middle = middle.start("127.0.0.1:0");
    eventually("nobody runs it, and it says so", LONG, || {
        let shown = shown(front.address, "pay_1")?;
        assert_ne!(shown["status"], "PROCESSING");
        let why = shown["whyNotRunning"].as_str()?;
        let nobody = "no process polls the task queue payment-exec-task-queue";
        (shown["queueStatus"] == "DISPATCHED" && why.contains(nobody)).then_some(())
    });
    let idle = "tollgate_task_queue_workers{task_queue=\"payment-exec-task-queue\"} 0";
    eventually("the metric says so", LONG, || {
        get(middle.address, "/metrics")
            .ok()?
            .text
            .contains(idle)
            .then_some(())
    });
    let back = place.setting(&temporal.url(), "engine.roles = [\"exec\"]\n");
    let back = back.start("127.0.0.1:0");
    assert_eq!(ended(front.address, "pay_1")["whyNotRunning"], Value::Null);
    let elsewhere = get(back.address, "/payments/pay_1").unwrap();
    assert_eq!(elsewhere.status, 404);
    let error = elsewhere.body["error"].as_str().unwrap();
    assert!(error.contains("does not serve the API"), "{error}");
    eventually("it is ready", LONG, || {
        (ready(back.address) == 200).then_some(())
    });
    for process in [front, middle, back] {
        assert_eq!(process.stop(), Some(0));
    }
}

#[test]
fn only_schedules_that_are_tollgates_own_and_nobodys_any_more_are_removed() {
    let place = Place::new();
    let temporal = Namespace::create();
    let schedule = |id: &str, flow: &str, queue: &str| {
        let words = ["--schedule-id", id, "--workflow-id", id, "--type", flow];
        let when = ["--task-queue", queue, "--interval", "24h"];
        let made = temporal.ask(&[&["schedule", "create"], &words[..], &when].concat());
        made.unwrap_or_else(|| panic!("{id} is not made"));
    };
    let is_there = |id: &str| {
        temporal
            .ask(&["schedule", "describe", "--schedule-id", id])
            .is_some()
    };
    // An operator's own; a dispatcher of somebody else; one of a release with a type more; a left-over.
    schedule("dispatch-nightly", "NightlyWorkflow", "dispatch-task-queue");
    schedule("dispatch-else", "DispatcherWorkflow", "other-task-queue");
    schedule(
        "dispatch-letter",
        "DispatcherWorkflow",
        "dispatch-task-queue",
    );
    schedule(
        "dispatch-parcel",
        "DispatcherWorkflow",
        "dispatch-task-queue",
    );
    place.runtime.block_on(know_type(&place.database, "LETTER"));
    let server = place.setting(&temporal.url(), "").start("127.0.0.1:0");
    eventually("the left-over is removed", LONG, || {
        (!is_there("dispatch-parcel")).then_some(())
    });
    for id in [
        "dispatch-nightly",
        "dispatch-else",
        "dispatch-letter",
        "dispatch-payment",
    ] {
        assert!(is_there(id), "{id}");
    }
    assert_eq!(server.stop(), Some(0));
}

async fn know_type(database: &str, name: &str) {
    let store = PostgresStore::open(PostgresOptions::at(database))
        .await
        .unwrap();
    let body = serde_json::to_string(&payments::default_config()).unwrap();
    let author = Author::new("test", "a release beside this one");
    let put = store.put_setting(SettingKind::ItemType, name, body, author);
    put.await.unwrap();
}

#[test]
fn starts_that_cannot_succeed_on_temporal_are_one_sentence() {
    let place = Place::new();
    let temporal = Namespace::create();
    let nowhere = format!("temporal://{}/nowhere", temporal.server.address());
    let table = [
        (
            place.database.as_str(),
            nowhere.as_str(),
            "no namespace \"nowhere\"",
        ),
        ("sqlite:t.db", &temporal.url(), "requires PostgreSQL"),
        (&place.database, "temporal://somewhere", "engine.url"),
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
    drop(place.runtime);
}
