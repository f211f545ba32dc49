//! W6: how a claim's latency grows with the queue.

use anyhow::Result;

use super::super::rounds::{measure, prepare, say};
use super::super::task::Task;
use super::Plan;
use crate::report::table::{Figures, markdown, two_digits, verdict, whole};
use crate::rounds::Samples;
use crate::sample::Latency;

/// p99 at the longest queue over that at the shortest.
const GOAL: f64 = 2.0;

/// One length of queue: its database stays for the whole workload.
struct Queue {
    rows: u32,
    url: String,
    /// Future-dated, then due.
    samples: [Samples; 2],
}

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let claims = plan.size.pick(50, 300);
    let lengths: &[u32] = plan.size.pick(
        &[10_000, 100_000],
        &[10_000, 100_000, 1_000_000, 10_000_000],
    );
    let task = |queued, due| Task::Claims {
        queued,
        due,
        claims,
    };
    let mut queues = Vec::new();
    for &rows in lengths {
        let url = plan.server.database().await;
        prepare(&task(rows, false), &url, plan.server).await?;
        let samples = Default::default();
        queues.push(Queue { rows, url, samples });
    }
    for round in 1..=plan.rounds {
        for (kind, due) in [false, true].into_iter().enumerate() {
            for queue in &mut queues {
                let task = task(queue.rows, due);
                let sample = measure(&task, &queue.url, plan.server).await?;
                say(round, &task, &sample)?;
                queue.samples[kind].push(sample);
            }
        }
    }
    for queue in &queues {
        plan.server.drop_database(&queue.url).await;
    }
    let rows: Vec<_> = [0, 1]
        .into_iter()
        .flat_map(|kind| rows(&queues, kind))
        .collect();
    let head = [
        "queue",
        "rows",
        "p50 ms",
        "p99 ms",
        "p99 over that of the shortest",
        "goal",
        "",
    ];
    Ok(format!(
        "## W6 growth\n\n\
         One `claim` of 100 items, {claims} times a round after a warm-up, with so many rows in the queue of one lane. Before each, 100 \
         new items become due; after each, what was claimed is finished: neither is timed, and the queue stays as \
         long as it was. Future-dated: all others are due tomorrow or later. Due: all others are due already, and \
         the oldest are taken first.\n\n{}",
        markdown(head, &rows),
    ))
}

fn rows(queues: &[Queue], kind: usize) -> Vec<[String; 7]> {
    let name = ["future-dated", "due"][kind];
    let figures = |queue: &Queue, of: fn(&Latency) -> f64| {
        Figures::known(&queue.samples[kind], |sample| {
            sample.latency.as_ref().map(of)
        })
    };
    let mut rows = Vec::new();
    for (place, queue) in queues.iter().enumerate() {
        let p99 = figures(queue, |latency| latency.p99_ms);
        let growth = p99.over(&figures(&queues[0], |latency| latency.p99_ms));
        let is_last = place + 1 == queues.len();
        rows.push([
            name.to_owned(),
            whole(f64::from(queue.rows)),
            figures(queue, |latency| latency.p50_ms).show(two_digits),
            p99.show(two_digits),
            growth.show(two_digits),
            if is_last {
                format!("≤ {GOAL:.0}")
            } else {
                String::new()
            },
            if is_last {
                verdict(growth.median() <= GOAL)
            } else {
                String::new()
            },
        ]);
    }
    rows
}
