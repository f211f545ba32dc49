//! Days of the archive as files: exported, verified, dropped, restored; killed with -9 at every edge. The judge is
//! every line of the day, as it was before anything was done with it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_core::archive::ArchivedItem;
use tollgate_core::id::ItemType;
use tollgate_core::ports::Store;
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use super::day::{COUNT, DAY, day, items, payments};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{Response, get, post};
use crate::fixture::served::{BINARY, Served, Setting, eventually, eventually_or};

/// A store with one closed day, a folder for exports, and a bank that nobody asks.
pub(super) struct Scene {
    pub(super) setting: Setting,
    pub(super) folder: TempDir,
    /// None on SQLite.
    pub(super) url: Option<String>,
    runtime: tokio::runtime::Runtime,
    _bank: Bank,
}

impl Scene {
    /// Without a day.
    pub(super) fn empty(url: Option<String>, folder: TempDir) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        let exports = folder.path().display();
        let extra = format!("retention.export_dir = \"{exports}\"\nretention.restored_days = 0\n");
        let setting = match &url {
            None => Setting::new(&bank, &extra),
            Some(url) => Setting::on(url, &bank, &extra),
        };
        Self {
            setting,
            folder,
            url,
            runtime,
            _bank: bank,
        }
    }

    pub(super) fn new(url: Option<String>) -> Self {
        Self::with(url, &items())
    }

    /// With these items of the day.
    pub(super) fn with(url: Option<String>, items: &[ArchivedItem]) -> Self {
        let scene = Self::empty(url, tempfile::tempdir().unwrap());
        scene.put(&payments(), items);
        scene
    }

    /// Closes the day of a type, with these items.
    pub(super) fn put(&self, of: &ItemType, items: &[ArchivedItem]) {
        self.in_store(async |store| {
            for page in items.chunks(500) {
                let put = store.restore_items(of, day(), page.to_vec(), true);
                put.await.unwrap();
            }
            store.complete_day(of, day(), None).await.unwrap();
        });
    }

    /// While no server runs.
    pub(super) fn in_store<T>(&self, act: impl AsyncFnOnce(&dyn Store) -> T) -> T {
        self.runtime.block_on(async {
            match &self.url {
                None => {
                    let file = self.setting.folder.path().join("t.db");
                    let store = SqliteStore::open(SqliteOptions::at(file)).unwrap();
                    act(&store).await
                }
                Some(url) => {
                    let options = PostgresOptions::at(url.clone());
                    act(&PostgresStore::open(options).await.unwrap()).await
                }
            }
        })
    }

    /// Every line that the database has of the day.
    pub(super) fn lines(&self) -> Vec<String> {
        self.in_store(async |store| {
            let (of, mut lines, mut after) = (payments(), vec![], None);
            loop {
                let page = store.archived_lines(&of, day(), after.as_ref(), 300);
                let page = page.await.unwrap();
                let Some(last) = page.last() else { break };
                let last: ArchivedItem = serde_json::from_str(last).unwrap();
                after = Some(last.id);
                lines.extend(page);
            }
            lines
        })
    }

    pub(super) fn config(&self, restored_days: u32) -> PathBuf {
        let config = self.setting.config("127.0.0.1:0");
        let text = std::fs::read_to_string(&config).unwrap();
        let days = format!("restored_days = {restored_days}");
        std::fs::write(&config, text.replace("restored_days = 0", &days)).unwrap();
        config
    }

    pub(super) fn start(&self, restored_days: u32) -> Served {
        Served::start_with(&[], &self.config(restored_days))
    }

    /// What a server that starts does by itself comes to this edge, and the process is killed there.
    pub(super) fn dies_at(&self, edge: &str, restored_days: u32) {
        let mut serve = Command::new(BINARY);
        serve
            .args(["serve", "--config"])
            .arg(self.config(restored_days));
        serve.env("TGTEST_DIE_AT", edge).stderr(Stdio::null());
        let mut server = serve.spawn().unwrap();
        let ended = eventually(edge, LONG, || server.try_wait().unwrap());
        assert_eq!(ended.signal(), Some(9), "{edge}: {ended}");
    }

    /// What lies in the folder, but for the lock.
    pub(super) fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }

    /// As an operator reads it.
    pub(super) fn zcat(&self) -> Vec<String> {
        let file = self.folder.path().join(&self.files()[0]);
        let read = Command::new("zcat").arg(file).output().unwrap();
        assert!(read.status.success(), "{read:?}");
        let text = String::from_utf8(read.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn manifest(&self) -> PathBuf {
        let name = format!("PAYMENT-{DAY}.manifest.json");
        self.folder.path().join(name)
    }
}

pub(super) fn view(server: &Served) -> Value {
    let answer = get(server.address, &format!("/admin/archive/{DAY}")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["days"][0].clone()
}

pub(super) fn reaches(server: &Served, state: &str) -> Value {
    eventually_or(state, LONG, || {
        let view = view(server);
        if view["state"] == state {
            Ok(view)
        } else {
            Err(view.to_string())
        }
    })
}

pub(super) fn act(server: &Served, what: &str) -> std::io::Result<Response> {
    let because = json!({"reason": "a test"});
    post(server.address, &format!("/admin/archive/{what}"), &because)
}

pub(super) fn done(server: &Served, what: &str) -> Value {
    let answer = act(server, what).unwrap();
    assert_eq!(answer.status, 200, "{what}: {}", answer.text);
    answer.body
}

/// What `tollgate archive …` prints.
fn command(server: &Served, args: &[&str]) -> String {
    let address = format!("http://{}", server.address);
    let ran = Command::new(BINARY)
        .arg("archive")
        .args(args)
        .args(["--server", &address])
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{args:?}: {told}");
    said
}

#[test]
fn a_day_is_exported_dropped_and_restored_line_by_line() {
    a_day_goes_and_comes_back(None);
}

#[test]
fn a_day_is_exported_dropped_and_restored_line_by_line_on_postgresql() {
    a_day_goes_and_comes_back(Some(database()));
}

fn a_day_goes_and_comes_back(url: Option<String>) {
    let scene = Scene::new(url);
    let before = scene.lines();
    assert_eq!(before.len(), COUNT);
    let server = scene.start(0);
    let exported = reaches(&server, "EXPORTED");
    assert_eq!(exported["count"], COUNT);
    let totals = json!([
        {"status": "PROCESSING", "currency": "USD", "count": 630, "amount": "79065.00"},
        {"status": "REJECTED", "currency": "USD", "count": 70, "amount": "8785.00"},
    ]);
    assert_eq!(exported["totals"], totals);
    assert_eq!(
        scene.zcat(),
        before,
        "the file has the lines of the database"
    );
    let verified = command(&server, &["verify", DAY]);
    assert!(
        verified.contains("700 lines, equal to its manifest and the database"),
        "{verified}"
    );
    // A file that was damaged meanwhile is written again from the database before the day goes.
    let file = scene.folder.path().join(&scene.files()[0]);
    std::fs::write(&file, &read(&file)[..100]).unwrap();
    assert_eq!(done(&server, "run")["dropped"], 1);
    assert_eq!(scene.zcat(), before, "what was dropped is in the file");
    let dropped = reaches(&server, "DROPPED");
    assert_eq!(dropped["totals"], totals, "totals stay");
    assert_eq!(dropped["file"], scene.files()[0]);
    is_in_a_file_only(
        &server,
        &scene.files()[0],
        dropped["sha256"].as_str().unwrap(),
    );
    let verified = command(&server, &["verify", DAY]);
    assert!(
        verified.contains("700 lines, equal to its manifest\n"),
        "{verified}"
    );
    let listed = command(&server, &["list", "--type", "PAYMENT"]);
    assert!(listed.contains("DROPPED"), "{listed}");
    let again = act(&server, &format!("{DAY}/export")).unwrap();
    assert_eq!(again.status, 409, "{}", again.text);
    let shown = command(&server, &["restore", DAY, "--reason", "a question"]);
    assert!(
        shown.starts_with(&format!("{DAY} PAYMENT: 700 items, EXPORTED")),
        "{shown}"
    );
    assert!(command(&server, &["show", DAY]).contains("79065.00"));
    let back = get(server.address, "/payments/p0042").unwrap();
    assert_eq!(back.status, 200, "{}", back.text);
    assert_eq!(back.body["archived"], DAY, "{}", back.text);
    let acts = get(server.address, "/admin/audit?limit=100").unwrap().text;
    for action in ["ARCHIVE_EXPORTED", "ARCHIVE_DROPPED", "ARCHIVE_RESTORED"] {
        assert!(acts.contains(action), "{action}: {acts}");
    }
    server.kill();
    assert_eq!(scene.lines(), before, "restored line by line");

    into_an_empty_store(&scene, &before, &totals);
}

fn is_in_a_file_only(server: &Served, file: &str, digest: &str) {
    let gone = get(server.address, "/payments/p0042").unwrap();
    assert_eq!((gone.status, &gone.body["code"]), (410, &json!("archived")));
    says(&gone, &[DAY, file, digest]);
    let because = json!({"reason": "a test"});
    for act in [
        "/payments/p0042/reopen",
        "/admin/dead-letters/PAYMENT/p0042/replay",
    ] {
        let refused = post(server.address, act, &because).unwrap();
        let said = (refused.status, &refused.body["code"]);
        assert_eq!(said, (409, &json!("archived")), "{}", refused.text);
    }
}

fn into_an_empty_store(scene: &Scene, lines: &[String], totals: &Value) {
    let folder = tempfile::tempdir().unwrap();
    for name in scene.files() {
        std::fs::copy(scene.folder.path().join(&name), folder.path().join(&name)).unwrap();
    }
    let other = Scene::empty(scene.url.as_ref().map(|_| database()), folder);
    let server = other.start(0);
    let view = done(&server, &format!("{DAY}/restore"))["days"][0].clone();
    assert_eq!(&view["totals"], totals);
    server.kill();
    assert_eq!(other.lines(), lines, "restored into an empty store");
}

#[test]
fn kill_9_at_each_edge_loses_nothing_and_the_next_start_goes_on() {
    killed_at_each_edge(None);
}

#[test]
fn kill_9_at_each_edge_loses_nothing_and_the_next_start_goes_on_on_postgresql() {
    killed_at_each_edge(Some(database()));
}

fn killed_at_each_edge(url: Option<String>) {
    let scene = Scene::new(url);
    let before = scene.lines();
    // Each start goes on where the one before was killed.
    for edge in [
        "export-page",
        "export-written",
        "export-named",
        "export-compared",
        "export-manifest-written",
        "export-manifest-named",
        "export-marked",
        "drop-compared",
    ] {
        scene.dies_at(edge, 0);
        assert_eq!(scene.lines(), before, "killed at {edge}");
    }
    assert_eq!(scene.files().len(), 2, "{:?}", scene.files());
    assert_eq!(scene.zcat(), before);
    if scene.url.is_none() {
        // The lines lie in a file of their own: they go after the commit, or with the next start.
        scene.dies_at("drop-committed", 0);
        assert_eq!(scene.lines(), before);
        scene.dies_at("drop-lines", 0);
    } else {
        scene.dies_at("drop-done", 0);
    }
    assert_eq!(scene.lines(), [""; 0], "it is in the file only");
    assert_eq!(scene.zcat(), before);
    for edge in ["restore-checked", "restore-page", "restore-done"] {
        let environment = [("TGTEST_DIE_AT", edge)];
        let server = Served::start_in(&environment, &scene.config(7));
        let restored = act(&server, &format!("{DAY}/restore"));
        assert!(restored.is_err(), "{edge}");
        assert_eq!(server.ended().0, None, "{edge}");
        assert_eq!(scene.zcat(), before, "{edge}");
    }
    assert_eq!(scene.lines(), before, "all of it is back");
    let server = scene.start(7);
    assert_eq!(reaches(&server, "EXPORTED")["count"], COUNT);
    let verified = done(&server, &format!("{DAY}/verify"));
    assert_eq!(verified["files"][0]["comparedWithDatabase"], true);
}

pub(super) fn says(answer: &Response, parts: &[&str]) {
    let error = answer.body["error"].as_str().unwrap();
    for part in parts {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains('\n'), "one sentence: {error}");
}

pub(super) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
