//! `Archive`, day by day: closed, exported, dropped and restored; and what grows.

use std::collections::BTreeSet;

use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, DayExport, DayState};
use tollgate_core::ports::{Admission, KnownAsked, Old, RestoredFor, StatusMove, StoreError};

use super::archive::{DAY, ended, finished, line, moved, rows};
use super::fixture::{Fixture, new_item, payment, payments, plan};

#[expect(
    clippy::too_many_lines,
    reason = "the whole life of one day, in its order"
)]
pub async fn a_day_is_closed_exported_dropped_and_restored_line_by_line(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a", "b", "c"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    let view = || async {
        f.store()
            .archived_day(&payments(), day)
            .await
            .unwrap()
            .unwrap()
    };
    let first = view().await;
    assert_eq!((first.state, first.count()), (DayState::Open, 3));
    let export = DayExport {
        file: "PAYMENT.ndjson.gz".into(),
        digest: "00".into(),
        at: f.now().await,
    };
    let marked = store.mark_exported(&kind, day, export.clone());
    assert!(!marked.await.unwrap(), "an open day is not exported");
    assert!(!store.drop_day(&kind, day).await.unwrap());
    let today = ArchiveDay::of(f.now().await);
    assert_eq!(store.close_days(&kind, today).await.unwrap(), 1);
    assert!(
        !store.drop_day(&kind, day).await.unwrap(),
        "it is nowhere else"
    );
    let lines = store.archived_lines(&kind, day, None, 2).await.unwrap();
    assert_eq!(lines.len(), 2);
    let after = payment("b").id;
    let rest = store
        .archived_lines(&kind, day, Some(&after), 2)
        .await
        .unwrap();
    let items = [
        line(f, &payment("a")).await,
        line(f, &payment("b")).await,
        line(f, &payment("c")).await,
    ];
    assert_eq!(rest.len(), 1);
    assert!(
        store
            .mark_exported(&kind, day, export.clone())
            .await
            .unwrap()
    );
    assert!(store.drop_day(&kind, day).await.unwrap());
    assert!(store.drop_day(&kind, day).await.unwrap(), "again");
    let dropped = view().await;
    assert_eq!(
        (dropped.state, &dropped.sums),
        (DayState::Dropped, &first.sums)
    );
    assert!(store.item(&payment("a")).await.unwrap().is_none());
    assert_eq!(f.admit_one(new_item("a")).await, Admission::Archived);
    let known = store.known(vec![KnownAsked {
        item: payment("a"),
        content_hash: String::new(),
    }]);
    let known = known.await.unwrap().remove(0).unwrap();
    assert_eq!(
        (known.state, known.export),
        (DayState::Dropped, Some(export.clone()))
    );
    for _ in 0..2 {
        store
            .restore_items(&kind, day, items.to_vec(), true)
            .await
            .unwrap();
    }
    store.complete_day(&kind, day, Some(export)).await.unwrap();
    let restored = view().await;
    assert_eq!(
        (restored.state, restored.sums),
        (DayState::Exported, first.sums)
    );
    let again = store.archived_lines(&kind, day, None, 10).await.unwrap();
    assert_eq!(again, [lines, rest].concat());
}

pub async fn a_restore_changes_nothing_that_is_there(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    let mut item = line(f, &payment("a")).await;
    item.status = "FORGED".into();
    let forged = store
        .restore_items(&kind, day, vec![item.clone()], true)
        .await;
    assert!(
        matches!(&forged, Err(StoreError::Invalid(why)) if why.contains("different content")),
        "{forged:?}"
    );
    item.id = payment("hot").id;
    f.place(vec![new_item("hot")]).await;
    let hot = store
        .restore_items(&kind, day, vec![item.clone()], true)
        .await;
    assert!(
        matches!(&hot, Err(StoreError::Invalid(why)) if why.contains("not archived")),
        "{hot:?}"
    );
    let other = store
        .restore_items(&kind, day.before(1), vec![item], true)
        .await;
    assert!(
        matches!(&other, Err(StoreError::Invalid(why)) if why.contains("ended on")),
        "{other:?}"
    );
}

