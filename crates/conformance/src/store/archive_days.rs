//! `Archive`, day by day: closed, exported, dropped and restored; and what grows.

use tollgate_core::archive::{ArchiveDay, DayExport, DayState};
use tollgate_core::ports::{Admission, KnownAsked, StoreError};

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
        matches!(&forged, Err(StoreError::Invalid(why)) if why.contains("another line")),
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
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 40);
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
            // The next claim deletes what the last one of a lane has left.
            None if table == "batch" => assert!(grown < 2, "{grown}"),
            None => assert_eq!(grown, 0, "{table} grows, and nothing bounds it"),
        }
    }
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
