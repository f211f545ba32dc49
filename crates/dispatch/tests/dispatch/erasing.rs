//! The eraser on items that were moved out of the hot tables, on both stores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tollgate_conformance::postgres::shared;
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayState};
use tollgate_core::erasure::{BodyRules, ErasureStage, ErasureWish};
use tollgate_core::id::{BatchId, ErasureId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Admission, Author, Claim, ErasureView, MoveWanted, NewItem, NewRecord, RestoredFor,
    StartRecord, Started, StatusMove, Store,
};
use tollgate_dispatch::{Eraser, ExportedFiles, FileTrouble, Sought};

use crate::town::Town;

const ACCOUNT: &str = "DE02120300000000202051";
const DAY: Duration = Duration::from_hours(24);

/// Bodies of these tests are an account, or the payment that they tell about.
const RULES: BodyRules = BodyRules {
    erase: |_, _| "{}".to_owned(),
    is_of: |_, body, account| body.contains(account),
    payment: |body| {
        let id = body.strip_prefix("{\"about\":\"")?.strip_suffix("\"}")?;
        Some(ItemId::new(id))
    },
};

#[tokio::test]
async fn what_was_archived_is_erased_and_its_id_stays_taken() {
    archived(Town::new(1000).await).await;
}

#[tokio::test]
async fn what_was_archived_is_erased_and_its_id_stays_taken_on_postgres() {
    let url = shared().database().await;
    archived(Town::on_postgres(&url, 1000).await).await;
}

async fn archived(town: Town) {
    end_some(&town, "PAYMENT", &[("a", &of(ACCOUNT)), ("b", &of("DE00"))]).await;
    end_some(
        &town,
        "NOTIFICATION",
        &[("n", &about("a")), ("m", &about("b"))],
    )
    .await;
    move_all(&town, &["PAYMENT", "NOTIFICATION"]).await;
    end_some(&town, "PAYMENT", &[("hot", &of(ACCOUNT))]).await;
    let first = erase(&town, "1").await;
    assert_eq!((first.items, first.archived), (1, 2), "{first:?}");
    for (kind, id, is_erased) in [
        ("PAYMENT", "a", true),
        ("PAYMENT", "b", false),
        ("NOTIFICATION", "n", true),
        ("NOTIFICATION", "m", false),
    ] {
        let item = Item::new(&ItemType::new(kind), &ItemId::new(id));
        let line = town.store.archived_item(&item).await.unwrap().unwrap();
        assert_eq!(line.body.as_deref() == Some("{}"), is_erased, "{item}");
        assert_eq!(line.erased_at.is_some(), is_erased, "{item}");
        assert_eq!(line.amount_minor, 100);
    }
    let payment = ItemType::new("PAYMENT");
    let again = town.store.admit(&payment, vec![new("a", &of(ACCOUNT))]);
    assert_eq!(again.await.unwrap(), [Admission::Erased]);
    let second = erase(&town, "2").await;
    assert_eq!((second.items, second.archived, second.texts), (0, 0, 0));
    // What was erased while it was hot is known as erased once it is moved.
    move_all(&town, &["PAYMENT"]).await;
    let again = town.store.admit(&payment, vec![new("hot", &of(ACCOUNT))]);
    assert_eq!(again.await.unwrap(), [Admission::Erased]);
    assert_eq!(erase(&town, "3").await.archived, 0);
}

/// A folder that takes exports, and may not have the file that the store knows.
struct Folder {
    store: Arc<dyn Store>,
    has_file: bool,
}

#[async_trait]
impl ExportedFiles for Folder {
    async fn has_any(
        &self,
        _: &ItemType,
        _: ArchiveDay,
        _: &dyn Sought,
    ) -> Result<bool, FileTrouble> {
        let missing = || FileTrouble::Lasting("the manifest is missing".into());
        self.has_file.then_some(true).ok_or_else(missing)
    }

    async fn restore(&self, _: &ItemType, _: ArchiveDay) -> Result<(), FileTrouble> {
        Ok(())
    }

