//! The move into the archive, killed with -9 at each of its edges. The judges are the bank's ledger and the rows themselves:
//! what is hot and what is known is what was accepted, and what is asked answers as before.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_conformance::postgres::{count, sql};
use tollgate_core::archive::ArchiveDay;
use tollgate_sandbox::{Bank, BankOptions};

use crate::files::bulk::{done, later};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served, Setting, eventually, eventually_or};

/// More than two steps of the move take.
const PAID: usize = 120;
/// And one that waits.
const ACCEPTED: i64 = 121;
/// With so many hot days nothing moves, or all that has ended.
const STAY: u32 = 365;
const MOVE: u32 = 3;
/// How long ago it has ended.
const DAYS_AGO: u32 = 60;
/// Every so many payments are asked for.
const SOME: usize = 17;
const NOON_US: i64 = 12 * 3_600_000_000;

struct Fixture {
    setting: Setting,
    /// None on SQLite.
    url: Option<String>,
    runtime: tokio::runtime::Runtime,
    bank: Bank,
    /// On which they ended.
    day: ArchiveDay,
    /// For exports, once there is something to export.
    exports: TempDir,
}

/// Payments by where they are.
#[derive(Debug, PartialEq, Eq)]
struct Rows {
    hot: i64,
    known: i64,
    archived: i64,
    /// In both.
    copies: i64,
}

impl Fixture {
    /// With nothing in it.
    fn empty(url: Option<String>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        let extra = format!("retention.payments.hot_days = {STAY}\nretention.export_dir = \"\"\n");
        let setting = match &url {
            None => Setting::new(&bank, &extra),
            Some(url) => Setting::on(url, &bank, &extra),
        };
        #[expect(clippy::disallowed_methods, reason = "a test's own clock")]
        let today = ArchiveDay::of(jiff::Timestamp::now());
        Self {
            setting,
            url,
            runtime,
            bank,
            day: today.before(DAYS_AGO),
            exports: tempfile::tempdir().unwrap(),
        }
    }

    /// Payments that ended long ago, and one that waits.
    fn new(url: Option<String>) -> Self {
        let fixture = Self::empty(url);
        let server = fixture.start(STAY);
        pay(&server);
        // A flow that still runs would keep its items.
        eventually("their flows have ended", LONG, || {
            let running = "SELECT count(*) FROM flow WHERE state IN ('PENDING', 'LIVE')";
            (fixture.number(running) == 0).then_some(())
        });
        server.kill();
        fixture.make_old();
        fixture
    }

    fn config(&self, hot_days: u32) -> PathBuf {
        let config = self.setting.config("127.0.0.1:0");
        let text = std::fs::read_to_string(&config).unwrap();
        let days = format!("hot_days = {hot_days}\n");
        std::fs::write(&config, text.replace("hot_days = 365\n", &days)).unwrap();
        config
    }

    fn start(&self, hot_days: u32) -> Served {
        Served::start_with(&[], &self.config(hot_days))
    }

    /// One that has a folder for exports.
    fn start_exporting(&self, hot_days: u32) -> Served {
        let config = self.config(hot_days);
        let text = std::fs::read_to_string(&config).unwrap();
        let folder = format!("export_dir = \"{}\"\n", self.exports.path().display());
        std::fs::write(&config, text.replace("export_dir = \"\"\n", &folder)).unwrap();
        Served::start_with(&[], &config)
    }

