//! A day of the archive that is not in order is shown to people until it is in order, wherever they look: by the API, by
//! `tollgate status`, by the metrics, through restarts.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_conformance::postgres::sql;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::ports::{Archive, SharedClock};
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use super::day::{DAY, day, items, payments};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post};
use crate::fixture::served::{BINARY, Served, Setting, eventually_or};
use crate::pages::console::Reader;

const KIND: &str = "archive-troubled";

/// A SQLite store with one closed day, and a folder for exports.
pub(super) struct Shelf {
    setting: Setting,
    folder: TempDir,
    _runtime: tokio::runtime::Runtime,
    _bank: Bank,
}

impl Shelf {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let exports = folder.path().display();
        let extra = format!("retention.export_dir = \"{exports}\"\n");
        let setting = Setting::new(&bank, &extra);
        runtime.block_on(async {
            let file = setting.folder.path().join("t.db");
            let store = SqliteStore::open(SqliteOptions::at(file)).unwrap();
            for page in items().chunks(500) {
                store
                    .restore_items(&payments(), day(), page.to_vec(), true)
                    .await
                    .unwrap();
            }
            store.complete_day(&payments(), day(), None).await.unwrap();
        });
        Self {
            setting,
            folder,
            _runtime: runtime,
            _bank: bank,
        }
    }

    pub(super) fn start(&self) -> Served {
        self.setting.start("127.0.0.1:0")
    }

    /// A day that is old enough is dropped as soon as it is exported.
    pub(super) fn start_without_grace(&self) -> Served {
        let config = self.setting.config("127.0.0.1:0");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}retention.restored_days = 0\n")).unwrap();
        Served::start_with(&[], &config)
    }

    fn part(&self) -> PathBuf {
        let name = format!(".PAYMENT-{DAY}.ndjson.gz.part");
        self.folder.path().join(name)
    }

    fn manifest(&self) -> PathBuf {
        let name = format!("PAYMENT-{DAY}.manifest.json");
        self.folder.path().join(name)
    }
}

pub(super) fn asked(server: &Served, path: &str) -> Value {
    let answer = get(server.address, path).unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.body
}

/// The sentence about the day, or nothing.
fn told(server: &Served) -> Option<String> {
    needed(server, KIND)
}

/// The sentence about the one that needs a person for this reason, or nothing.
pub(super) fn needed(server: &Served, kind: &str) -> Option<String> {
    let answer = asked(server, "/admin/needs-you");
    let needs = answer["needs"].as_array().unwrap();
    let need = needs.iter().find(|need| need["kind"] == kind)?;
    assert_eq!(need["count"], 1, "{need}");
    Some(need["details"][0]["what"].as_str().unwrap().to_owned())
}

fn comes_to_be_told(server: &Served, parts: &[&str]) -> String {
    eventually_or("the day is in trouble", LONG, || {
        let told = told(server).unwrap_or_default();
        let has_all = parts.iter().all(|part| told.contains(part));
        if has_all { Ok(told) } else { Err(told) }
    })
}

/// Exit code and text of `tollgate status`.
pub(super) fn status(server: &Served) -> (Option<i32>, String) {
    let address = format!("http://{}", server.address);
    let run = Command::new(BINARY)
        .args(["status", "--server", &address])
        .output()
        .unwrap();
    (run.status.code(), String::from_utf8(run.stdout).unwrap())
}

const IN_TROUBLE: &str = "tollgate_archive_days_in_trouble";
const READY: &str = "tollgate_archive_days_ready{item_type=\"PAYMENT\"}";

pub(super) fn comes_to_count(server: &Served, metric: &str, days: &str) {
    eventually_or(metric, LONG, || {
        let metrics = get(server.address, "/metrics").unwrap().text;
        let mut lines = metrics.lines();
        let found = lines.find_map(|line| line.strip_prefix(metric));
        let found = found.map_or("absent", str::trim).to_owned();
        if found == days { Ok(()) } else { Err(found) }
    });
}

