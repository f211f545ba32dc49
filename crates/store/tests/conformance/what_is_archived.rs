//! Each column that a store has of an item is read into the item's line of the archive, or is left out here with a reason.
//! A move deletes the rows, so what is neither is lost.

use std::collections::BTreeSet;

use tollgate_conformance::store::Fixture;

use crate::statements::statements_in;

const LINES: &str = include_str!("../../src/cold/archive/lines.rs");

/// Each table that a move deletes rows from, behind the name that the statements of `lines.rs` give it.
const TABLES: [(&str, &str); 4] = [
    ("q", "item_queue"),
    ("b", "item_body"),
    ("a", "attempt"),
    ("l", "audit_log"),
];

/// What no line keeps, and why not.
const LEFT_OUT: [(&str, &str); 10] = [
    ("item_queue.item_type", "what a line is asked for by"),
    (
        "item_queue.queue_part",
        "computed from queue_status and finished_at",
    ),
    ("item_body.item_type", "the item's"),
    ("item_body.item_id", "the item's"),
    (
        "item_body.created_at",
        "the item's, or shortly before it; lists of hot items are sorted by it",
    ),
    ("attempt.item_type", "the item's"),
    (
        "attempt.number",
        "its place among the attempts of its item, which attempt_id keeps",
    ),
    (
        "attempt.epoch",
        "the leader whose turn it was; no statement reads it",
    ),
    ("attempt.refused_by", "computed from state and watch_id"),
    ("audit_log.item_type", "the item's"),
];

/// `table.column` for each that the statements of a store read. What they read must go on into the line.
fn kept(store: &str) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for statement in statements_in(LINES, store) {
        let columns = statement.strip_prefix("SELECT ").unwrap();
        let (columns, _) = columns.split_once(" FROM ").unwrap();
        for (alias, column) in columns.split(", ").map(|it| it.split_once('.').unwrap()) {
            let (_, table) = TABLES.iter().find(|(it, _)| *it == alias).unwrap();
            let taken = LINES.contains(&format!("row.get(\"{column}\")"))
                || LINES.contains(&format!("row.word(\"{column}\", "));
            assert!(taken, "{table}.{column} is read and goes nowhere");
            kept.insert(format!("{table}.{column}"));
        }
    }
    kept
}

/// `table.column` for each that a store has, by the statement that lists a table's columns.
async fn columns(store: &dyn Fixture, listing: &str) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for (_, table) in TABLES {
        let names = store.typed(&listing.replace("TABLE", table)).await.unwrap();
        assert!(!names.is_empty(), "there is no table {table}");
        let names = names.into_iter().flatten().flatten();
        columns.extend(names.map(|name| format!("{table}.{name}")));
    }
    columns
}

#[tokio::test]
async fn a_move_keeps_every_column_of_an_item_or_leaves_it_out_for_a_reason() {
    // With generated columns, which `table_info` leaves out.
    const SQLITE: &str = "SELECT name FROM pragma_table_xinfo('TABLE')";
    const POSTGRES: &str = "SELECT column_name FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name = 'TABLE'";
    let sqlite = columns(&crate::sqlite::fixture().await, SQLITE).await;
    let postgres = columns(&crate::postgres::fixture().await, POSTGRES).await;
    let left_out = BTreeSet::from(LEFT_OUT.map(|(column, _)| column.to_owned()));
    for (store, columns) in [("sqlite", &sqlite), ("postgres", &postgres)] {
        let kept = kept(store);
        let accounted_for = &kept | &left_out;
        let lost: Vec<_> = columns.difference(&accounted_for).collect();
        assert!(
            lost.is_empty(),
            "{store}: a move loses {lost:?}; read them in lines.rs, or say here why not"
        );
        let both: Vec<_> = kept.intersection(&left_out).collect();
        assert!(both.is_empty(), "{store}: {both:?} are kept by now");
    }
    let there = &sqlite | &postgres;
    let gone: Vec<_> = left_out.difference(&there).collect();
    assert!(gone.is_empty(), "no store has {gone:?}");
}
