//! SQLite: the cases of the ports, and what only a database in a file promises.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tollgate_conformance::store::Fixture;
use tollgate_core::Timestamp;
use tollgate_core::id::{Epoch, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Accounts, Admission, Author, Flows, JournalEntry, Lanes, NewAudit, NewItem, NewRecord, Queue,
    Records, Store, StoreError, StoreHealth, StoreResult,
};
use tollgate_store::MovableTime;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

tollgate_conformance::store_cases!(crate::sqlite::fixture);

pub(crate) struct SqliteFixture {
    dir: TempDir,
    time: MovableTime,
    /// Empty only while it restarts.
    store: Mutex<Option<Arc<SqliteStore>>>,
}

#[expect(clippy::unused_async, reason = "other adapters await their server")]
pub(crate) async fn fixture() -> SqliteFixture {
    let (dir, time) = (tempfile::tempdir().unwrap(), MovableTime::default());
    let store = Mutex::new(Some(Arc::new(open_with(dir.path(), &time))));
    SqliteFixture { dir, time, store }
}

fn open_with(dir: &Path, time: &MovableTime) -> SqliteStore {
    let options = SqliteOptions {
        time: time.clone(),
        ..SqliteOptions::at(dir.join("tollgate.db"))
    };
    SqliteStore::open(options).unwrap()
}

#[async_trait::async_trait]
impl Fixture for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        let store = self.store.lock().unwrap();
        Arc::clone(store.as_ref().unwrap()) as Arc<dyn Store>
    }
    async fn advance(&self, by: Duration) {
        self.time.advance(by);
    }
    async fn turn_back(&self, by: Duration) {
        self.time.turn_back(by);
    }
    async fn restart(&self) {
        let mut store = self.store.lock().unwrap();
        let old = store.take().and_then(Arc::into_inner);
        drop(old.expect("a case holds no store while it restarts"));
        *store = Some(Arc::new(open_with(self.dir.path(), &self.time)));
    }
    async fn another(&self) -> Box<dyn Fixture> {
        Box::new(fixture().await)
    }
    async fn damage(&self, sql: &str) {
        let file = Connection::open(self.dir.path().join("tollgate.db")).unwrap();
        assert_eq!(file.execute(sql, []).unwrap(), 1);
    }
    async fn typed(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let shell = Connection::open(self.dir.path().join("tollgate.db")).unwrap();
        shell.busy_timeout(Duration::from_secs(5)).unwrap();
        crate::sqlite_shell::shown(&shell, sql).map_err(|e| e.to_string())
    }
}

struct File {
    _dir: TempDir,
    path: PathBuf,
}

fn file() -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tollgate.db");
    File { _dir: dir, path }
}

impl File {
    fn open(&self) -> SqliteStore {
        SqliteStore::open(SqliteOptions::at(&self.path)).unwrap()
    }
    fn open_with_pages(&self, pages: u32) -> SqliteStore {
        let options = SqliteOptions {
            max_pages: Some(pages),
            ..SqliteOptions::at(&self.path)
        };
        SqliteStore::open(options).unwrap()
    }
    fn refusal(&self) -> String {
        match SqliteStore::open(SqliteOptions::at(&self.path)) {
            Ok(_) => panic!("{} was opened", self.path.display()),
            Err(why) => why.to_string(),
        }
    }
}

fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}

async fn with_lane(store: &SqliteStore) {
    let change = LaneChange {
        max_per_window: Some(100),
        window_size_secs: Some(4),
        ..LaneChange::default()
    };
    let (name, author) = (LaneName::new("bank"), Author::new("ops", "because"));
    store.change_lane(&name, change, author).await.unwrap();
}

fn item(id: &str) -> NewItem {
    let money = Money {
        minor: 1,
        currency: Currency::from_code("USD").unwrap(),
    };
    let record = NewRecord::new("acme", "SCHEDULED", money, "hash".into());
    let flow = FlowId::new(format!("init-{id}"));
    let (id, lane) = (ItemId::new(id), LaneName::new("bank"));
    NewItem::new(id, lane, record, "x".repeat(2000), flow)
}

