//! Every statement of the store finds its rows by an index, in a database with a million rows.
//! Judged by the plans that PostgreSQL really used (`auto_explain`), not by times.

mod accounts;
mod archive;
mod bulks;
mod erasures;
mod explained;
mod feeds;
mod fill;
mod jobs;
mod lane_plans;
mod operations;
mod outbox;
mod people;
mod status_checks;
mod unknown;

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_conformance::postgres::{self as cluster, Cluster};
use tollgate_store::postgres::PostgresOptions;

use crate::statements::{on_one_line, statements_of};
use crate::trouble::open;
use explained::{Plan, Scan, plans_in};

/// The tables that grow with the number of items, or with time.
const BIG: [&str; 20] = [
    "item_queue",
    "item_body",
    "lane_window",
    "attempt",
    "flow",
    "journal",
    "audit_log",
    "setting",
    "owner_total",
    "bulk",
    "bulk_chunk",
    "bulk_error",
    "bulk_sum",
    "status_check",
    "status_check_part",
    "job",
    "job_chunk",
    "job_result",
    "outbox",
    "outbox_refused",
];

/// One step of a plan may read so many rows of a big table: a few for each of the thousand items
/// of a batch. An index that is read from end to end is no better than none.
const MOST_ROWS_READ: u64 = 10_000;

const RECOUNT: &str = "SELECT window_start, coalesce(used, 0), coalesce(n, 0)";

/// A statement that may read more than that of a table, and why.
struct Allowed {
    statement: &'static str,
    table: &'static str,
    why: &'static str,
}

const ALLOWED: [Allowed; 15] = [
    Allowed {
        statement: "DELETE FROM owner_total WHERE ctid = ANY",
        table: "owner_total",
        why: "three days of totals, every ten minutes; an index would cost every payment",
    },
    Allowed {
        statement: "WHERE state = 'DONE' AND ended_at < $1 AND bulk_id NOT LIKE",
        table: "bulk",
        why: "the imports of some weeks, every ten minutes",
    },
    Allowed {
        statement: "SELECT sum(d.open - u.claimed - u.dispatched)::bigint AS ready",
        table: "item_queue",
        why: "the depths of the queue are counted every half minute, by index",
    },
    Allowed {
        statement: "SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount",
        table: "item_queue",
        why: "control totals are asked for a few times a day and sum up what that day brought",
    },
    Allowed {
        statement: "AND q.deadline - q.scheduled_exec_time < 9223372036854775807",
        table: "item_queue",
        why: "counts what waits on a lane with a deadline, by its index, once for all who ask in a second and a half",
    },
    Allowed {
        statement: "coalesce(sum(amount_minor), 0) AS minor FROM owner_total",
        table: "owner_total",
        why: "a day has a hundred quarters at most, for each debtor of a batch",
    },
    Allowed {
        statement: "UPDATE flow SET started_at = $1, due_at = $1",
        table: "flow",
        why: "a new era looks at the flows that wait, once after the clock was set",
    },
    Allowed {
        statement: "UPDATE item_queue q SET window_start = q.scheduled_time",
        table: "item_queue",
        why: "a changed window size rewrites all future slots of the lane, once in a while",
    },
    Allowed {
        statement: "SELECT q.lane, q.generation, q.window_start, count(*)",
        table: "item_queue",
        why: "counts the slots that the statement above has moved",
    },
    Allowed {
        statement: RECOUNT,
        table: "item_queue",
        why: "a recount looks at all that waits on a lane, a few times an hour and without a lock",
    },
    Allowed {
        statement: "SELECT event_no FROM outbox WHERE event_no > 0 ORDER BY event_no LIMIT $1) t",
        table: "outbox",
        why: "the backlog of events is counted every few seconds, by index and up to a hundred thousand",
    },
    Allowed {
        statement: "DELETE FROM outbox WHERE event_no > 0",
        table: "outbox",
        why: "a person turns events off and drops what is left, once",
    },
    Allowed {
        statement: "SELECT event_no FROM outbox_refused WHERE event_no > 0 ORDER BY event_no LIMIT $1) t",
        table: "outbox_refused",
        why: "the backlog of events is counted every few seconds, by index and up to a hundred thousand",
    },
    Allowed {
        statement: "DELETE FROM outbox_refused WHERE event_no > 0",
        table: "outbox_refused",
        why: "a person turns events off and drops what is left, once",
    },
    Allowed {
        statement: "UPDATE lane_window SET next_open = $3",
        table: "lane_window",
        why: "windows that point past the one that has room again lie between now and that one",
    },
];