    async fn export(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        mark(&*self.store, item_type, day, "new.ndjson.gz").await;
        Ok(())
    }

    async fn drop_day(&self, _: &ItemType, _: ArchiveDay) -> Result<(), FileTrouble> {
        Ok(())
    }
}

async fn export_to(store: &dyn Store, file: &str) -> DayExport {
    DayExport {
        file: file.into(),
        digest: file.into(),
        at: store.now().await.unwrap(),
    }
}

async fn mark(store: &dyn Store, item_type: &ItemType, day: ArchiveDay, file: &str) {
    let export = export_to(store, file).await;
    let marked = store.mark_exported(item_type, day, export);
    assert!(marked.await.unwrap());
}

/// A payment of the account, in the archive and in a file.
async fn exported(town: &Town) -> ArchiveDay {
    let kind = ItemType::new("PAYMENT");
    end_some(town, "PAYMENT", &[("a", &of(ACCOUNT))]).await;
    let day = ArchiveDay::of(town.store.now().await.unwrap());
    move_all(town, &["PAYMENT"]).await;
    town.store.close_days(&kind, day.after(1)).await.unwrap();
    mark(&*town.store, &kind, day, "old.ndjson.gz").await;
    day
}

fn folder(town: &Town, has_file: bool) -> Arc<dyn ExportedFiles> {
    let store = Arc::clone(&town.store);
    Arc::new(Folder { store, has_file })
}

#[tokio::test]
async fn without_a_folder_an_exported_day_is_named_and_its_file_is_written_by_the_next_erasure() {
    let town = Town::new(1000).await;
    let day = exported(&town).await;
    for id in ["1", "2"] {
        let done = erase(&town, id).await;
        assert_eq!((done.files, done.left_out), (0, 1), "{done:?}");
        let why = &done.first_left_out[0].reason;
        assert!(why.contains("old.ndjson.gz") && why.contains("erase again"));
    }
    let kind = ItemType::new("PAYMENT");
    let view = town.store.archived_day(&kind, day).await.unwrap().unwrap();
    assert_eq!(view.state, DayState::Closed, "the next round writes it");
    let third = erase_with(&town, "3", by_account(), Some(folder(&town, true))).await;
    assert_eq!((third.files, third.left_out), (1, 0), "{third:?}");
    let fourth = erase_with(&town, "4", by_account(), Some(folder(&town, true))).await;
    assert_eq!((fourth.files, fourth.left_out), (0, 0), "{fourth:?}");
}

#[tokio::test]
async fn a_file_that_is_in_another_folder_is_named() {
    let town = Town::new(1000).await;
    exported(&town).await;
    let done = erase_with(&town, "1", by_account(), Some(folder(&town, false))).await;
    assert_eq!((done.archived, done.files, done.left_out), (1, 1, 1));
    let why = &done.first_left_out[0].reason;
    assert!(why.contains("delete old.ndjson.gz"), "{why}");
}

/// One day's file is missing. That of the days after it cannot be read for a while.
struct Unmounted {
    missing: ArchiveDay,
    is_back: bool,
    asked: Notify,
}

#[async_trait]
impl ExportedFiles for Unmounted {
    async fn has_any(
        &self,
        _: &ItemType,
        day: ArchiveDay,
        _: &dyn Sought,
    ) -> Result<bool, FileTrouble> {
        if day == self.missing {
            return Err(FileTrouble::Lasting("the file is missing".into()));
        }
        self.asked.notify_one();
        let passing = || FileTrouble::Passing("the folder is not mounted".into());
        self.is_back.then_some(false).ok_or_else(passing)
    }

    async fn restore(&self, _: &ItemType, _: ArchiveDay) -> Result<(), FileTrouble> {
        unreachable!("nothing is sought")
    }

    async fn export(&self, _: &ItemType, _: ArchiveDay) -> Result<(), FileTrouble> {
        unreachable!("nothing has changed")
    }

