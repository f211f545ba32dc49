//! Reads the plans that `auto_explain` has written to the server's log.

use std::fmt;

/// One execution of a statement.
pub(super) struct Plan<'l> {
    pub(super) statement: &'l str,
    pub(super) steps: &'l str,
    pub(super) scans: Vec<Scan<'l>>,
}

/// One step that reads a table.
pub(super) struct Scan<'l> {
    pub(super) table: &'l str,
    pub(super) is_sequential: bool,
    /// Of the table, whether or not they were wanted.
    pub(super) rows_read: u64,
    repeats: u64,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.statement, self.steps)
    }
}

pub(super) fn plans_in(log: &str) -> Vec<Plan<'_>> {
    entries(log).filter_map(plan_from).collect()
}

/// An entry goes on where a line begins with a tab.
fn entries(log: &str) -> impl Iterator<Item = &str> {
    let mut rest = log;
    std::iter::from_fn(move || {
        let after_newline = rest.match_indices('\n').map(|(at, _)| at + 1);
        let end = after_newline
            .clone()
            .find(|at| !rest[*at..].starts_with('\t'))?;
        let (entry, others) = rest.split_at(end);
        rest = others;
        Some(entry)
    })
}

fn plan_from(entry: &str) -> Option<Plan<'_>> {
    let (_, explained) = entry.split_once(" plan:\n\tQuery Text: ")?;
    let first_step = explained.find("  (cost=")?;
    let first_step = explained[..first_step].rfind("\n\t")?;
    let (statement, steps) = explained.split_at(first_step);
    let mut scans: Vec<Scan<'_>> = vec![];
    for line in steps.lines() {
        if line.contains("  (cost=") {
            // What is not a scan is kept too: a line below it must not count for the one above.
            scans.push(scan_from(line));
        } else if let (Some(scan), Some(removed)) = (scans.last_mut(), removed_by(line)) {
            scan.rows_read += removed * scan.repeats;
        }
    }
    Some(Plan {
        statement,
        steps,
        scans,
    })
}

fn scan_from(step: &str) -> Scan<'_> {
    let (what, costs) = step.split_once("  (cost=").unwrap_or((step, ""));
    let (how, on) = what.split_once(" on ").unwrap_or((what, ""));
    let actual = costs
        .split_once("(actual ")
        .map_or("", |(_, actual)| actual);
    let repeats = number_after(actual, "loops=");
    let is_scan = how.contains("Scan");
    Scan {
        table: if is_scan {
            on.split_whitespace().next().unwrap_or("")
        } else {
            ""
        },
        is_sequential: how.contains("Seq Scan"),
        rows_read: number_after(actual, "rows=") * repeats,
        repeats,
    }
}

/// Each time, on average.
fn removed_by(line: &str) -> Option<u64> {
    let line = line.trim_start();
    (line.starts_with("Rows Removed by Filter") || line.starts_with("Rows Removed by Index"))
        .then(|| number_after(line, ": "))
}

fn number_after(text: &str, name: &str) -> u64 {
    let number = text.split_once(name).map_or("", |(_, number)| number);
    let end = number.find(|c: char| !c.is_ascii_digit());
    number[..end.unwrap_or(number.len())].parse().unwrap_or(0)
}

#[test]
fn a_plan_tells_its_statement_and_what_its_steps_read() {
    let log = "2026-11-15 LOG:  duration: 0.1 ms  plan:\n\
        \tQuery Text: SELECT 1\n\t  FROM a, b\n\
        \tNested Loop  (cost=0.42..8.44 rows=1 width=4) (actual rows=7 loops=1)\n\
        \t  ->  Parallel Seq Scan on a  (cost=0.00..1.00 rows=1 width=4) (actual rows=2 loops=3)\n\
        \t        Filter: (x = 1)\n\
        \t        Rows Removed by Filter: 5\n\
        \t  ->  Index Scan using b_pkey on b bb  (cost=0.00..1.00 rows=1 width=4) (never executed)\n\
        2026-11-15 LOG:  something else\n";
    let plans = plans_in(log);
    let [plan] = &plans[..] else {
        panic!("{} plans", plans.len());
    };
    assert_eq!(plan.statement, "SELECT 1\n\t  FROM a, b");
    let read = |s: &Scan<'_>| (s.table.to_owned(), s.is_sequential, s.rows_read);
    let scans: Vec<_> = plan.scans.iter().map(read).collect();
    let none = (String::new(), false, 7);
    assert_eq!(
        scans,
        [none, ("a".into(), true, 21), ("b".into(), false, 0)]
    );
}
