//! What only an archive in files promises: a crash between copy and delete, and files that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tollgate_core::archive::{ArchiveDay, DayState};
use tollgate_core::id::{BatchId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Archive, Author, Claim, Lanes, MoveWanted, NewItem, NewRecord, Queue, Records, SharedClock,
    StartRecord, Started, StatusMove, StoreError,
};
use tollgate_store::MovableTime;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

const DAY: Duration = Duration::from_hours(24);

fn open(folder: &Path, time: &MovableTime) -> SqliteStore {
    let options = SqliteOptions {
        time: time.clone(),
        ..SqliteOptions::at(folder.join("tollgate.db"))
    };
    SqliteStore::open(options).unwrap()
}

fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}

fn payment() -> Item {
    Item::new(&payments(), &ItemId::new("p"))
}

/// A payment that has ended, on a day that is over.
async fn with_one_ended(folder: &Path, time: &MovableTime) {
    let store = open(folder, time);
    let lane = LaneName::new("bank");
    let author = Author::new("ops", "because");
    store
        .change_lane(
            &lane,
            LaneChange {
                max_per_window: Some(100),
                window_size_secs: Some(4),
                ..LaneChange::default()
            },
            author,
        )
        .await
        .unwrap();
    let money = Money {
        minor: 100,
        currency: Currency::from_code("USD").unwrap(),
    };
    let record = NewRecord::new("acme", "SCHEDULED", money, "hash".into());
    let flow = FlowId::new("init");
    let new = NewItem::new(ItemId::new("p"), lane.clone(), record, "{}", flow);
    store.admit(&payments(), vec![new]).await.unwrap();
    let batch = BatchId::new("BATCH-1");
    let claim = Claim {
        item_type: payments(),
        lane,
        batch: batch.clone(),
        ahead: DAY,
        stale_after: DAY,
        limit: 1,
        credit_horizon: DAY,
    };
    let claimed = store.claim(claim).await.unwrap().remove(0);
    let start = StartRecord {
        id: claimed.id,
        fence: claimed.fence,
        flow: FlowId::new("exec"),
        started: Started::New,
    };
    store
        .record_starts(&payments(), &batch, vec![start], 3)
        .await
        .unwrap();
    let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
    assert!(store.finish(&payment(), 1, done).await.unwrap());
    time.advance(DAY);
}

async fn move_all(store: &SqliteStore) -> Result<u64, StoreError> {
    let wanted = MoveWanted {
        item_type: payments(),
        ended_before: ArchiveDay::of(store.now().await.unwrap()).start(),
        after: None,
        at_most: 10,
        remembered: true,
    };
    store.move_ended(wanted).await.map(|said| said.moved)
}

fn archive_file(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_archive = |file: &PathBuf| file.to_string_lossy().contains("-archive-");
    files.into_iter().find(is_archive).expect("an archive file")
}