    async fn drop_day(&self, _: &ItemType, _: ArchiveDay) -> Result<(), FileTrouble> {
        unreachable!("nothing was brought back")
    }
}

#[tokio::test]
async fn what_is_left_out_is_named_once_however_often_the_stage_is_tried() {
    let town = Town::new(1000).await;
    let missing = dropped(&town, "a").await;
    dropped(&town, "b").await;
    let files = |is_back| {
        let asked = Notify::new();
        Arc::new(Unmounted {
            missing,
            is_back,
            asked,
        })
    };
    let id = ErasureId::new("1");
    let author = Author::new("ann", "request 4711");
    let started = town.store.start_erasure(&id, by_account(), author);
    assert!(started.await.unwrap());
    let away = files(false);
    let eraser = Eraser::new(Arc::clone(&town.store), RULES, Some(away.clone()));
    let (_stop, stopped) = watch::channel(false);
    let eraser = tokio::spawn(eraser.run(stopped));
    away.asked.notified().await;
    eraser.abort();
    let done = ended(&town, &id, Some(files(true))).await;
    assert_eq!(done.left_out, 1, "{done:?}");
}

/// A day that is in a file only.
async fn dropped(town: &Town, id: &str) -> ArchiveDay {
    let kind = ItemType::new("PAYMENT");
    end_some(town, "PAYMENT", &[(id, &of("DE00"))]).await;
    let day = ArchiveDay::of(town.store.now().await.unwrap());
    move_all(town, &["PAYMENT"]).await;
    town.store.close_days(&kind, day.after(1)).await.unwrap();
    mark(&*town.store, &kind, day, "file.ndjson.gz").await;
    assert!(town.store.drop_day(&kind, day).await.unwrap());
    day
}

/// Days as files. When the file of one day is read, another one is dropped, as an upkeep does that has compared it before.
struct Upkeep {
    store: Arc<dyn Store>,
    kind: ItemType,
    reads: ArchiveDay,
    drops: ArchiveDay,
    has_dropped: AtomicBool,
    lines: Mutex<BTreeMap<ArchiveDay, Vec<ArchivedItem>>>,
}

impl Upkeep {
    /// With a file of the day that is dropped.
    async fn new(town: &Town, kind: &str, reads: ArchiveDay, drops: ArchiveDay) -> Arc<Self> {
        let upkeep = Self {
            store: Arc::clone(&town.store),
            kind: ItemType::new(kind),
            reads,
            drops,
            has_dropped: AtomicBool::new(false),
            lines: Mutex::default(),
        };
        upkeep.take(drops).await;
        Arc::new(upkeep)
    }

    /// Its lines as the database has them.
    async fn take(&self, day: ArchiveDay) {
        let lines = self.store.archived_lines(&self.kind, day, None, 100).await;
        let item = |line: String| serde_json::from_str(&line).unwrap();
        let items = lines.unwrap().into_iter().map(item).collect();
        self.lines.lock().unwrap().insert(day, items);
    }

    fn file(&self, day: ArchiveDay) -> Vec<ArchivedItem> {
        let lines = self.lines.lock().unwrap();
        lines.get(&day).cloned().unwrap_or_default()
    }

    async fn state(&self, day: ArchiveDay) -> DayState {
        let view = self.store.archived_day(&self.kind, day).await.unwrap();
        view.unwrap().state
    }
}

#[async_trait]
impl ExportedFiles for Upkeep {
    async fn has_any(
        &self,
        kind: &ItemType,
        day: ArchiveDay,
        sought: &dyn Sought,
    ) -> Result<bool, FileTrouble> {
        if day == self.reads && !self.has_dropped.swap(true, Ordering::SeqCst) {
            if self.state(self.drops).await == DayState::Closed {
                mark(&*self.store, kind, self.drops, "file.ndjson.gz").await;
            }
            assert!(self.store.drop_day(kind, self.drops).await.unwrap());
        }
        Ok(sought.is_among(&self.file(day)).await.unwrap())
    }

