//! `tollgate import` as its users meet it, and kill -9 in the middle of it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::Cluster;
use tollgate_sandbox::{Bank, BankOptions};

use crate::files::bulk::{Sending, done, later};
use crate::fixture::http::get;
use crate::fixture::pair::{Pair, pair};
use crate::fixture::served::{BINARY, Setting, eventually};
use crate::pages::console::Reader;

fn import(address: SocketAddr, flags: &[&str], file: &Path) -> Output {
    let server = format!("http://{address}");
    let mut command = Command::new(BINARY);
    command.args(["import", "--server", &server]).args(flags);
    command.arg(file).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_import_shows_what_became_of_its_lines_and_exits_accordingly() {
    let pair = pair("");
    let address = pair.server.address;
    let write = |name: &str, text: &str| -> PathBuf {
        let path = pair.setting.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut late = later("p2");
    late["deadline"] = late["executeAt"].clone();
    let good = write("good.ndjson", &format!("{}\n{}\n", later("p1"), late));
    let ran = import(address, &[], &good);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let shown = text(&ran.stdout);
    for expected in ["accepted", "amount USD  251.00", "first slot"] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert!(text(&ran.stderr).contains("bytes uploaded, batch"));

    let bad = format!("{}\n{{\"paymentId\":\"x\"}}\n", later("p3"));
    let bad = write("bad.txt", &bad);
    let ran = import(address, &[], &bad);
    assert_eq!(ran.status.code(), Some(2), "what format is it?");
    assert!(
        text(&ran.stderr).contains("--format"),
        "{}",
        text(&ran.stderr)
    );
    let ran = import(address, &["--format", "ndjson"], &bad);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        text(&ran.stdout).contains("amount is required"),
        "{}",
        text(&ran.stdout)
    );

    // The same file is the same batch, unless it is wanted again.
    let batch = |flags: &[&str]| -> Value {
        let ran = import(address, flags, &bad);
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    let first = batch(&["--format", "ndjson", "--json"]);
    assert_eq!(first["accepted"], 1);
    let again = batch(&["--format", "ndjson", "--json", "--again"]);
    assert_eq!(
        (&again["duplicate"], &again["rejected"]),
        (&json!(1), &json!(1))
    );
    assert_ne!(first["batchId"], again["batchId"]);
    a_payment_belongs_to_the_file_it_was_taken_in_with(&pair, &first, &again);

    let wrong = write("wrong.csv", "paymentId,amount\n");
    let ran = import(address, &[], &wrong);
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("currency: is a missing column"),
        "{}",
        text(&ran.stderr)
    );
    let ran = import(address, &[], Path::new("nowhere.csv"));
    assert_eq!(ran.status.code(), Some(2));
}

fn a_payment_belongs_to_the_file_it_was_taken_in_with(pair: &Pair, first: &Value, again: &Value) {
    let listed = |answer: &Value| {
        let batch = answer["batchId"].as_str().unwrap();
        let listed = pair.data(&["payments", "list", "--batch", batch]);
        let listed = listed["payments"].as_array().unwrap().clone();
        listed
            .iter()
            .map(|it| it["paymentId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((listed(first), listed(again)), (vec![json!("p3")], vec![]));
    assert_eq!(pair.shown("p3")["batchId"], first["batchId"]);
    let page = Reader::local(pair.server.address);
    let page = |path: &str| page.page(path).text;
    let batch = first["batchId"].as_str().unwrap();
    let link = format!("/console/payments?batch={batch}");
    assert!(page(&format!("/console/imports/{batch}")).contains(&link));
    let found = page(&link);
    assert!(
        found.contains("/console/payments/p3") && !found.contains("payments/p1"),
        "{found}"
    );
}

/// A file with some lines that are wrong and some that are there twice.
struct Feed {
    text: String,
    lines: u64,
    accepted: u64,
    duplicate: u64,
    rejected: Vec<u64>,
}

impl Feed {
    fn new(lines: u64) -> Self {
        let sample = later("ID").to_string();
        let mut feed = Self {
            text: String::new(),
            lines,
            accepted: 0,
            duplicate: 0,
            rejected: vec![],
        };
        for line in 1..=lines {
            // Some repeat a line of an earlier chunk; if that one was wrong, they are the first.
            let repeated = (line.is_multiple_of(997) && line > 3000).then(|| line - 1500);
            let is_wrong = |line: u64| line.is_multiple_of(1009);
            let id = match repeated {
                _ if is_wrong(line) => "no good id".to_owned(),
                Some(earlier) => format!("p{earlier}"),
                None => format!("p{line}"),
            };
            match repeated {
                _ if is_wrong(line) => feed.rejected.push(line),
                Some(earlier) if !is_wrong(earlier) => feed.duplicate += 1,
                _ => feed.accepted += 1,
            }
            let _ = writeln!(feed.text, "{}", sample.replace("ID", &id));
        }
        feed
    }
}

#[test]
fn kill_9_in_the_middle_of_an_import_counts_every_line_once() {
    let lines = std::env::var("TGTEST_IMPORT_LINES").ok();
    let lines = lines.and_then(|lines| lines.parse().ok()).unwrap_or(60_000);
    killed_at_every_stage(lines, Setting::new);
}

#[test]
fn kill_9_in_the_middle_of_an_import_counts_every_line_once_on_postgresql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cluster = Cluster::start();
    let url = runtime.block_on(cluster.database());
    killed_at_every_stage(30_000, |bank, extra| Setting::on(&url, bank, extra));
}

fn killed_at_every_stage(lines: u64, on_store: impl FnOnce(&Bank, &str) -> Setting) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let setting = on_store(&bank, "");
    let feed = Feed::new(lines);
    let path = setting.folder.path().join("feed.ndjson");
    std::fs::write(&path, &feed.text).unwrap();

    // In the middle of the upload: nothing of it runs.
    let server = setting.start("127.0.0.1:0");
    let address = server.address;
    let mut sending = Sending::begin(address, "application/x-ndjson", feed.text.len());
    sending.send(&feed.text.as_bytes()[..feed.text.len() / 2]);
    server.kill();
    drop(sending);
    let ran = import(address, &[], &path);
    assert_eq!(ran.status.code(), Some(2), "nobody is there");
    let mut server = setting.start(&address.to_string());

    // Again, under the same key; then at every stage of taking it in.
    let ran = import(address, &["--no-wait", "--json"], &path);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let batch = told["batchId"].as_str().unwrap().to_owned();
    let mut killed_at = vec![];
    for percent in [0, 5, 50, 95] {
        let wanted = lines * percent / 100;
        let reached = eventually("it is taken in so far", Duration::from_mins(5), || {
            let judged = judged(address, &batch)?;
            (judged > wanted || judged == lines || percent == 0).then_some(judged)
        });
        server.kill();
        killed_at.push(reached);
        server = setting.start(&address.to_string());
    }
    println!("killed at {killed_at:?} of {lines} lines");
    assert!(
        killed_at.iter().any(|at| (1..lines).contains(at)),
        "never in the middle"
    );

    let view = done(address, &batch);
    check(address, &batch, &view, &feed);
    // The same file once more is the same batch, and nothing is counted again.
    let ran = import(address, &["--json"], &path);
    let again: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(again, view);
    assert_eq!(ran.status.code(), Some(1), "some lines are wrong");
    assert_eq!(server.stop(), Some(0));
}

fn judged(address: SocketAddr, batch: &str) -> Option<u64> {
    let view = get(address, &format!("/payments/bulk/{batch}")).ok()?.body;
    let counts = ["accepted", "duplicate", "rejected"];
    counts.iter().map(|name| view[name].as_u64()).sum()
}

/// Every line once: by the bulk's own counts, by its errors, and by the control totals.
fn check(address: SocketAddr, batch: &str, view: &Value, feed: &Feed) {
    assert_eq!(view["lines"], feed.lines);
    let counts = ["accepted", "duplicate", "rejected"].map(|name| view[name].as_u64().unwrap());
    assert_eq!(
        counts,
        [feed.accepted, feed.duplicate, feed.rejected.len() as u64]
    );
    let mut rejected = vec![];
    let mut after = json!(0);
    while !after.is_null() {
        let path = format!("/payments/bulk/{batch}/errors?after={after}&limit=1000");
        let page = get(address, &path).unwrap().body;
        let lines = page["errors"].as_array().unwrap().iter();
        rejected.extend(lines.map(|error| error["line"].as_u64().unwrap()));
        after = page["next"].clone();
    }
    assert_eq!(rejected, feed.rejected);
    let totals = get(address, "/admin/totals").unwrap().body;
    let bucket = &totals["payments"][0];
    assert_eq!(
        totals["payments"].as_array().map(Vec::len),
        Some(1),
        "{totals}"
    );
    assert_eq!(
        (&bucket["status"], &bucket["count"]),
        (&json!("SCHEDULED"), &json!(feed.accepted))
    );
    assert_eq!(bucket["amount"], view["amounts"][0]["amount"]);
}

#[test]
fn an_import_has_a_name_and_an_author_and_says_when_it_came_before() {
    let pair = pair("");
    let address = pair.server.address;
    let path = pair.setting.folder.path().join("salaries.ndjson");
    let lines = format!("{}\n{{\"paymentId\":\"=x\"}}\n", later("p1"));
    std::fs::write(&path, lines).unwrap();
    let ran = import(address, &["--json"], &path);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["fileName"], "salaries.ndjson");
    assert_eq!(told["actor"], "local");
    let again = import(address, &["--json"], &path);
    let said = text(&again.stderr);
    assert!(said.contains("the same file was imported at 20"), "{said}");
    let batch = told["batchId"].as_str().unwrap();
    let listed = get(address, "/payments/bulk").unwrap().body;
    assert_eq!(listed["batches"][0]["fileName"], "salaries.ndjson");
    let csv = get(
        address,
        &format!("/payments/bulk/{batch}/errors?format=csv"),
    );
    let csv = csv.unwrap().text;
    assert!(
        csv.contains("line,paymentId,error") && csv.contains("\n2,'=x,"),
        "{csv}"
    );
    let reader = Reader::local(address);
    let page = reader.page(&format!("/console/imports/{batch}"));
    assert!(
        page.text.contains("Import salaries.ndjson"),
        "{}",
        page.text
    );
    assert!(
        page.text.contains("Imported by <bdi>local</bdi>"),
        "{}",
        page.text
    );
    let file = reader.page(&format!("/console/imports/{batch}/rejected?format=csv"));
    assert!(file.text.contains("'=x"), "{}", file.text);
    let lines = reader.page(&format!("/console/imports/{batch}/rejected?format=lines"));
    assert!(
        lines.text.contains("{\"paymentId\":\"=x\"}"),
        "as it was sent: {}",
        lines.text
    );
    let since = get(address, &format!("/payments/bulk/{batch}?since=true"));
    let since = since.unwrap().body["since"].clone();
    assert_eq!(
        (&since["count"], &since["sameFile"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(since["payments"][0]["status"], "SCHEDULED", "{since}");
    assert!(
        page.text.contains("Current status of its payments"),
        "{}",
        page.text
    );
    let third = import(address, &["--json", "--again"], &path);
    let third: Value = serde_json::from_slice(&third.stdout).unwrap();
    let third = third["batchId"].as_str().unwrap();
    let page = reader.page(&format!("/console/imports/{third}")).text;
    assert!(page.contains("The same file was imported before"), "{page}");
    assert!(
        page.contains(&format!("/console/imports/{batch}\"")),
        "{page}"
    );
}