    fn dies_at(&self, edge: &str) {
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "--config"]).arg(self.config(MOVE));
        serve.env("TGTEST_DIE_AT", edge).stderr(Stdio::null());
        let mut server = serve.spawn().unwrap();
        let ended = eventually(edge, LONG, || server.try_wait().unwrap());
        assert_eq!(ended.signal(), Some(9), "{edge}: {ended}");
    }

    /// What has ended did so around noon of the day. While no server runs.
    fn make_old(&self) {
        let first = self.number("SELECT min(created_at) FROM item_queue");
        let by = first - self.day.start().as_microsecond() - NOON_US;
        let shifted = |columns: &[&str]| {
            let set = columns.iter().map(|it| format!("{it} = {it} - {by}"));
            set.collect::<Vec<_>>().join(", ")
        };
        let items = shifted(&[
            "created_at",
            "requested_time",
            "window_start",
            "scheduled_time",
            "scheduled_exec_time",
            "claimed_at",
            "dispatched_at",
            "updated_at",
            "finished_at",
        ]);
        let attempts = shifted(&["turn_at", "settled_at"]);
        let change = format!(
            "UPDATE item_queue SET {items} WHERE finished_at IS NOT NULL;
             UPDATE attempt SET {attempts};"
        );
        match &self.url {
            None => self.file().execute_batch(&change).unwrap(),
            Some(url) => {
                let bodies = shifted(&["created_at"]);
                let change =
                    format!("{change} UPDATE item_body SET {bodies} WHERE item_id <> 'later'");
                self.runtime.block_on(sql(url, &change));
            }
        }
    }

    fn file(&self) -> Connection {
        Connection::open(self.setting.folder.path().join("t.db")).unwrap()
    }

    fn number(&self, question: &str) -> i64 {
        match &self.url {
            None => self
                .file()
                .query_row(question, [], |row| row.get(0))
                .unwrap(),
            Some(url) => self.runtime.block_on(count(url, question)),
        }
    }

    /// Counted in the tables, not by the program.
    fn rows(&self) -> Rows {
        const ARCHIVED: &str = "SELECT count(*) FROM archived_item";
        const COPIES: &str = "SELECT count(*) FROM archived_item a
             JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id";
        let hot = self.number("SELECT count(*) FROM item_queue WHERE item_type = 'PAYMENT'");
        let known = self.number("SELECT count(*) FROM known_item");
        let [archived, copies] = match &self.url {
            Some(_) => [ARCHIVED, COPIES].map(|it| self.number(it)),
            None => self.in_archive([ARCHIVED, COPIES]),
        };
        Rows {
            hot,
            known,
            archived,
            copies,
        }
    }

    /// Beside the file of the month, if there is one.
    fn in_archive(&self, questions: [&str; 2]) -> [i64; 2] {
        let name = format!("t-archive-{}.db", self.day.month());
        let archive = self.setting.folder.path().join(name);
        if !archive.exists() {
            return [0, 0];
        }
        let db = self.file();
        let attach = format!("ATTACH '{}' AS archive", archive.display());
        db.execute_batch(&attach).unwrap();
        questions.map(|it| db.query_row(it, [], |row| row.get(0)).unwrap())
    }

    /// What a server says of the day, and of every so many payments of it; not when, nor from where it has it.
    fn told(&self, server: &Served, every: usize) -> Vec<Value> {
        let (address, day) = (server.address, self.day);
        let mut totals = get(address, &format!("/admin/totals?date={day}")).unwrap();
        totals.body["asOf"].take();
        totals.body["source"].take();
        let mut told = vec![totals.body];
        for id in (0..PAID).step_by(every).map(id_of) {
            let mut shown = get(address, &format!("/payments/{id}")).unwrap();
            assert_eq!(shown.status, 200, "{id}: {}", shown.text);
            shown.body.as_object_mut().unwrap().remove("archived");
            shown.body["source"].take();
            told.push(shown.body);
        }
        told
    }

    /// The same and the certificate of the day, from a server under which nothing moves. Repeats are repeats.
    fn answers(&self) -> Vec<Value> {
        let server = self.start(STAY);
        let (address, day) = (server.address, self.day);
        let mut answers = self.told(&server, SOME);
        let proof = format!("/admin/rate-limit/certificate?lane=default&date={day}");
        let mut proof = get(address, &proof).unwrap().body;
        proof["source"].take();
        answers.push(proof);
        for id in (0..PAID).step_by(SOME).map(id_of) {
            let again = post(address, "/payments", &payment(&id)).unwrap();
            assert_eq!(again.status, 200, "{id}: {}", again.text);
            let mut other = payment(&id);
            other["amount"] = json!("1.00");
            let other = post(address, "/payments", &other).unwrap();
            assert_eq!(other.status, 409, "{id}: {}", other.text);
        }
        let waits = get(address, "/payments/later").unwrap().body;
        assert_eq!(waits["status"], "SCHEDULED");
        server.kill();
        answers
    }

    /// By the bank's books each was paid once, whatever was killed and repeated.
    fn each_was_paid_once(&self) {
        let paid = self.bank.ledger().effective();
        assert_eq!(paid.len(), PAID);
        assert!(paid.values().all(|times| *times == 1), "{paid:?}");
        assert_eq!(self.bank.ledger().arrivals(), PAID);
    }
}

fn id_of(number: usize) -> String {
    format!("p{number:03}")
}