fn batch(name: usize) -> Vec<NewItem> {
    (0..5).map(|n| item(&format!("b{name}-{n}"))).collect()
}

/// How many items are there by the record, and by the counters.
async fn counted(store: &SqliteStore) -> (u64, u64) {
    let (payments, bank) = (payments(), LaneName::new("bank"));
    let totals = store.totals(&payments, Timestamp::MIN, Timestamp::MAX);
    let records = totals.await.unwrap().iter().map(|t| t.count).sum();
    let windows = store.windows(&bank, Timestamp::MIN, 10_000).await.unwrap();
    let slots = windows.iter().map(|w| u64::from(w.used)).sum();
    (records, slots)
}

#[tokio::test]
async fn a_second_handle_on_the_file_is_refused_with_one_sentence() {
    let file = file();
    let first = file.open();
    let why = file.refusal();
    assert!(
        why.contains("tollgate.db is in use by another process"),
        "{why}"
    );
    assert!(!why.contains('\n'), "{why}");
    drop(first);
    file.open();
}

#[tokio::test]
async fn a_symlink_does_not_go_round_the_lock() {
    let file = file();
    let first = file.open();
    let link = file.path.with_file_name("link.db");
    std::os::unix::fs::symlink(&file.path, &link).unwrap();
    let why = SqliteStore::open(SqliteOptions::at(&link)).unwrap_err();
    assert!(
        why.to_string().contains("is in use by another process"),
        "{why}"
    );
    drop(first);
    let second = SqliteStore::open(SqliteOptions::at(&link)).unwrap();
    let why = file.refusal();
    assert!(why.contains("is in use by another process"), "{why}");
    drop(second);
}

#[tokio::test]
async fn a_link_to_a_file_that_is_not_there_yet_creates_it() {
    let file = file();
    let link = file.path.with_file_name("link.db");
    std::os::unix::fs::symlink(&file.path, &link).unwrap();
    let _first = SqliteStore::open(SqliteOptions::at(&link)).unwrap();
    let why = file.refusal();
    assert!(why.contains("is in use by another process"), "{why}");
}

#[tokio::test]
async fn nobody_but_its_owner_may_read_any_of_its_files() {
    let file = file();
    let store = file.open();
    with_lane(&store).await;
    let folder = std::fs::read_dir(file.path.parent().unwrap()).unwrap();
    let mut modes: Vec<(String, u32)> = folder
        .map(|entry| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            (entry.file_name().into_string().unwrap(), mode)
        })
        .collect();
    modes.sort();
    let names = ["", "-shm", "-wal", ".lock"];
    let expected = names.map(|end| (format!("tollgate.db{end}"), 0o600));
    assert_eq!(modes, expected);
}

#[tokio::test]
async fn a_damaged_file_is_given_up_for_good_and_says_so_in_one_sentence() {
    let file = file();
    let store = file.open();
    with_lane(&store).await;
    store.admit(&payments(), batch(0)).await.unwrap();
    drop(store);
    let store = file.open();
    // All but the schema, which was read when it was opened.
    let damaged = std::fs::OpenOptions::new().write(true).open(&file.path);
    let (damaged, pages) = (
        damaged.unwrap(),
        std::fs::metadata(&file.path).unwrap().len(),
    );
    let rubbish = vec![0xAB; usize::try_from(pages).unwrap() - 4096];
    std::os::unix::fs::FileExt::write_all_at(&damaged, &rubbish, 4096).unwrap();
    let mut tasks = JoinSet::new();
    let store = Arc::new(store);
    for n in 1..20 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.admit(&payments(), batch(n)).await });
    }
    for answer in tasks.join_all().await {
        let why = answer.expect_err("201 on a damaged file");
        assert!(matches!(why, StoreError::Unavailable(_)), "{why}");
    }
    let why = store.broken().await;
    assert!(why.contains("the file is damaged"), "{why}");
    assert!(!why.contains('\n'), "{why}");
    let refused = store.try_write().await.unwrap_err();
    assert!(refused.to_string().contains(&why), "{refused}");
}