pub async fn a_day_in_the_database_keeps_its_sums_and_ids_when_dropped_ones_are_forgotten(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let (store, kind) = (f.store(), payments());
    let mut days = vec![];
    for id in ["dropped", "kept"] {
        ended(f, &[id]).await;
        days.push(ArchiveDay::of(f.now().await));
        f.advance(DAY).await;
        moved(f).await;
    }
    let today = ArchiveDay::of(f.now().await);
    store.close_days(&kind, today).await.unwrap();
    let export = DayExport {
        file: "PAYMENT.ndjson.gz".into(),
        digest: "00".into(),
        at: f.now().await,
    };
    let marked = store.mark_exported(&kind, days[0], export);
    assert!(marked.await.unwrap());
    assert!(store.drop_day(&kind, days[0]).await.unwrap());
    let before = rows(f, "archived_turns").await;
    while store.forget_known(&kind, today, 100).await.unwrap() > 0 {}
    let dropped = store.archived_day(&kind, days[0]).await.unwrap();
    assert!(dropped.is_none());
    let kept = store.archived_day(&kind, days[1]).await.unwrap();
    assert_eq!(kept.map(|day| day.count()), Some(1));
    assert_eq!((before, rows(f, "archived_turns").await), (2, 1));
    assert_eq!(f.admit_one(new_item("kept")).await, Admission::Archived);
    let again = f.admit_one(new_item("dropped")).await;
    assert!(matches!(again, Admission::New(_)), "{again:?}");
}

pub async fn a_restore_is_checked_against_what_is_known_of_ids(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    let item = line(f, &payment("a")).await;
    let check = |day, item| store.check_restore(&kind, day, vec![item], RestoredFor::Reading);
    let refused = async |day, item, told: &str| match check(day, item).await {
        Err(StoreError::Invalid(why)) => assert!(why.contains(told), "{told}: {why}"),
        other => panic!("{told}: {other:?}"),
    };
    check(day, item.clone()).await.unwrap();
    let mut other = item.clone();
    other.content_hash = Some("other".into());
    refused(day, other, "different content").await;
    let mut earlier = item.clone();
    earlier.finished_at -= DAY;
    refused(day.before(1), earlier, "is known as an item that ended on").await;
    let mut erased = item.clone();
    (erased.content_hash, erased.body) = (None, None);
    store.rewrite(vec![erased.clone()]).await.unwrap();
    check(day, erased).await.unwrap();
    refused(day, item.clone(), "was erased").await;
    f.place(vec![new_item("hot")]).await;
    let mut hot = line(f, &payment("a")).await;
    hot.id = payment("hot").id;
    refused(day, hot, "not archived").await;
    // A file that has what was erased is restored to be erased, and only for that.
    store.close_days(&kind, day.after(1)).await.unwrap();
    let export = DayExport {
        file: "PAYMENT.ndjson.gz".into(),
        digest: "00".into(),
        at: day.end(),
    };
    let marked = store.mark_exported(&kind, day, export);
    assert!(marked.await.unwrap());
    assert!(store.drop_day(&kind, day).await.unwrap());
    refused(day, item.clone(), "was erased").await;
    let erasing = store.check_restore(&kind, day, vec![item], RestoredFor::Erasing);
    erasing.await.unwrap();
}

