//! Every statement of the SQLite store finds its rows by an index. The plans depend neither on the
//! data (nothing is ever analysed) nor on bound values (the store forbids it), so an empty database
//! tells them; the statements are read from the store's own source, so that none is forgotten.

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::statements::statements_of;

/// What a plan may read from end to end, whatever the statement: no table at all, a parameter, and
/// tables with one row, or with one for each machine, lane or migration, or for each day that is not in order.
const SMALL: [&str; 7] = [
    "CONSTANT",
    "json_each",
    "node",
    "clock_boot",
    "lane_cursor",
    "archive_trouble",
    "refinery_schema_history",
];

/// A statement that may read a whole table or index, and why.
struct Allowed {
    statement: &'static str,
    why: &'static str,
}

const ALLOWED: [Allowed; 15] = [
    Allowed {
        statement: "DELETE FROM known_item WHERE key IN (SELECT key FROM known_item WHERE day",
        why: "ids are forgotten after years; it is asked for only when a day is that old",
    },
    Allowed {
        statement: "DELETE FROM owner_total WHERE (item_type, owner, currency, quarter) IN",
        why: "three days of totals, every ten minutes; an index would cost every payment",
    },
    Allowed {
        statement: "DELETE FROM request WHERE (item_type, item_id) IN",
        why: "what waits and what was refused lately, every ten minutes",
    },
    Allowed {
        statement: "SELECT bulk_id FROM bulk WHERE state = 'DONE' AND ended_at",
        why: "the imports of some weeks, every ten minutes",
    },
    Allowed {
        statement: "DELETE FROM flow WHERE flow_id IN ( SELECT flow_id FROM flow INDEXED BY flow_ended",
        why: "what is under way, on the index that holds nothing else, once an old flow is found",
    },
    Allowed {
        statement: "SELECT EXISTS (SELECT 1 FROM archived_item)",
        why: "stops at the first line",
    },
    Allowed {
        statement: "UPDATE item_queue SET queue_status = 'READY', run = run + 1, claimed_at = NULL WHERE queue_status",
        why: "a new start releases all claims, on the index that holds nothing else",
    },
    Allowed {
        statement: "UPDATE flow SET state = 'PENDING', due_at = min(due_at, ?1) WHERE state = 'LIVE'",
        why: "a new start takes over all live flows, on the index that holds nothing else",
    },
    Allowed {
        statement: "SELECT q.item_type, q.item_id, q.queue_status FROM ( SELECT item_type, item_id, queue_status, run",
        why: "a new era looks at all that is under way, on the indexes that hold nothing else",
    },
    Allowed {
        statement: "UPDATE item_queue INDEXED BY item_queue_running SET dispatched_at",
        why: "the same",
    },
    Allowed {
        statement: "UPDATE item_queue INDEXED BY item_queue_claimed SET claimed_at",
        why: "the same",
    },
    Allowed {
        statement: "UPDATE item_queue SET window_start = scheduled_time - ",
        why: "a changed window size rewrites all future slots of the lane, once in a while",
    },
    Allowed {
        statement: "INSERT INTO lane_window (lane, generation, window_start, used) SELECT q.lane",
        why: "counts the slots that the statement above has moved",
    },
    Allowed {
        statement: "WITH held AS ( SELECT window_start, count(*) AS n",
        why: "a recount compares what waits on one lane with its counters, each found by its index",
    },
    Allowed {
        statement: "SELECT s.storm_id, s.lane, w.connector",
        why: "the newest storms first, a few; there is one for each time that a bank refused everything",
    },
];

struct Planned {
    statement: String,
    steps: Vec<String>,
}

#[test]
fn every_statement_of_sqlite_uses_an_index() {
    let plans = plans();
    let offences: Vec<String> = plans.iter().filter_map(offences).collect();
    assert!(offences.is_empty(), "{}", offences.join("\n\n"));
    for Allowed { statement, why } in &ALLOWED {
        let is_needed = |plan: &Planned| plan.statement.contains(statement) && reads_all(plan);
        let needed = plans.iter().any(is_needed);
        assert!(needed, "not needed: {statement} ({why})");
    }
    every_index_is_used(&plans);
}

fn offences(plan: &Planned) -> Option<String> {
    let is_allowed = ALLOWED.iter().any(|a| plan.statement.contains(a.statement));
    let offends = reads_all(plan) && !is_allowed;
    offends.then(|| format!("{}\n{}", plan.statement, plan.steps.join("\n")))
}

/// `SCAN` is from end to end, be it a table or an index; `SEARCH` is not.
fn reads_all(plan: &Planned) -> bool {
    let mut scanned = plan.steps.iter().filter_map(|s| s.strip_prefix("SCAN "));
    // What a subquery has found already, or a list that was passed, is read and not looked for.
    let is_named = |step: &str| {
        plan.steps
            .iter()
            .any(|it| *it == format!("CO-ROUTINE {step}"))
    };
    let is_found = |step: &str| {
        step.starts_with("(subquery") || step.contains("VIRTUAL TABLE") || is_named(step)
    };
    scanned.any(|step| !is_found(step) && !step.split(' ').any(|word| SMALL.contains(&word)))
}

/// An index that no statement uses costs every write and serves nobody.
fn every_index_is_used(plans: &[Planned]) {
    let schema = include_str!("../../migrations/sqlite/V1__spine.sql");
    for index in schema.split("CREATE INDEX ").skip(1) {
        let name = index.split_whitespace().next().unwrap();
        let is_used = |plan: &Planned| plan.steps.iter().any(|step| step.contains(name));
        assert!(
            plans.iter().any(is_used),
            "no statement uses the index {name}"
        );
    }
}

fn plans() -> Vec<Planned> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    drop(SqliteStore::open(SqliteOptions::at(&path)).unwrap());
    let connection = Connection::open(&path).unwrap();
    let qpsg = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    connection.set_db_config(qpsg, true).unwrap();
    let utf8 = FunctionFlags::SQLITE_UTF8;
    let told = connection.create_scalar_function("tg_now", 0, utf8, |_| Ok(0_i64));
    told.unwrap();
    // Lines of the archive lie in files of their own.
    let archive = include_str!("../../migrations/sqlite_archive/archive.sql");
    connection.execute_batch(archive).unwrap();
    let statements = statements_of("sqlite");
    let planned = statements.into_iter().map(|statement| Planned {
        steps: explain(&connection, &statement),
        statement,
    });
    planned.collect()
}

fn explain(connection: &Connection, statement: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {statement}");
    let mut prepared = connection
        .prepare(&explain)
        .unwrap_or_else(|e| panic!("{e}: {statement}"));
    let mut rows = prepared.raw_query();
    let mut steps = vec![];
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}