    async fn restore(&self, kind: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        let (store, items) = (&self.store, self.file(day));
        let checked = store.check_restore(kind, day, items.clone(), RestoredFor::Erasing);
        checked.await.unwrap();
        let restored = store.restore_items(kind, day, items, kind.as_str() == "PAYMENT");
        restored.await.unwrap();
        let export = export_to(&**store, "file.ndjson.gz").await;
        store.complete_day(kind, day, Some(export)).await.unwrap();
        Ok(())
    }

    async fn export(&self, kind: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        if self.state(day).await == DayState::Dropped {
            return Err(FileTrouble::Lasting("it is in a file only".into()));
        }
        self.take(day).await;
        mark(&*self.store, kind, day, "file.ndjson.gz").await;
        Ok(())
    }

    async fn drop_day(&self, kind: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        assert!(self.store.drop_day(kind, day).await.unwrap());
        Ok(())
    }
}

#[tokio::test]
async fn a_day_that_is_dropped_while_others_are_erased_is_erased_in_its_file() {
    let town = Town::new(1000).await;
    let first = dropped(&town, "b").await;
    let day = exported(&town).await;
    let files = Upkeep::new(&town, "PAYMENT", first, day).await;
    let done = erase_with(&town, "1", by_account(), Some(files.clone())).await;
    assert_eq!((done.archived, done.files, done.left_out), (1, 1, 0));
    assert_eq!(files.file(day)[0].body.as_deref(), Some("{}"));
}

/// It was compared before its line was erased: its file has the content, and its id is known as erased.
#[tokio::test]
async fn a_day_that_is_dropped_while_it_is_erased_is_erased_in_its_file() {
    let item = Item::new(&ItemType::new("PAYMENT"), &ItemId::new("a"));
    for wish in [by_account(), ErasureWish::Item(item)] {
        let town = Town::new(1000).await;
        let day = exported(&town).await;
        let files = Upkeep::new(&town, "PAYMENT", day, day).await;
        let done = erase_with(&town, "1", wish, Some(files.clone())).await;
        assert_eq!((done.files, done.left_out), (1, 0), "{done:?}");
        assert_eq!(files.file(day)[0].body.as_deref(), Some("{}"));
        assert_eq!(files.state(day).await, DayState::Dropped);
    }
}

/// The first erasure has no folder, and says so. The second one erases no payment: it was erased before.
#[tokio::test]
async fn a_notification_in_a_file_is_found_by_a_later_erasure() {
    let town = Town::new(1000).await;
    let (kind, news) = ("NOTIFICATION", ItemType::new("NOTIFICATION"));
    end_some(&town, "PAYMENT", &[("a", &of(ACCOUNT))]).await;
    end_some(&town, kind, &[("n", &about("a")), ("m", &about("b"))]).await;
    let day = ArchiveDay::of(town.store.now().await.unwrap());
    move_all(&town, &["PAYMENT", kind]).await;
    town.store.close_days(&news, day.after(1)).await.unwrap();
    mark(&*town.store, &news, day, "file.ndjson.gz").await;
    let files = Upkeep::new(&town, kind, day.before(1), day).await;
    assert!(town.store.drop_day(&news, day).await.unwrap());
    let first = erase(&town, "1").await;
    assert_eq!((first.archived, first.left_out), (1, 1), "{first:?}");
    for (id, expected) in [("2", (1, 1)), ("3", (0, 0))] {
        let done = erase_with(&town, id, by_account(), Some(files.clone())).await;
        assert_eq!((done.archived, done.files), expected, "{done:?}");
        let bodies = files.file(day).into_iter().map(|line| line.body.unwrap());
        assert_eq!(bodies.collect::<Vec<_>>(), [about("b"), "{}".to_owned()]);
    }
}