pub async fn a_day_whose_lines_are_erased_is_not_dropped_by_its_old_file(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    store.close_days(&kind, day.after(1)).await.unwrap();
    let export = || DayExport {
        file: "PAYMENT.ndjson.gz".into(),
        digest: "00".into(),
        at: day.end(),
    };
    let marked = store.mark_exported(&kind, day, export());
    assert!(marked.await.unwrap());
    let mut erased = line(f, &payment("a")).await;
    (erased.content_hash, erased.body) = (None, None);
    assert_eq!(store.rewrite(vec![erased.clone()]).await.unwrap(), 1);
    let dropped = store.drop_day(&kind, day).await.unwrap();
    assert!(
        !dropped,
        "the file was compared before, and has the content"
    );
    let view = store.archived_day(&kind, day).await.unwrap().unwrap();
    assert_eq!(
        (view.state, view.export),
        (DayState::Closed, Some(export()))
    );
    // The other way round nothing is known as erased that the file still has.
    ended(f, &["b"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    store.close_days(&kind, day.after(1)).await.unwrap();
    let mut late = line(f, &payment("b")).await;
    let marked = store.mark_exported(&kind, day, export());
    assert!(marked.await.unwrap());
    assert!(store.drop_day(&kind, day).await.unwrap());
    (late.content_hash, late.body) = (None, None);
    assert_eq!(store.rewrite(vec![late]).await.unwrap(), 0);
    assert_eq!(f.admit_one(new_item("b")).await, Admission::Archived);
}

/// Where the archive has partitions.
pub async fn a_partition_made_by_hand_is_named_and_nothing_is_lost(f: &dyn Fixture) {
    if f.typed("SELECT 1 FROM pg_inherits LIMIT 1").await.is_err() {
        return;
    }
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let day = ArchiveDay::of(f.now().await);
    let (from, to) = (day.number(), day.number() + 1);
    f.damage(&format!(
        "CREATE TABLE by_hand PARTITION OF archived_item
         FOR VALUES FROM ('PAYMENT', {from}) TO ('PAYMENT', {to})"
    ))
    .await;
    f.advance(DAY).await;
    let refused = f.store().prepare_days(&payments(), day, day).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("by_hand"), "{why}");
    assert!(f.view(&payment("a")).await.archived.is_none());
    f.damage("DROP TABLE by_hand").await;
    assert_eq!(moved(f).await, 1);
    assert!(f.view(&payment("a")).await.archived.is_some());
}

/// The tables that grow with each payment, and by how many rows once it is archived. The handbook has the same list
/// (docs/archive.md, What grows).
const GROWS: [(&str, u64); 2] = [("known_item", 1), ("archived_item", 1)];
/// Those that have some rows for each day, lane or window, however many payments there are.
const GROWS_BY_TIME: [&str; 5] = [
    "archived_day",
    "archived_sum",
    "archived_turns",
    "lane_window",
    "sqlite_sequence",
];

pub async fn what_grows_with_each_payment_is_what_the_handbook_says(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let before = tables(f).await;
    let ids: Vec<String> = (0..40).map(|n| format!("p{n:02}")).collect();
    finished(f, &ids).await;
    // Of payments that were refused, of chunks without a payment, of runs that were not the last.
    for id in &ids {
        f.damage(&flow(
            &format!("init-payment-refused-{id}"),
            "DONE",
            f.now().await,
        ))
        .await;
    }
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 40);
    let now = f.now().await;
    for what in Old::ALL {
        while f.store().forget_old(what, now, 100).await.unwrap() > 0 {}
    }
    for (table, rows) in tables(f).await {
        let was = before
            .iter()
            .find(|(name, _)| *name == table)
            .map_or(0, |(_, rows)| *rows);
        let grown = rows - was;
        // A partition, which its table counts.
        if table.starts_with("archived_payment_") {
            continue;
        }
        let expected = GROWS.iter().find(|(name, _)| *name == table);
        match expected {
            Some((_, each)) => assert_eq!(grown, each * 40, "{table}"),
            None if GROWS_BY_TIME.contains(&table.as_str()) => {
                assert!(grown < 20, "{table}: {grown}");
            }
            // Dispatching writes an entry for each batch.
            None if table == "audit_log" => assert!(grown < 3, "{grown}"),
            // Up to 25 known ids share a row on PostgreSQL.
            None if table == "known_pack" => assert_eq!(grown, 2),
            // The next claim deletes what the last one of a lane has left.
            None if table == "batch" => assert!(grown < 2, "{grown}"),
            None => assert_eq!(grown, 0, "{table} grows, and nothing bounds it"),
        }
    }
}

fn flow(id: &str, state: &str, started: Timestamp) -> String {
    let at = started.as_microsecond();
    format!(
        "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input)
         VALUES ('{id}', 'f', '{state}', false, {at}, {at}, '')"
    )
}

pub async fn a_flow_that_ended_goes_by_its_age_unless_an_item_under_way_needs_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let under_way = f.dispatched(&["under-way"]).await.remove(0);
    let view = f.view(&under_way).await;
    let old = f.now().await;
    let flows = [
        (view.exec_flow.unwrap().to_string(), "FAILED"),
        ("init-payment-refused".to_owned(), "DONE"),
        ("bulk-empty-1".to_owned(), "FAILED"),
        ("waits".to_owned(), "PENDING"),
        ("runs".to_owned(), "LIVE"),
    ];
    for (id, state) in &flows {
        f.damage(&flow(id, state, old)).await;
    }
    f.advance(DAY).await;
    let now = f.now().await;
    f.damage(&flow("new", "DONE", now)).await;
    let forgotten = async |before| {
        let forgotten = f.store().forget_old(Old::Flows, before, 1).await;
        forgotten.unwrap()
    };
    assert_eq!(forgotten(old).await, 0);
    assert_eq!([forgotten(now).await, forgotten(now).await], [1, 1]);
    assert_eq!(forgotten(now).await, 0);
    let left = f.typed("SELECT flow_id FROM flow").await.unwrap();
    let left: BTreeSet<String> = left.into_iter().flatten().flatten().collect();
    let expected = [flows[0].0.as_str(), "new", "runs", "waits"].map(str::to_owned);
    assert_eq!(left, BTreeSet::from(expected));
    assert!(f.store().finish(&under_way, 1, done()).await.unwrap());
    assert_eq!(forgotten(now).await, 1, "it has ended");
}

fn done() -> StatusMove {
    StatusMove::new(&["SCHEDULED"], "PROCESSING")
}

async fn tables(f: &dyn Fixture) -> Vec<(String, u64)> {
    const SQLITE: &str = "SELECT name FROM sqlite_master WHERE type = 'table'";
    const POSTGRES: &str =
        "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
    let names = match f.typed(SQLITE).await {
        Ok(names) => names,
        Err(_) => f.typed(POSTGRES).await.unwrap(),
    };
    let mut tables = vec![];
    for name in names.into_iter().flatten().flatten() {
        tables.push((name.clone(), rows(f, &name).await));
    }
    tables
}
