//! Starts that cannot succeed: one clear sentence that names the key or file and the remedy.

use std::process::Command;

use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::served::{BINARY, Setting};
use crate::people::rules::checked;

/// Runs a start that must fail, and returns what it said.
pub(crate) fn refused(args: &[&str], environment: &[(&str, &str)]) -> String {
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
        (
            "auth.tokens = [{name = \"ann\", role = \"read\", sha256 = \"12\"}]",
            "sha256 of \"ann\"",
        ),
        (
            "auth.tokens = [{name = \"ann\", role = \"king\", sha256 = \"12\"}]",
            "auth.tokens",
        ),
        ("tls.key = \"key.pem\"", "tls.certificate"),
        ("http.max_connections = 0", "http.max_connections"),
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
        // A flag would put a wrong address in the file right.
        let listen: &[&str] = match key {
            "listen" => &[],
            _ => &["--listen", "127.0.0.1:0"],
        };
        let serve = ["serve", "--config", file.to_str().unwrap()];
        let said = refused(&[&serve[..], listen].concat(), &[]);
        let listened = key == "listen";
        assert!(listened || said.contains(key), "{text}: {said}");
    }
    let said = refused(&["serve", "--config", "/nowhere/t.toml"], &[]);
    assert!(said.contains("/nowhere/t.toml"), "{said}");
    // The token is for the commands that call a service; it is no key of the configuration.
    let environment = [("TOLLGATE_LISTEN", "0.0.0.0:1"), ("TOLLGATE_TOKEN", "tg_1")];
    let said = refused(&["serve"], &environment);
    assert!(said.contains("listen: 0.0.0.0:1"), "{said}");
}

#[test]
fn too_few_descriptors_for_the_api_are_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("x.db").display());
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 600 && exec \"$@\"", "sh", BINARY])
        .args(["serve", "--listen", "127.0.0.1:0", "--store", &store])
        .env("RUST_LOG", "off")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(
        said.contains("http.max_connections") && said.contains("the limit is 600"),
        "{said}"
    );
}

const PAYMENTS: &str = "downstream.payments";
const ACME: &str = "downstream.gateways.acme";
/// A section, what is wrong in it, and what is said about it.
const BAD_BANKS: &[(&str, &str, &str)] = &[
    (PAYMENTS, "timeout_ms = 0", "timeout_ms must be at least 1"),
    (
        PAYMENTS,
        "max_connections = 0",
        "max_connections must be at least 1",
    ),
    (
        PAYMENTS,
        "key_retention_secs = 1",
        "key_retention_secs: must be longer",
    ),
    (
        PAYMENTS,
        "honours_idempotency_key = false\nsettle_secs = 0",
        "settle_secs: must be at least 1",
    ),
    (PAYMENTS, "means_not_done = [204]", "means_not_done: 204"),
    (PAYMENTS, "means_not_done = [408]", "means_not_done: 408"),
    (
        PAYMENTS,
        r#"url = "https://bank"
root_certificates = "LETTER""#,
        "contains no certificate",
    ),
    (
        PAYMENTS,
        r#"url = "https://bank"
root_certificates = "/nowhere/ca""#,
        "/nowhere/ca cannot be read",
    ),
    (
        PAYMENTS,
        r#"root_certificates = "x""#,
        "root_certificates requires an https:// URL",
    ),
    (
        PAYMENTS,
        r#"headers = {Authorization = "env:BANK_TOKEN"}"#,
        "headers.Authorization: environment variable BANK_TOKEN is not set",
    ),
    (
        PAYMENTS,
        r#"headers = {Authorization = "file:/nowhere/token"}"#,
        "headers.Authorization: /nowhere/token cannot be read",
    ),
    (
        PAYMENTS,
        r#"headers = {"A B" = "secret"}"#,
        r#"headers.A B: "A B" is not a header name"#,
    ),
    (
        PAYMENTS,
        r#"headers = {A = "secret\n"}"#,
        "headers.A: its value has characters",
    ),
    (
        PAYMENTS,
        r#"headers = {host = "secret"}"#,
        "headers.host: is set by Tollgate",
    ),
    (
        PAYMENTS,
        "headers = {A = 5318008}",
        "headers.A: must be text",
    ),
    (ACME, r#"url = "http://acme""#, "lane is missing"),
    (ACME, r#"lane = "acme""#, "url is missing"),
    (
        ACME,
        r#"url = "acme"
lane = "acme""#,
        r#"the URL "acme""#,
    ),
];

#[test]
fn a_bank_that_cannot_be_right_is_one_sentence_that_names_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let [letter, file, store] = ["letter.pem", "bad.toml", "x.db"].map(|f| folder.path().join(f));
    std::fs::write(&letter, "Dear bank,").unwrap();
    let said_about = |text: &str| {
        let text = text.replace("LETTER", letter.to_str().unwrap());
        let all = format!("store.url = \"sqlite:{}\"\n{text}", store.display());
        std::fs::write(&file, all).unwrap();
        let config = file.to_str().unwrap();
        let said = refused(
            &["serve", "--listen", "127.0.0.1:0", "--config", config],
            &[],
        );
        assert!(!store.exists(), "{text}: nothing was started");
        said
    };
    for (section, text, why) in BAD_BANKS {
        let said = said_about(&format!("[{section}]\n{text}\n"));
        assert!(
            said.contains(section) && said.contains(why),
            "{text}: {said}"
        );
        let secret = said.contains("secret") || said.contains("5318008");
        assert!(!secret, "{said}");
    }
    let twice = said_about(&format!("[{ACME}]\n[{ACME}]\n"));
    assert!(twice.contains("duplicate key"), "{twice}");
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
        said.contains("is already in use") && said.contains("--listen"),
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

#[test]
fn a_check_reads_the_keys_and_certificates_of_temporal_as_a_start_does() {
    let folder = tempfile::tempdir().unwrap();
    let letter = folder.path().join("letter.pem");
    std::fs::write(&letter, "Dear bank,").unwrap();
    let letter = letter.display();
    let table = [
        (
            "root_certificates = \"/nowhere/ca\"".to_owned(),
            "engine.temporal.root_certificates: /nowhere/ca cannot be read",
        ),
        (
            format!("root_certificates = \"{letter}\""),
            "letter.pem is not PEM",
        ),
        (
            "client_certificate = \"/nowhere/us\"\nclient_key = \"/nowhere/key\"".to_owned(),
            "engine.temporal.client_certificate: /nowhere/us cannot be read",
        ),
        (
            "api_key = \"env:NO_SUCH_KEY\"".to_owned(),
            "engine.temporal.api_key: environment variable NO_SUCH_KEY is not set",
        ),
        (
            "codec_keys = [{name = \"a\", key = \"5318008\"}]".to_owned(),
            "engine.temporal.codec_keys: key \"a\" must be 64 hexadecimal digits",
        ),
    ];
    let head = "store.url = \"postgres://u@h/d\"\nengine.url = \"temporal://h:1/n\"\n[engine.temporal]\ntls = true\n";
    let (good, said) = checked(folder.path(), head);
    assert!(good, "{said}");
    for (text, why) in table {
        let (good, said) = checked(folder.path(), &format!("{head}{text}\n"));
        assert!(!good && said.contains(why), "{text}: {said}");
        assert_eq!(said.lines().count(), 1, "one sentence, not: {said}");
        assert!(!said.contains("5318008"), "{said}");
    }
}
