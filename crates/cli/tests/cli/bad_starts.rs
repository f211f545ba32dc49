//! Starts that cannot succeed: one clear sentence that names the key or file and the remedy.

use std::process::Command;

use tollgate_sandbox::{Bank, BankOptions};

use crate::served::{BINARY, Setting};

/// Runs a start that must fail, and returns what it said.
fn refused(args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = Command::new(BINARY)
        .args(args)
        .envs(environment.iter().copied())
        .env("RUST_LOG", "off")
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "talk goes to stderr");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.trim().lines().count(), 1, "one sentence, not: {said}");
    said
}

#[test]
fn each_bad_configuration_is_one_sentence_that_names_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let table = [
        ("listen = \"0.0.0.0:8090\"", "listen"),
        ("colour = \"red\"", "colour"),
        ("store.url = \"mysql://x\"", "store.url"),
        ("engine.url = \"warp\"", "engine.url"),
        ("gate.tolerance_ms = 500", "gate.tolerance_ms"),
        (
            "downstream.payments.url = \"ftp://bank\"",
            "downstream.payments",
        ),
        ("this is not toml", "configuration"),
    ];
    for (text, key) in table {
        let file = folder.path().join("bad.toml");
        let store = format!(
            "store.url = \"sqlite:{}\"\n",
            folder.path().join("x.db").display()
        );
        let store = if text.contains("store.url") {
            String::new()
        } else {
            store
        };
        std::fs::write(&file, format!("{store}{text}\n")).unwrap();
        let said = refused(
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--config",
                file.to_str().unwrap(),
            ],
            &[],
        );
        let listened = key == "listen";
        assert!(listened || said.contains(key), "{text}: {said}");
    }
    let said = refused(&["serve", "--config", "/nowhere/t.toml"], &[]);
    assert!(said.contains("/nowhere/t.toml"), "{said}");
    let said = refused(&["serve"], &[("TOLLGATE_LISTEN", "0.0.0.0:1")]);
    assert!(said.contains("listen"), "{said}");
}

/// Every start fails before its store is made.
#[test]
fn a_bank_that_cannot_be_right_is_one_sentence_that_names_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let letter = folder.path().join("letter.pem");
    std::fs::write(&letter, "Dear bank,").unwrap();
    let payments = |text: &str| format!("[downstream.payments]\n{text}\n");
    let gateway = |text: &str| format!("[downstream.gateways.acme]\n{text}\n");
    let headers = "downstream.payments.headers";
    let unusable = format!(
        "url = \"https://bank\"\nroot_certificates = \"{}\"",
        letter.display()
    );
    let table = [
        (
            payments("timeout_ms = 0"),
            "downstream.payments.timeout_ms must be at least 1".into(),
        ),
        (
            payments("max_connections = 0"),
            "downstream.payments.max_connections".into(),
        ),
        (
            payments("key_retention_secs = 1"),
            "downstream.payments.key_retention_secs".into(),
        ),
        (
            payments("honours_idempotency_key = false\nsettle_secs = 0"),
            "downstream.payments.settle_secs".into(),
        ),
        (
            payments("means_not_done = [204]"),
            "downstream.payments.means_not_done: 204".into(),
        ),
        (
            payments("means_not_done = [408]"),
            "downstream.payments.means_not_done: 408".into(),
        ),
        (
            payments(&unusable),
            "letter.pem holds no certificate".into(),
        ),
        (
            payments("root_certificates = \"x\""),
            "root_certificates is of use only with https://".into(),
        ),
        (
            payments("headers = {Authorization = \"env:BANK_TOKEN\"}"),
            format!("{headers}.Authorization: environment variable BANK_TOKEN is not set"),
        ),
        (
            payments("headers = {Authorization = \"file:/nowhere/token\"}"),
            format!("{headers}.Authorization: /nowhere/token cannot be read"),
        ),
        (
            payments("headers = {\"A B\" = \"secret\"}"),
            format!("{headers}.A B: \"A B\" is no name of a header"),
        ),
        (
            payments("headers = {A = \"secret\\n\"}"),
            format!("{headers}.A: its value has characters"),
        ),
        (
            payments("headers = {host = \"secret\"}"),
            format!("{headers}.host: is set by Tollgate itself"),
        ),
        (
            payments("headers = {A = 5318008}"),
            format!("{headers}.A: must be text"),
        ),
        (
            gateway("url = \"http://acme\""),
            "downstream.gateways.acme.lane is missing".into(),
        ),
        (
            gateway("lane = \"acme\""),
            "downstream.gateways.acme.url is missing".into(),
        ),
        (
            gateway("url = \"acme\"\nlane = \"acme\""),
            "downstream.gateways.acme: ".into(),
        ),
        (gateway("") + &gateway(""), "duplicate key".into()),
    ];
    let file = folder.path().join("bad.toml");
    let store = folder.path().join("x.db");
    for (text, why) in table {
        let all = format!("store.url = \"sqlite:{}\"\n{text}", store.display());
        std::fs::write(&file, all).unwrap();
        let config = file.to_str().unwrap();
        let said = refused(
            &["serve", "--listen", "127.0.0.1:0", "--config", config],
            &[],
        );
        assert!(said.contains(&why), "{text}: {said}");
        assert!(
            !said.contains("secret") && !said.contains("5318008"),
            "{said}"
        );
        assert!(!store.exists(), "{text}: nothing was started");
    }
}

#[test]
fn a_second_process_on_the_file_and_a_taken_port_are_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let setting = Setting::new(&bank, "");
    let first = setting.start("127.0.0.1:0");
    let config = setting.config("127.0.0.1:0");
    let said = refused(&["serve", "--config", config.to_str().unwrap()], &[]);
    assert!(
        said.contains("t.db") && said.contains("in use by another process"),
        "{said}"
    );

    let other = Setting::new(&bank, "");
    let config = other.config(&first.address.to_string());
    let said = refused(&["serve", "--config", config.to_str().unwrap()], &[]);
    assert!(
        said.contains("is not free") && said.contains("--listen"),
        "{said}"
    );
    assert!(
        !other.folder.path().join("t.db").exists(),
        "nothing was started"
    );
}

#[test]
fn a_file_that_is_no_database_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    std::fs::write(
        &file,
        "Dear auditor, this is not a database, but it is long enough to look at.",
    )
    .unwrap();
    let store = format!("sqlite:{}", file.display());
    let said = refused(
        &["serve", "--listen", "127.0.0.1:0", "--store", &store],
        &[],
    );
    assert!(
        said.contains("letter.txt") && said.contains("not a SQLite database"),
        "{said}"
    );
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("Dear auditor")
    );
}
