//! A bank by description, through the binary: tried, refused a request, and changed while a payment is in doubt.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions, Dialect};

use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, paired, payment};
use crate::fixture::served::{BINARY, Setting, eventually};

const SOON: Duration = Duration::from_secs(30);
const SECRET: &str = "sk_test_hunter2";

/// A server in front of a bank that speaks Stripe.
fn stripe(extra: &str) -> Pair {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = {
        let _inside = runtime.enter();
        let options = BankOptions {
            speaks: Dialect::Stripe,
            ..BankOptions::default()
        };
        Bank::start(options).unwrap()
    };
    let login =
        format!("downstream.payments.login = {{kind = \"bearer\", token = \"{SECRET}\"}}\n");
    let setting = Setting::new(&bank, &format!("{login}{extra}"));
    let server = setting.start("127.0.0.1:0");
    Pair {
        runtime,
        bank,
        setting,
        server,
    }
}

fn tollgate(pair: &Pair, args: &[&str]) -> String {
    let config = pair.setting.folder.path().join("tollgate.toml");
    let run = Command::new(BINARY)
        .args(args)
        .arg("--config")
        .arg(config)
        .output()
        .unwrap();
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(run.status.success(), "{said}");
    said
}

fn status_of(pair: &Pair, id: &str) -> Value {
    get(pair.server.address, &format!("/payments/{id}"))
        .unwrap()
        .body
}

#[test]
fn a_bank_is_tried_with_one_payment_and_its_secret_is_shown_nowhere() {
    let pair = stripe("downstream.payments.description = \"stripe-transfers\"\n");
    let server = format!("http://{}", pair.server.address);
    let asked = [
        "--amount",
        "1.50",
        "--currency",
        "EUR",
        "--debtor",
        "A",
        "--creditor",
        "acct_1",
    ];
    let dry = tollgate(
        &pair,
        &[&["bank", "try", "default", "--dry-run"], &asked[..]].concat(),
    );
    assert!(
        dry.contains("/v1/transfers\nauthorization: Bearer ***\n"),
        "{dry}"
    );
    assert!(
        dry.contains("amount=150&currency=eur&destination=acct_1&transfer_group=try-"),
        "{dry}"
    );
    assert_eq!(pair.bank.ledger().arrivals(), 0, "nothing was sent");
    let probe = ["bank", "probe", "default", "pay_001"];
    let question = tollgate(&pair, &[&probe[..], &["--dry-run"]].concat());
    assert!(
        question.contains("/v1/transfers?transfer_group=pay_001&limit=1"),
        "{question}"
    );
    assert_eq!(pair.bank.ledger().arrivals(), 0, "nothing was asked");
    let live = ["bank", "try", "default", "--yes", "--server", &server];
    let told = tollgate(&pair, &[&live, &asked[..]].concat());
    assert!(
        told.contains("status 200 means done: the row in line "),
        "{told}"
    );
    assert!(told.contains("is PROCESSING now"), "{told}");
    assert_eq!(pair.bank.ledger().effective().len(), 1);
    for said in [dry, question, told] {
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert!(
        !pair
            .server
            .log()
            .iter()
            .any(|line| line.contains("hunter2"))
    );
    let metrics = get(pair.server.address, "/metrics").unwrap().text;
    assert!(!metrics.contains("hunter2"));
    drop(pair.runtime);
}

const BY_TABLE: &str = r#"
[promises]
honours_idempotency_key = true
key_retention_secs = 86400
[send]
path = "/payments"
headers = { "Idempotency-Key" = "{key}" }
[send.json]
paymentId = "{paymentId}"
amount = "{amount}"
currency = "{currency}"
debtor = "{debtor}"
creditor = "{creditor}"
scheme = "{ {'EUR': 'sepa'}[currency] }"
[[send.answers]]
status = "2xx"
means = "done"
believed_if = "body.paymentId == paymentId"
"#;

#[test]
fn a_payment_of_which_no_request_can_be_made_is_held_and_its_lane_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bank.toml");
    std::fs::write(&file, BY_TABLE).unwrap();
    let extra = format!("downstream.payments.description = \"{}\"\n", file.display());
    let pair = paired(|bank| Setting::new(bank, &extra));
    let address = pair.server.address;
    let of = |id: &str, currency: &str| {
        let mut payment = payment(id);
        payment["currency"] = json!(currency);
        payment
    };
    for (id, currency) in [("dollars", "USD"), ("euros", "EUR")] {
        let taken = post(address, "/payments", &of(id, currency)).unwrap();
        assert_eq!(taken.status, 201, "{}", taken.text);
    }
    eventually("the euros are paid", SOON, || {
        (status_of(&pair, "euros")["status"] == "PROCESSING").then_some(())
    });
    let held = eventually("the dollars are held", SOON, || {
        let seen = status_of(&pair, "dollars");
        (seen["queueStatus"] == "HELD").then_some(seen)
    });
    let text = held.to_string();
    assert!(text.contains("body.scheme: there is no"), "{text}");
    assert_eq!(held["attempts"], json!([]));
    let audit = get(address, "/admin/audit?item=PAYMENT/dollars").unwrap();
    let entries = audit.body["entries"].as_array().unwrap().iter();
    let held: Vec<_> = entries.filter(|entry| entry["action"] == "HELD").collect();
    assert_eq!(held.len(), 1, "{}", audit.text);
    assert_eq!(held[0]["actor"], "sender");
    assert_eq!(pair.bank.ledger().effective().len(), 1);
}