#[tokio::test]
async fn an_archived_item_is_erased_once_by_its_id() {
    let town = Town::new(1000).await;
    exported(&town).await;
    for (id, expected) in [("1", (1, 1)), ("2", (0, 0))] {
        let item = Item::new(&ItemType::new("PAYMENT"), &ItemId::new("a"));
        let wish = ErasureWish::Item(item);
        let done = erase_with(&town, id, wish, Some(folder(&town, true))).await;
        assert_eq!((done.archived, done.files), expected, "{done:?}");
    }
}

fn of(account: &str) -> String {
    format!(r#"{{"debtor":{{"account":"{account}"}}}}"#)
}

fn about(id: &str) -> String {
    format!(r#"{{"about":"{id}"}}"#)
}

async fn erase(town: &Town, id: &str) -> ErasureView {
    erase_with(town, id, by_account(), None).await
}

fn by_account() -> ErasureWish {
    ErasureWish::Account(ACCOUNT.into())
}

async fn erase_with(
    town: &Town,
    id: &str,
    wish: ErasureWish,
    files: Option<Arc<dyn ExportedFiles>>,
) -> ErasureView {
    let id = ErasureId::new(id);
    let author = Author::new("ann", "request 4711");
    assert!(town.store.start_erasure(&id, wish, author).await.unwrap());
    ended(town, &id, files).await
}

async fn ended(town: &Town, id: &ErasureId, files: Option<Arc<dyn ExportedFiles>>) -> ErasureView {
    let (stop, stopped) = watch::channel(false);
    let eraser = tokio::spawn(Eraser::new(Arc::clone(&town.store), RULES, files).run(stopped));
    let ended = loop {
        let view = town.store.erasure(id).await.unwrap().unwrap();
        if view.stage == ErasureStage::Done {
            break view;
        }
        tokio::task::yield_now().await;
    };
    stop.send(true).unwrap();
    eraser.await.unwrap();
    ended
}

fn new(id: &str, body: &str) -> NewItem {
    let money = Money {
        minor: 100,
        currency: Currency::from_code("EUR").unwrap(),
    };
    let record = NewRecord::new("o", "SCHEDULED", money, "h".into());
    let (id, lane) = (ItemId::new(id), LaneName::new("default"));
    NewItem::new(id, lane, record, body, FlowId::new("init"))
}

/// Admits, claims, starts and ends them.
async fn end_some(town: &Town, kind: &str, items: &[(&str, &str)]) {
    let kind = ItemType::new(kind);
    let new = items.iter().map(|(id, body)| new(id, body)).collect();
    town.store.admit(&kind, new).await.unwrap();
    let batch = BatchId::new(format!("BATCH-{}", items[0].0));
    let claim = Claim {
        item_type: kind.clone(),
        lane: LaneName::new("default"),
        batch: batch.clone(),
        ahead: DAY,
        stale_after: Duration::from_mins(2),
        limit: 100,
        credit_horizon: DAY,
    };
    let claimed = town.store.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), items.len());
    let start = |id: &ItemId, fence, run| StartRecord {
        id: id.clone(),
        fence,
        flow: Item::new(&kind, id).exec_flow(run),
        started: Started::New,
    };
    let starts = claimed.iter().map(|it| start(&it.id, it.fence, it.run));
    let starts = town.store.record_starts(&kind, &batch, starts.collect(), 3);
    starts.await.unwrap();
    for (id, _) in items {
        let item = Item::new(&kind, &ItemId::new(*id));
        let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        assert!(town.store.finish(&item, 1, done).await.unwrap());
    }
}

/// A day later.
async fn move_all(town: &Town, kinds: &[&str]) {
    town.time.advance(DAY);
    let today = ArchiveDay::of(town.store.now().await.unwrap());
    for kind in kinds.iter().copied().map(ItemType::new) {
        let prepared = town.store.prepare_days(&kind, today.before(5), today);
        prepared.await.unwrap();
        let wanted = MoveWanted {
            remembered: kind.as_str() == "PAYMENT",
            item_type: kind,
            ended_before: today.start(),
            after: None,
            at_most: 100,
        };
        assert!(town.store.move_ended(wanted).await.unwrap().moved > 0);
    }
}
