//! Secrets of logins through the binary: a gateway for every kind of login, and everything that a person can read.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tollgate_sandbox::{Bank, BankOptions, Dialect};

use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served, Setting, eventually};

const SOON: Duration = Duration::from_secs(30);
/// Part of every secret, and of nothing else.
const SECRET: &str = "hunter2";
const PASSWORD: &str = "hunter2-password";
/// All that is logged.
const ENVIRONMENT: [(&str, &str); 2] = [("PASSWORD", PASSWORD), ("RUST_LOG", "trace")];
const GATEWAYS: [&str; 6] = ["bearer", "key", "basic", "hmac", "plain", "oauth"];

const LANE: &str =
    "[lanes.all]\nmax_per_window = 400\nwindow_size_secs = 4\nmax_per_second = 100\n";
const CONTRACT: &str = r#"
[downstream.gateways.bearer]
url = "BANK"
lane = "all"
login = {kind = "bearer", token = "file:FILE"}
[downstream.gateways.key]
url = "BANK"
lane = "all"
login = {kind = "api-key", header = "X-Key", key = "hunter2-key"}
[downstream.gateways.basic]
url = "BANK"
lane = "all"
login = {kind = "basic", user = "us", password = "env:PASSWORD"}
[downstream.gateways.hmac]
url = "BANK"
lane = "all"
login = {kind = "hmac", key = "hunter2-hmac", header = "X-Signature", sign = "{timestamp}{body}", timestamp_header = "X-Time"}
[downstream.gateways.plain]
url = "BANK"
lane = "all"
headers = {"X-Plain" = "hunter2-header"}
"#;
const PAYPAL: &str = r#"
[downstream.gateways.oauth]
url = "BANK"
lane = "all"
description = "paypal-payouts"
login = {kind = "oauth2", token_url = "BANK/v1/oauth2/token", client_id = "us", client_secret = "hunter2-client"}
"#;

/// Each secret comes another way.
fn every_login(bank: &Bank, paypal: &Bank, folder: &Path) -> String {
    let file = folder.join("token");
    std::fs::write(&file, "hunter2-file\n").unwrap();
    let contract = CONTRACT.replace("BANK", &bank.url());
    let contract = contract.replace("FILE", &file.display().to_string());
    format!("{LANE}{contract}{}", PAYPAL.replace("BANK", &paypal.url()))
}

fn banks(runtime: &tokio::runtime::Runtime) -> (Bank, Bank) {
    let _inside = runtime.enter();
    let start = |speaks| {
        Bank::start(BankOptions {
            speaks,
            ..BankOptions::default()
        })
    };
    let (bank, paypal) = (start(Dialect::Contract), start(Dialect::Paypal));
    (bank.unwrap(), paypal.unwrap())
}

/// One payment through each of them.
fn pay(address: SocketAddr) {
    for gateway in GATEWAYS {
        let mut payment = payment(&format!("p-{gateway}"));
        payment["gateway"] = json!(gateway);
        let taken = post(address, "/payments", &payment).unwrap();
        assert_eq!(taken.status, 201, "{}", taken.text);
    }
    for gateway in GATEWAYS {
        let path = format!("/payments/p-{gateway}");
        eventually("it is paid", SOON, || {
            let seen = get(address, &path).ok()?.body;
            (seen["status"] == "PROCESSING").then_some(())
        });
    }
}

/// Everything that a person can read of a running server.
fn pages(address: SocketAddr) -> String {
    let fixed = [
        "/metrics",
        "/admin/audit",
        "/admin/nodes",
        "/admin/rules",
        "/admin/lanes/all/history",
        "/payments",
        "/",
        "/console/audit",
        "/console/lanes/all",
    ];
    let mut pages: Vec<_> = fixed.iter().map(|&page| page.to_owned()).collect();
    for gateway in GATEWAYS {
        pages.push(format!("/payments/p-{gateway}"));
        pages.push(format!("/console/payments/p-{gateway}"));
    }
    let read = pages.iter().map(|page| {
        let answer = get(address, page).unwrap();
        assert_eq!(answer.status, 200, "{page}: {}", answer.text);
        answer.text
    });
    read.collect::<Vec<_>>().join("\n")
}

/// What the commands print that read the configuration, and one that asks the server.
fn printed(config: &Path, address: SocketAddr) -> String {
    let config = config.display().to_string();
    let server = format!("http://{address}");
    let payment = "--amount 1 --currency EUR --debtor A --creditor B";
    let commands = [
        format!("config check --config {config}"),
        format!("bank try basic --dry-run {payment} --config {config}"),
        format!("bank probe hmac p-hmac --dry-run --config {config}"),
        format!("bank probe bearer p-bearer --direct --config {config}"),
        format!("bank probe key p-key --server {server}"),
    ];
    let printed = commands.iter().map(|line| {
        let mut command = Command::new(BINARY);
        command.envs(ENVIRONMENT).args(line.split(' '));
        let run = command.output().unwrap();
        let text = String::from_utf8([run.stdout, run.stderr].concat()).unwrap();
        assert!(run.status.success(), "{line}: {text}");
        text
    });
    printed.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_secret_of_a_login_is_in_logs_audit_api_console_or_dry_runs() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (bank, paypal) = banks(&runtime);
    let secrets = tempfile::tempdir().unwrap();
    let setting = Setting::new(&bank, &every_login(&bank, &paypal, secrets.path()));
    let config = setting.config("127.0.0.1:0");
    let server = Served::start_in(&ENVIRONMENT, &config);
    pay(server.address);
    let printed = printed(&config, server.address);
    assert!(printed.contains("the bank has p-key"), "{printed}");
    let shown = format!("{}\n{printed}", pages(server.address));
    server.signal("-TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0));
    let log = log.join("\n");
    assert!(log.contains("DEBUG"), "all of it is logged");
    let basic = STANDARD.encode(format!("us:{PASSWORD}"));
    // The last is how every access token of that bank begins.
    for secret in [SECRET, basic.as_str(), "A21AA-"] {
        for (place, text) in [("shown", &shown), ("logged", &log)] {
            let lines = text.lines().filter(|line| line.contains(secret));
            assert_eq!(lines.collect::<Vec<_>>(), Vec::<&str>::new(), "{place}");
        }
    }
    drop(runtime);
}
