//! W5: three-step flows on the embedded engine, beside what the disk and bare SQLite allow.

use anyhow::Result;

use super::Plan;
use super::table::{Figures, markdown, percent, two_digits, verdict, whole};
use crate::measure::STEPS;
use crate::rounds::{Samples, interleaved};
use crate::task::Task;

/// A flow's writes that wait for each other: its start, its loading, its steps, its end.
const WRITES: u32 = 3 + STEPS;
/// Flows/s of Temporal's dev server in memory on two cores, the better end; from another run.
const TEMPORAL: f64 = 39.0;
const GOAL: f64 = 50.0;

/// One degree of concurrency, with its limits measured right beside it.
struct Cell<'a> {
    at_once: u32,
    appends: &'a Samples,
    flows: &'a Samples,
    journal: &'a Samples,
}

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let few = plan.size.pick(200, 2_000);
    let many = plan.size.pick(2_000, 20_000);
    let loads = [(1, few), (64, many), (512, many)];
    let mut tasks = Vec::new();
    for (at_once, count) in loads {
        tasks.push(Task::Appends {
            count: plan.size.pick(300, 5_000),
        });
        tasks.push(Task::Flows { count, at_once });
        tasks.push(Task::JournalRows {
            count: count * STEPS,
            per_commit: at_once,
        });
    }
    let samples = interleaved(&tasks, plan.rounds, plan.scratch)?;
    let rows: Vec<_> = loads
        .iter()
        .zip(samples.chunks_exact(3))
        .map(|(&(at_once, _), beside)| Cell {
            at_once,
            appends: &beside[0],
            flows: &beside[1],
            journal: &beside[2],
        })
        .map(|cell| cell.row())
        .collect();
    let head = [
        "at once",
        "flows",
        "flows/s",
        "ms per step",
        "CPU s",
        "commits",
        "limit: bare group commit, flows/s",
        "of it",
        "fdatasync/s",
        "limit: fdatasync/s × at once ÷ 6, flows/s",
        "of it",
        "goal*",
        "",
    ];
    Ok(format!(
        "## W5 flows\n\n\
         Flows of three steps that return at once, on the embedded engine; each caller starts one, waits for its end \
         and starts the next. A step's added latency is wall time × at once ÷ steps. A flow makes {WRITES} durable \
         writes that wait for each other (start, load, three steps, end). Bare group commit: as many journal rows \
         ({STEPS} per flow) by plain SQLite, with as many rows per commit as flows were at once. \
         fdatasync: after 4 KiB appends on the same disk, one by one.\n\n{table}\n\
         \\* Goal: ≥ {GOAL:.0} × Temporal's dev server, whose 31–39 flows/s (in memory, two cores, so a weaker \
         durability class) are a figure of another run, **not measured in this run**: read as ≥ {wanted} flows/s, \
         and as a hint only.\n",
        table = markdown(head, &rows),
        wanted = whole(GOAL * TEMPORAL),
    ))
}

impl Cell<'_> {
    fn row(&self) -> [String; 13] {
        let at_once = f64::from(self.at_once);
        let rate = Figures::rate(self.flows);
        let per_step = Figures::of(self.flows, |sample| {
            1000.0 * sample.wall_secs * at_once / (f64::from(sample.count) * f64::from(STEPS))
        });
        let bare = Figures::rate(self.journal).times(1.0 / f64::from(STEPS));
        let syncs = Figures::rate(self.appends);
        let synced = syncs.times(at_once / f64::from(WRITES));
        let count = self.flows.first().map_or(0, |sample| sample.count);
        [
            self.at_once.to_string(),
            whole(f64::from(count)),
            rate.show(whole),
            per_step.show(two_digits),
            Figures::of(self.flows, |sample| sample.cpu_secs).show(two_digits),
            Figures::commits(self.flows).show(whole),
            bare.show(whole),
            rate.over(&bare).show(percent),
            syncs.show(whole),
            synced.show(whole),
            rate.over(&synced).show(percent),
            format!("≥ {}", whole(GOAL * TEMPORAL)),
            verdict(rate.median() >= GOAL * TEMPORAL) + "*",
        ]
    }
}