/// The database with its log, as they lie on the disk.
fn database_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = ["tollgate.db", "tollgate.db-wal"].map(|name| folder.join(name));
    let there = files.into_iter().filter(|file| file.exists());
    there
        .map(|file| (file.clone(), fs::read(&file).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_crash_between_copy_and_delete_leaves_one_item_and_the_next_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let time = MovableTime::default();
    with_one_ended(folder.path(), &time).await;
    let before = database_files(folder.path());
    assert_eq!(move_all(&open(folder.path(), &time)).await.unwrap(), 1);
    // The copy is on the disk, and what followed it never happened.
    for (file, _) in database_files(folder.path()) {
        fs::remove_file(file).unwrap();
    }
    for (file, bytes) in before {
        fs::write(file, bytes).unwrap();
    }
    let store = open(folder.path(), &time);
    let view = store.item(&payment()).await.unwrap().unwrap();
    assert!(view.archived.is_none(), "the hot row is preferred");
    assert_eq!(move_all(&store).await.unwrap(), 1);
    let day = store
        .archived_days(&payments(), None, 10)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(day.count(), 1);
    let lines = store
        .archived_lines(&payments(), day.day, None, 10)
        .await
        .unwrap();
    assert_eq!(lines.len(), 1);
    assert!(
        store
            .item(&payment())
            .await
            .unwrap()
            .unwrap()
            .archived
            .is_some()
    );
}

#[tokio::test]
async fn a_copy_that_a_crash_has_left_is_removed_before_its_day_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let time = MovableTime::default();
    with_one_ended(folder.path(), &time).await;
    let before = database_files(folder.path());
    assert_eq!(move_all(&open(folder.path(), &time)).await.unwrap(), 1);
    for (file, _) in database_files(folder.path()) {
        fs::remove_file(file).unwrap();
    }
    for (file, bytes) in before {
        fs::write(file, bytes).unwrap();
    }
    let first = ArchiveDay::of(open(folder.path(), &time).now().await.unwrap()).before(1);
    // It was reopened and ended a day later; others ended on the first day.
    let later = format!(
        "UPDATE item_queue SET finished_at = finished_at + 86400000000;
         INSERT INTO archived_day (item_type, day, state) VALUES ('PAYMENT', {}, 'OPEN');",
        first.number()
    );
    let database = Connection::open(folder.path().join("tollgate.db")).unwrap();
    database.execute_batch(&later).unwrap();
    drop(database);
    let store = open(folder.path(), &time);
    let lines = async |day| {
        let lines = store.archived_lines(&payments(), day, None, 10).await;
        lines.unwrap().len()
    };
    assert_eq!(lines(first).await, 1, "what the crash has left");
    assert_eq!(
        store.close_days(&payments(), first.after(1)).await.unwrap(),
        1
    );
    assert_eq!(lines(first).await, 0, "its item is hot");
    time.advance(DAY);
    assert_eq!(move_all(&store).await.unwrap(), 1);
    store.close_days(&payments(), first.after(2)).await.unwrap();
    assert_eq!(lines(first.after(1)).await, 1, "an item of its day stays");
}

#[tokio::test]
async fn a_copy_that_a_crash_has_left_in_a_closed_day_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let time = MovableTime::default();
    with_one_ended(folder.path(), &time).await;
    let day = ArchiveDay::of(open(folder.path(), &time).now().await.unwrap()).before(1);
    // Others ended on it, and it was closed. Then the item is copied, and taking it out fails.
    let database = Connection::open(folder.path().join("tollgate.db")).unwrap();
    let damage = format!(
        "INSERT INTO archived_day (item_type, day, state) VALUES ('PAYMENT', {}, 'CLOSED');
         CREATE TRIGGER cut BEFORE DELETE ON item_queue BEGIN SELECT raise(ABORT, 'cut'); END;",
        day.number()
    );
    database.execute_batch(&damage).unwrap();
    let store = open(folder.path(), &time);
    move_all(&store).await.unwrap_err();
    let lines = async || {
        let lines = store.archived_lines(&payments(), day, None, 10).await;
        lines.unwrap().len()
    };
    assert_eq!(lines().await, 1, "the copy");
    // It is reopened, and ends a day later.
    let later = "DROP TRIGGER cut;
         UPDATE item_queue SET finished_at = finished_at + 86400000000";
    database.execute_batch(later).unwrap();
    store.close_days(&payments(), day.after(1)).await.unwrap();
    assert_eq!(lines().await, 0, "its item is hot");
    let view = store.archived_day(&payments(), day).await.unwrap();
    assert_eq!(view.unwrap().state, DayState::Closed);
}

#[tokio::test]
async fn an_archive_file_that_cannot_be_written_is_named_and_nothing_moves() {
    let folder = tempfile::tempdir().unwrap();
    let time = MovableTime::default();
    with_one_ended(folder.path(), &time).await;
    let day = ArchiveDay::of(open(folder.path(), &time).now().await.unwrap()).before(1);
    let file = folder
        .path()
        .join(format!("tollgate-archive-{}.db", day.month()));
    fs::write(
        &file,
        b"this is a note and no database, and long enough to be looked at",
    )
    .unwrap();
    let store = open(folder.path(), &time);
    let why = move_all(&store).await.unwrap_err().to_string();
    assert!(why.contains("tollgate-archive-"), "{why}");
    assert!(
        store
            .item(&payment())
            .await
            .unwrap()
            .unwrap()
            .archived
            .is_none()
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(move_all(&store).await.unwrap(), 1);
    assert_eq!(archive_file(folder.path()), file);
}