#[tokio::test]
async fn a_file_of_another_build_of_the_same_version_is_refused() {
    let file = file();
    drop(file.open());
    let connection = Connection::open(&file.path).unwrap();
    let other = "UPDATE refinery_schema_history SET checksum = '1' WHERE version = 1";
    connection.execute(other, []).unwrap();
    let why = file.refusal();
    assert!(why.contains("another build of the same version"), "{why}");
    assert!(why.contains("create the database again"), "{why}");
}

#[tokio::test]
async fn a_file_of_a_newer_release_is_refused_and_left_alone() {
    let file = file();
    drop(file.open());
    let connection = Connection::open(&file.path).unwrap();
    connection
        .execute(
            "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
             VALUES (9999, 'from_the_future', '2036-01-01T00:00:00Z', '1')",
            [],
        )
        .unwrap();
    let why = file.refusal();
    assert!(why.contains("newer release of tollgate"), "{why}");
    let version: i64 = connection
        .query_row(
            "SELECT max(version) FROM refinery_schema_history",
            [],
            |r| r.get(0),
        )
        .unwrap();
    assert_eq!(version, 9999);
}

#[tokio::test]
async fn what_is_not_a_database_is_refused_and_left_alone() {
    let file = file();
    let letter = "Dear bank, this is not a database. ".repeat(200);
    std::fs::write(&file.path, &letter).unwrap();
    let why = file.refusal();
    assert!(why.contains("is not a SQLite database"), "{why}");
    assert_eq!(std::fs::read_to_string(&file.path).unwrap(), letter);
}

#[tokio::test]
async fn a_new_file_gives_freed_pages_back_a_few_at_a_time() {
    let file = file();
    drop(file.open());
    let shell = Connection::open(&file.path).unwrap();
    let number = |sql: &str| -> i64 { shell.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(number("PRAGMA auto_vacuum"), 2, "incremental");
    let large = "INSERT INTO audit_log (action, actor, detail, created_at)
         VALUES ('TEST', 'test', hex(zeroblob(500000)), 0)";
    shell.execute(large, []).unwrap();
    shell.execute("DELETE FROM audit_log", []).unwrap();
    let (pages, free) = (number("PRAGMA page_count"), number("PRAGMA freelist_count"));
    assert!(free > 100, "{free} of {pages} pages are free");
    let mut vacuum = shell.prepare("PRAGMA incremental_vacuum(100)").unwrap();
    let mut steps = vacuum.query([]).unwrap();
    while steps.next().unwrap().is_some() {}
    assert_eq!(number("PRAGMA page_count"), pages - 100);
}

#[tokio::test]
async fn a_path_that_cannot_be_opened_is_named() {
    let file = file();
    let options = SqliteOptions::at(file.path.join("below/a/file.db"));
    let why = SqliteStore::open(options).unwrap_err().to_string();
    assert!(why.contains("below/a/file.db"), "{why}");
}

#[tokio::test]
async fn a_full_disk_writes_nothing_by_halves_and_the_store_goes_on_with_more_room() {
    let file = file();
    let store = file.open_with_pages(150);
    with_lane(&store).await;
    let mut admitted = 0;
    let refused = loop {
        match store.admit(&payments(), batch(admitted)).await {
            Ok(_) => admitted += 1,
            Err(why) => break why,
        }
        assert!(admitted < 1000, "the disk never fills up");
    };
    assert!(admitted > 0, "not even one batch fits");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    let there = 5 * admitted as u64;
    assert_eq!(counted(&store).await, (there, there), "nothing by halves");
    for n in 0..5 {
        let id = ItemId::new(format!("b{admitted}-{n}"));
        let view = store.item(&Item::new(&payments(), &id)).await.unwrap();
        assert!(view.is_none(), "{id} is half there");
    }
    drop(store);
    let store = file.open_with_pages(1000);
    let answers = store.admit(&payments(), batch(admitted)).await.unwrap();
    assert!(answers.iter().all(|a| matches!(a, Admission::New(_))));
    assert_eq!(counted(&store).await, (there + 5, there + 5));
}

#[tokio::test]
async fn when_the_disk_fills_up_everyone_in_the_group_hears_that_it_is_full() {
    let file = file();
    let store = Arc::new(file.open_with_pages(120));
    with_lane(&store).await;
    let mut tasks = JoinSet::new();
    for n in 0..100 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.admit(&payments(), batch(n)).await });
    }
    let answers: Vec<StoreResult<Vec<Admission>>> = tasks.join_all().await;
    let admitted = answers.iter().filter(|a| a.is_ok()).count() as u64;
    assert!(admitted < 100, "the disk never fills up");
    for why in answers.into_iter().filter_map(Result::err) {
        assert!(matches!(why, StoreError::Unavailable(_)), "{why}");
    }
    assert_eq!(counted(&store).await, (5 * admitted, 5 * admitted));
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_cut_its_transaction() {
    let file = file();
    let store = file.open();
    with_lane(&store).await;
    let items = payments();
    tokio::select! {
        biased;
        _ = store.admit(&items, batch(0)) => {}
        () = std::future::ready(()) => {}
    }
    // The writer takes things in their order: when this is done, so is what came before.
    store.admit(&items, vec![item("after")]).await.unwrap();
    assert_eq!(counted(&store).await, (6, 6));
}

