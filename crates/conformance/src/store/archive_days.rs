//! `Archive`, day by day: closed, exported, dropped and restored; many days in a row; and what grows.

use tollgate_core::archive::{ArchiveDay, DayExport, DayState};
use tollgate_core::ports::{Admission, KnownAsked, StoreError, Total};
use tollgate_core::{SignedDuration, Timestamp};

use super::archive::{DAY, all, ended, finished, line, moved, rows};
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

/// Days that are simulated, and payments of each.
const DAYS: usize = 40;
const A_DAY: usize = 12;
const HOT_DAYS: u32 = 30;

pub async fn forty_days_leave_the_hot_tables_flat_and_no_id_is_paid_again(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let (mut ids, mut totals, mut hot): (Vec<String>, Vec<(Timestamp, Vec<Total>)>, _) =
        (vec![], vec![], vec![]);
    for day in 0..DAYS {
        let new: Vec<String> = (0..A_DAY).map(|n| format!("d{day:02}-{n:02}")).collect();
        let from = ArchiveDay::of(f.now().await).start();
        finished(f, &new).await;
        ids.extend(new);
        totals.push((from, of_day(f, from).await));
        f.advance(DAY).await;
        let first_hot = ArchiveDay::of(f.now().await).before(HOT_DAYS);
        let (store, kind) = (f.store(), payments());
        store
            .prepare_days(&kind, first_hot.before(2), first_hot)
            .await
            .unwrap();
        while store
            .move_ended(all(first_hot.start()))
            .await
            .unwrap()
            .next
            .is_some()
        {}
        store.close_days(&kind, first_hot).await.unwrap();
        hot.push(rows(f, "item_queue").await);
        assert_eq!(rows(f, "item_body").await, hot[day]);
    }
    let flat = u64::from(HOT_DAYS) * A_DAY as u64;
    assert_eq!(hot[HOT_DAYS as usize - 1], flat);
    assert!(
        hot[HOT_DAYS as usize..].iter().all(|rows| *rows == flat),
        "{hot:?}"
    );
    for (from, before) in totals {
        assert_eq!(of_day(f, from).await, before, "{from}");
    }
    let days = f
        .store()
        .archived_days(&payments(), None, 100)
        .await
        .unwrap();
    assert_eq!(days.len(), DAYS - HOT_DAYS as usize);
    assert!(
        days.iter()
            .all(|day| day.count() == A_DAY as u64 && day.state == DayState::Closed)
    );
    let again = ids.iter().map(|id| new_item(id)).collect();
    let said = f.admit(again).await;
    let archived = said.iter().filter(|it| **it == Admission::Archived).count();
    assert_eq!(archived, days.len() * A_DAY);
    assert!(
        said.iter()
            .all(|it| matches!(it, Admission::Archived | Admission::Repeat(_)))
    );
}

async fn of_day(f: &dyn Fixture, from: Timestamp) -> Vec<Total> {
    let to = from + SignedDuration::from_hours(24);
    f.store().totals(&payments(), from, to).await.unwrap()
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
