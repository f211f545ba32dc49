//! A bank by description, through the binary: tried, refused a request, and changed while a payment is in doubt.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions, Dialect};

use crate::http::{get, post};
use crate::pair::{Pair, paired, payment};
use crate::served::{BINARY, Setting, eventually};

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
    let question = tollgate(&pair, &["bank", "probe", "default", "pay_001"]);
    assert!(
        question.contains("/v1/transfers?transfer_group=pay_001&limit=1"),
        "{question}"
    );
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
    assert_eq!(pair.bank.ledger().effective().len(), 1);
}