pub(super) fn run(server: &Served) -> Value {
    let because = json!({"reason": "a test"});
    let answer = post(server.address, "/admin/archive/run", &because).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Somebody else holds the folder, which is no trouble.
fn is_skipped(server: &Served) {
    let round = run(server);
    assert_eq!(
        (&round["exported"], &round["troubles"]),
        (&json!(0), &json!([]))
    );
    let address = format!("http://{}", server.address);
    let run = Command::new(BINARY)
        .args(["archive", "run", "--reason", "a test", "--server", &address])
        .output()
        .unwrap();
    let said = String::from_utf8(run.stdout).unwrap();
    assert_eq!(run.status.code(), Some(0), "{said}");
    let why = format!("PAYMENT-{DAY} was skipped: another export, verification or restore");
    assert!(said.contains(&why), "{said}");
}

#[test]
fn a_day_in_trouble_needs_a_person_through_restarts_until_the_next_round_succeeds() {
    let shelf = Shelf::new();
    // The kernel's own full disk, under the name that is written first.
    std::os::unix::fs::symlink("/dev/full", shelf.part()).unwrap();
    let server = shelf.start();
    let full = [
        DAY,
        "could not be exported",
        "No space left on device",
        "free space",
    ];
    let sentence = comes_to_be_told(&server, &full);
    let (code, said) = status(&server);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(&sentence) && said.contains(KIND), "{said}");
    comes_to_count(&server, IN_TROUBLE, "1");
    let view = asked(&server, &format!("/admin/archive/{DAY}"))["days"][0].clone();
    assert_eq!(view["state"], "CLOSED");
    let page = Reader::local(server.address).page("/console/archive");
    assert!(page.text.contains("could not be exported"), "{}", page.text);
    assert!(
        view["trouble"].as_str().unwrap().contains(&sentence),
        "{view}"
    );
    server.kill();

    // No round of the next process gets far enough to find it again, and it is shown all the same.
    let lock = std::fs::File::options()
        .create(true)
        .append(true)
        .open(shelf.folder.path().join(".lock"))
        .unwrap();
    lock.lock().unwrap();
    let server = shelf.start();
    assert_eq!(told(&server).as_ref(), Some(&sentence));
    is_skipped(&server);
    assert_eq!(told(&server), Some(sentence));
    comes_to_count(&server, IN_TROUBLE, "1");
    drop(lock);

    std::fs::remove_file(shelf.part()).unwrap();
    assert_eq!(run(&server)["exported"], 1);
    assert_eq!(told(&server), None);
    assert_eq!(status(&server).0, Some(0));
    comes_to_count(&server, IN_TROUBLE, "0");

    // Nothing is to be done with the day for a week, and an edit is found by the next round.
    let manifest = std::fs::read_to_string(shelf.manifest()).unwrap();
    let edited = manifest.replacen("\"count\": 630", "\"count\": 631", 1);
    std::fs::write(shelf.manifest(), edited).unwrap();
    let troubles = run(&server)["troubles"].clone();
    assert_eq!(troubles.as_array().map(Vec::len), Some(1), "{troubles}");
    comes_to_be_told(&server, &[DAY, "could not be verified", "other totals"]);
    std::fs::write(shelf.manifest(), manifest).unwrap();
    assert_eq!(run(&server)["troubles"], json!([]));
    assert_eq!(told(&server), None);
}

#[test]
fn a_day_that_is_never_exported_needs_a_person_though_nothing_fails() {
    const OVERDUE: &str = "tollgate_archive_days_overdue";
    let shelf = Shelf::new();
    // As a process that was stopped in the middle of an export.
    let lock = std::fs::File::options()
        .create(true)
        .append(true)
        .open(shelf.folder.path().join(".lock"))
        .unwrap();
    lock.lock().unwrap();
    let server = shelf.start();
    let late = needed(&server, "archive-overdue").unwrap();
    let expected = format!("PAYMENT of {DAY} has had no file since 2024-03-31T00:00:00Z");
    assert!(late.starts_with(&expected), "{late}");
    assert_eq!(told(&server), None, "nothing has failed");
    assert_eq!(status(&server).0, Some(3));
    comes_to_count(&server, OVERDUE, "1");
    let page = || Reader::local(server.address).page("/console/archive").text;
    let order = "Every day of the archive is in order";
    assert!(page().contains("has had no file since") && !page().contains(order));
    let shown = asked(&server, "/admin/archive/status");
    assert_eq!(shown["overdue"], json!([late]));

    drop(lock);
    assert_eq!(run(&server)["exported"], 1);
    assert_eq!(needed(&server, "archive-overdue"), None);
    assert!(page().contains(order));
    comes_to_count(&server, OVERDUE, "0");
}

#[test]
fn a_table_made_by_hand_where_a_partition_is_wanted_needs_a_person_and_loses_nothing() {
    let (url, runtime) = (database(), tokio::runtime::Runtime::new().unwrap());
    let bank = {
        let _inside = runtime.enter();
        Bank::start(BankOptions::default()).unwrap()
    };
    // One of the days that are made ahead: the second that is hot.
    let day = runtime.block_on(async {
        let store = PostgresStore::open(PostgresOptions::at(url.clone())).await;
        ArchiveDay::of(store.unwrap().now().await.unwrap()).before(29)
    });
    let table = format!("archived_payment_{}", day.number());
    let by_hand = format!("CREATE TABLE {table} (by_hand integer)");
    runtime.block_on(sql(&url, &by_hand));
    let server = Setting::on(&url, &bank, "").start("127.0.0.1:0");
    let parts = [&*day.to_string(), "could not be filled", &table, "drop it"];
    comes_to_be_told(&server, &parts);
    comes_to_count(&server, READY, "1");
    runtime.block_on(sql(&url, &format!("DROP TABLE {table}")));
    run(&server);
    assert_eq!(told(&server), None);
    comes_to_count(&server, READY, "4");
}
