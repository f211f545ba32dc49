//! The handbook's list of what grows names every table of each store, and none that is not there.

use std::collections::BTreeSet;

const HANDBOOK: &str = include_str!("../../../../docs/archive.md");
const SQLITE: [&str; 2] = [
    include_str!("../../migrations/sqlite/V1__spine.sql"),
    include_str!("../../migrations/sqlite_archive/archive.sql"),
];
const POSTGRES: [&str; 1] = [include_str!("../../migrations/postgres/V1__spine.sql")];

fn tables(schemas: &[&str]) -> BTreeSet<String> {
    let made = |line: &str| {
        let rest = line.strip_prefix("CREATE TABLE ")?;
        let rest = rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest);
        rest.split([' ', '(']).next().map(str::to_owned)
    };
    let lines = schemas.iter().flat_map(|schema| schema.lines());
    lines.filter_map(made).collect()
}

/// The names in the first column of a store's table.
fn listed(store: &str) -> BTreeSet<String> {
    let heading = format!("### {store}\n");
    let (_, grows) = HANDBOOK.split_once("## What grows").unwrap();
    let (_, section) = grows.split_once(&heading).unwrap();
    let section = section.split("\n#").next().unwrap();
    let first = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split(" | ").next());
    let names = first.flat_map(|cell| cell.split('`').step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn every_table_is_named_with_what_bounds_it() {
    for (store, schemas) in [("SQLite", &SQLITE[..]), ("PostgreSQL", &POSTGRES[..])] {
        let (listed, tables) = (listed(store), tables(schemas));
        let missing: Vec<_> = tables.difference(&listed).collect();
        let unknown: Vec<_> = listed.difference(&tables).collect();
        assert!(tables.len() > 30, "{store}: {tables:?}");
        assert!(missing.is_empty(), "{store}: not named: {missing:?}");
        assert!(unknown.is_empty(), "{store}: there is no {unknown:?}");
    }
}