#[tokio::test]
async fn what_was_handed_over_is_written_when_the_store_closes() {
    let file = file();
    let store = file.open();
    with_lane(&store).await;
    let items = payments();
    tokio::select! {
        biased;
        _ = store.admit(&items, batch(0)) => {}
        () = std::future::ready(()) => {}
    }
    drop(store);
    assert_eq!(counted(&file.open()).await, (5, 5));
}

#[tokio::test]
async fn many_writers_share_commits_and_each_gets_its_own_answer() {
    const WRITERS: u64 = 400;
    const FRAME: u64 = 4096 + 24;
    let file = file();
    let store = Arc::new(file.open());
    with_lane(&store).await;
    let log = file.path.with_extension("db-wal");
    let before = std::fs::metadata(&log).unwrap().len();
    let mut tasks = JoinSet::new();
    for n in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let name = format!("p{n}");
            let flow = FlowId::new(format!("init-{name}"));
            let answers = store.admit(&payments(), vec![item(&name)]).await.unwrap();
            assert!(
                matches!(&answers[..], [Admission::New(placed)] if placed.init_flow == flow),
                "{name} was answered {answers:?}"
            );
        });
    }
    tasks.join_all().await;
    assert_eq!(counted(&store).await, (WRITERS, WRITERS));
    let frames = (std::fs::metadata(&log).unwrap().len() - before) / FRAME;
    // One commit each would write a frame for each of the tables and indexes, every time.
    assert!(
        frames < 4 * WRITERS,
        "{frames} frames: commits of their own"
    );
}

#[tokio::test]
async fn one_failing_use_case_in_a_group_takes_nobody_along() {
    let file = file();
    let store = Arc::new(file.open());
    with_lane(&store).await;
    let mut tasks = JoinSet::new();
    for n in 0..60 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            match n % 3 {
                0 => store.admit(&payments(), batch(n)).await.map(|_| "admitted"),
                1 => {
                    let (name, never) = (
                        LaneName::new("bank"),
                        LaneChange {
                            max_per_window: Some(0),
                            ..LaneChange::default()
                        },
                    );
                    let author = Author::new("ops", "a mistake");
                    let refused = store.change_lane(&name, never, author).await;
                    assert!(
                        matches!(refused, Err(StoreError::Invalid(_))),
                        "{refused:?}"
                    );
                    Ok("refused")
                }
                _ => {
                    let entry = JournalEntry {
                        key: "k".into(),
                        result_json: "1".into(),
                    };
                    let fenced = store.journal(Epoch(99), &FlowId::new("f"), entry).await;
                    assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
                    Ok("fenced")
                }
            }
        });
    }
    for answer in tasks.join_all().await {
        answer.unwrap();
    }
    assert_eq!(counted(&store).await, (100, 100));
    let audited = NewAudit {
        action: "STILL_HERE".into(),
        ..NewAudit::default()
    };
    store.write_audit(audited).await.unwrap();
}