/// The settings for sessions that begin from here on.
const EXPLAIN: [&str; 6] = [
    "session_preload_libraries = 'auto_explain'",
    "auto_explain.log_min_duration = 0",
    "auto_explain.log_nested_statements = on",
    "auto_explain.log_analyze = on",
    "auto_explain.log_timing = off",
    "jit = off",
];

/// What a replan leaves behind of the plans before it.
const NO_OLD_GENERATIONS: &str = "DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM lane_window w JOIN lane_plan p USING (lane)
               WHERE w.generation <> p.generation) THEN
        RAISE 'counters of an older generation are still there';
    END IF;
END $$";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_uses_an_index_at_a_million_rows() {
    let server = Cluster::start();
    let url = server.database().await;
    drop(open(PostgresOptions::at(&url)).await);
    fill::fill(&server, &url).await;
    let database = url.rsplit('/').next().unwrap();
    for setting in EXPLAIN {
        let set = format!("ALTER DATABASE {database} SET {setting}");
        server.sql(&set).await;
    }
    let patient = PostgresOptions {
        // A plan is only logged when its statement has come to its end. One that would read a
        // table a thousand times does not, and fails by this timeout.
        statement_timeout: Duration::from_mins(1),
        deadline: Duration::from_mins(2),
        ..PostgresOptions::at(&url)
    };
    operations::run_all(&*open(patient).await).await;
    let log = server.log();
    cluster::sql(&url, NO_OLD_GENERATIONS).await;
    let plans = plans_in(&log);
    let offences: BTreeSet<String> = plans.iter().flat_map(offences).collect();
    let offences: Vec<String> = offences.into_iter().collect();
    assert!(offences.is_empty(), "{}", offences.join("\n\n"));
    no_allowance_is_out_of_date(&plans);
    every_index_is_used(&plans);
    every_statement_was_run(&plans);
}

fn offences(plan: &Plan<'_>) -> Vec<String> {
    let big = plan.scans.iter().filter(|scan| BIG.contains(&scan.table));
    let bad = big.filter(|scan| is_much(scan));
    let unexpected = bad.filter(|scan| !ALLOWED.iter().any(|a| a.covers(plan, scan.table)));
    unexpected
        .map(|scan| {
            let how = if scan.is_sequential {
                "by reading all of it"
            } else {
                "by an index that does not serve it"
            };
            let (table, rows) = (scan.table, scan.rows_read);
            format!("finds rows of {table} {how} ({rows} rows):\n{plan}")
        })
        .collect()
}

fn is_much(scan: &Scan<'_>) -> bool {
    scan.is_sequential || scan.rows_read > MOST_ROWS_READ
}

impl Allowed {
    fn covers(&self, plan: &Plan<'_>, table: &str) -> bool {
        self.table == table && plan.statement.contains(self.statement)
    }
}

fn no_allowance_is_out_of_date(plans: &[Plan<'_>]) {
    for allowed in &ALLOWED {
        let is_needed = plans.iter().any(|plan| {
            let mut scans = plan.scans.iter();
            scans.any(|scan| is_much(scan) && allowed.covers(plan, scan.table))
        });
        let Allowed { statement, why, .. } = allowed;
        assert!(is_needed, "not needed: {statement} ({why})");
    }
}

/// An index that no statement uses costs every write and serves nobody. Small tables are read whole.
fn every_index_is_used(plans: &[Plan<'_>]) {
    let schema = include_str!("../../migrations/postgres/V1__spine.sql");
    for index in schema.split("CREATE INDEX ").skip(1) {
        let mut words = index.split_whitespace();
        let (name, table) = (words.next().unwrap(), words.nth(1).unwrap());
        let is_used = plans.iter().any(|plan| plan.steps.contains(name));
        let is_small = !BIG.contains(&table);
        assert!(is_used || is_small, "no statement uses the index {name}");
    }
}

/// A lock at the end of a statement is not in its text (`Tx::locked_rows`).
fn every_statement_was_run(plans: &[Plan<'_>]) {
    let run: BTreeSet<String> = plans.iter().map(|p| on_one_line(p.statement)).collect();
    let was_run = |statement: &String| {
        run.contains(statement) || run.contains(&format!("{statement} FOR UPDATE"))
    };
    let mut statements = statements_of("postgres");
    // What only moves the time of tests.
    statements.retain(|statement| !statement.contains("tollgate.offset_us"));
    // What follows a race for an id, which is in `trouble.rs`; found by the same keys as without one.
    let raced = ["INSERT INTO item_body", "ON CONFLICT"];
    statements.retain(|statement| !raced.iter().all(|part| statement.contains(part)));
    statements.retain(|statement| !was_run(statement));
    assert!(statements.is_empty(), "not run here: {statements:#?}");
}