fn pay(server: &Served) {
    let address = server.address;
    let limit = json!({"configName": "default", "maxPerWindow": 1000, "windowSizeSecs": 1,
                       "maxPerSecond": 1000, "reason": "for a test"});
    let limited = post(address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(limited.status, 200, "{}", limited.text);
    let lines = (0..PAID).map(|n| format!("{}\n", payment(&id_of(n))));
    let file: String = lines.collect();
    let answer = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    let taken = done(address, answer.body["batchId"].as_str().unwrap());
    assert_eq!(taken["accepted"], PAID);
    let waits = post(address, "/payments", &later("later")).unwrap();
    assert_eq!(waits.status, 201, "{}", waits.text);
    eventually_or("all are paid", LONG, || {
        let totals = get(address, "/admin/totals").unwrap();
        let all = totals.body["payments"].as_array().unwrap().clone();
        let paid = all.iter().find(|it| it["status"] == "PROCESSING");
        let is_all = paid.is_some_and(|it| it["count"] == PAID);
        is_all.then_some(()).ok_or(totals.text)
    });
}

#[test]
fn kill_9_at_each_edge_of_the_move_loses_nothing_and_leaves_nothing_in_two_places() {
    killed_at_each_edge(
        None,
        &["move-lines", "move-copied", "move-taken", "move-committed"],
    );
}

#[test]
fn kill_9_at_each_edge_of_the_move_loses_nothing_and_leaves_nothing_in_two_places_on_postgresql() {
    killed_at_each_edge(
        Some(database()),
        &["move-lines", "move-taken", "move-committed"],
    );
}

fn killed_at_each_edge(url: Option<String>, edges: &[&str]) {
    let fixture = Fixture::new(url);
    let before = fixture.answers();
    let untouched = Rows {
        hot: ACCEPTED,
        known: 0,
        archived: 0,
        copies: 0,
    };
    assert_eq!(fixture.rows(), untouched);
    // Twice, so that some are moved and some are not when it dies. Each start goes on where the one before was killed.
    for moved_before in [0, 50] {
        for edge in edges {
            fixture.dies_at(edge);
            let rows = fixture.rows();
            let moved = if *edge == "move-committed" {
                moved_before + 50
            } else {
                moved_before
            };
            assert_eq!((rows.hot, rows.known), (ACCEPTED - moved, moved), "{edge}");
            assert_eq!(rows.archived - rows.copies, moved, "{edge}: {rows:?}");
            // SQLite's archive is a file of its own: the copy of one step may lie there before its rows go.
            let most = if fixture.url.is_some() { 0 } else { 50 };
            assert!(rows.copies <= most, "{edge}: {rows:?}");
            assert_eq!(fixture.answers(), before, "{edge}");
        }
    }
    let server = fixture.start_exporting(MOVE);
    eventually_or("the rest is moved", LONG, || {
        let view = get(server.address, &format!("/admin/archive/{}", fixture.day)).unwrap();
        let is_all = view.body["days"][0]["count"] == PAID;
        is_all.then_some(()).ok_or(view.text)
    });
    act(&server, "run");
    assert_eq!(act(&server, "run")["moved"], 0);
    verified(&server, &fixture);
    let told = fixture.told(&server, 1);
    server.kill();
    let archived = Rows {
        hot: 1,
        known: ACCEPTED - 1,
        archived: ACCEPTED - 1,
        copies: 0,
    };
    assert_eq!(fixture.rows(), archived);
    assert_eq!(fixture.answers(), before, "all of it is archived");
    fixture.each_was_paid_once();
    restored_into_an_empty_store(&fixture, &told);
}

/// What the move has written, through an export into a store that has nothing, item by item.
fn restored_into_an_empty_store(from: &Fixture, told: &[Value]) {
    let empty = Fixture::empty(from.url.as_ref().map(|_| database()));
    for file in std::fs::read_dir(from.exports.path()).unwrap() {
        let file = file.unwrap();
        let to = empty.exports.path().join(file.file_name());
        std::fs::copy(file.path(), to).unwrap();
    }
    let server = empty.start_exporting(STAY);
    act(&server, &format!("{}/restore", from.day));
    verified(&server, from);
    assert_eq!(empty.told(&server, 1), told);
    for id in (0..PAID).step_by(SOME).map(id_of) {
        let again = post(server.address, "/payments", &payment(&id)).unwrap();
        assert_eq!(again.status, 200, "{id}: {}", again.text);
    }
    assert_eq!(empty.bank.ledger().arrivals(), 0, "nothing is paid again");
}

fn act(server: &Served, what: &str) -> Value {
    let because = json!({"reason": "a test"});
    let done = post(server.address, &format!("/admin/archive/{what}"), &because).unwrap();
    assert_eq!(done.status, 200, "{what}: {}", done.text);
    done.body
}

/// Every line of the file is in the database.
fn verified(server: &Served, fixture: &Fixture) {
    let verified = act(server, &format!("{}/verify", fixture.day));
    let file = &verified["files"][0];
    assert_eq!(file["lines"], PAID, "{verified}");
    assert_eq!(file["comparedWithDatabase"], true, "{verified}");
}