/// By the words that it prints, and by the bank's ledger and our own log of turns.
#[test]
fn a_bank_is_asked_about_a_payment_in_its_lane_or_directly_and_the_answer_is_explained() {
    let pair = stripe("downstream.payments.description = \"stripe-transfers\"\n");
    let address = pair.server.address;
    let server = format!("http://{address}");
    let ledger = pair.bank.ledger();
    let ask = |id: &str, how: &[&str]| {
        let args = [&["bank", "probe", "default", id], how].concat();
        tollgate(&pair, &args)
    };
    let turns = || {
        let certificate = get(address, "/admin/rate-limit/certificate").unwrap();
        certificate.body["sends"].as_u64().unwrap()
    };
    for how in [&["--server", server.as_str()][..], &["--direct"]] {
        let (arrived, taken) = (ledger.arrivals(), turns());
        let none = ask("pay_1", how);
        assert!(none.contains("GET http://") && none.contains("authorization: Bearer ***"));
        assert!(none.contains("status 200\n"), "{none}");
        assert!(none.contains("not known (the row in line "), "{none}");
        assert!(
            none.contains("the bank does not know pay_1; from 1 seconds"),
            "{none}"
        );
        assert_eq!(ledger.arrivals(), arrived + 1, "it was asked");
        let in_the_lane = u64::from(how[0] == "--server");
        assert_eq!(turns(), taken + in_the_lane);
    }
    let taken = post(address, "/payments", &payment("pay_1")).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.text);
    eventually("it is paid", SOON, || {
        (status_of(&pair, "pay_1")["status"] == "PROCESSING").then_some(())
    });
    let known = ask("pay_1", &["--server", &server]);
    assert!(known.contains("the bank has pay_1 as "), "{known}");
    let json = ask("pay_1", &["--server", &server, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["means"], "done");
    for (bank, id, status) in [("elsewhere", "pay_1", 404), ("default", "a b", 400)] {
        let path = format!("/admin/banks/{bank}/ask");
        let refused = post(address, &path, &json!({ "paymentId": id })).unwrap();
        assert_eq!(refused.status, status, "{}", refused.text);
    }
    // A lane that is closed asks nothing either.
    let pause = json!({"reason": "a test"});
    post(address, "/admin/lanes/default/pause", &pause).unwrap();
    let arrived = ledger.arrivals();
    let closed = post(
        address,
        "/admin/banks/default/ask",
        &json!({"paymentId": "pay_1"}),
    )
    .unwrap();
    assert_eq!(closed.status, 409, "{}", closed.text);
    let why = closed.body["error"].as_str().unwrap();
    assert!(
        why.starts_with("the bank was not asked: lane \"default\" is paused"),
        "{why}"
    );
    assert_eq!(ledger.arrivals(), arrived);
}
