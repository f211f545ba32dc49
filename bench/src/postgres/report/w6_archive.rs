//! W6 beside a move into the archive: how long a claim takes while ended payments leave the same tables.

use anyhow::Result;

use super::super::lock_waits::LockWaits;
use super::super::rounds::{measure, prepare, say};
use super::super::task::Task;
use super::Plan;
use crate::ended;
use crate::report::table::{Figures, markdown, one_digit, two_digits, verdict, whole};
use crate::rounds::Samples;
use crate::sample::Latency;

const LOCK_WAIT_MS: f64 = 50.0;

/// While they stay, or while they are moved.
#[derive(Default)]
struct Cell {
    samples: Samples,
    lock_waits_ms: Vec<f64>,
}

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let (queued, ended) = (plan.size.pick(100_000, 1_000_000), ended::count(plan.size));
    let claims = plan.size.pick(50, 300);
    let task = |moving| Task::ClaimsBeside {
        queued,
        ended,
        moving,
        claims,
    };
    // One database for all rounds: a round moves a hundredth of what is there.
    let url = plan.server.database().await;
    prepare(&task(false), &url, plan.server).await?;
    let mut cells = [Cell::default(), Cell::default()];
    for round in 1..=plan.rounds {
        for (cell, moving) in cells.iter_mut().zip([false, true]) {
            let waits = LockWaits::watch(plan.server);
            let sample = measure(&task(moving), &url, plan.server).await?;
            cell.lock_waits_ms.push(waits.longest_ms().await?);
            say(round, &task(moving), &sample)?;
            cell.samples.push(sample);
        }
    }
    plan.server.drop_database(&url).await;
    let [still, moving] = &cells;
    let longest = |cell: &Cell| cell.lock_waits_ms.iter().copied().fold(0.0, f64::max);
    let median = Figures::new(moving.lock_waits_ms.clone()).median();
    let head = [
        "ended payments",
        "claim p50 ms",
        "p99 ms",
        "longest ms",
        "longest lock wait seen, ms",
        "moved a round",
    ];
    Ok(format!(
        "## W6 beside a move into the archive\n\n\
         One `claim` of 100 items, {claims} times a round after a warm-up, as in W6 (future-dated) with {queued} rows that wait, beside {ended} payments of \
         an earlier day that have ended: while they stay, and while the service moves them at its own pace in the claiming process. \
         One after the other in each round, in one database. Lock waits of anyone, looked for every few milliseconds.\n\n{table}\n\
         p99 while they are moved: {ratio} × that while they stay. Longest lock wait, median of the rounds: {median} ms ({short}: at most {LOCK_WAIT_MS}); of all rounds: {worst} ms, \
         and {worst_still} ms while they stay.\n",
        queued = whole(f64::from(queued)),
        ended = whole(f64::from(ended)),
        table = markdown(head, &[row("stay", still), row("are moved", moving)]),
        ratio = latency(moving, |it| it.p99_ms)
            .over(&latency(still, |it| it.p99_ms))
            .show(two_digits),
        short = verdict(median <= LOCK_WAIT_MS),
        median = one_digit(median),
        worst = one_digit(longest(moving)),
        worst_still = one_digit(longest(still)),
    ))
}

fn latency(cell: &Cell, of: fn(&Latency) -> f64) -> Figures {
    Figures::known(&cell.samples, |sample| sample.latency.as_ref().map(of))
}

fn row(name: &str, cell: &Cell) -> [String; 6] {
    let moved = Figures::known(&cell.samples, |sample| sample.moved.map(f64::from));
    [
        name.to_owned(),
        latency(cell, |it| it.p50_ms).show(two_digits),
        latency(cell, |it| it.p99_ms).show(two_digits),
        Figures::known(&cell.samples, |sample| sample.longest_ms).show(two_digits),
        Figures::new(cell.lock_waits_ms.clone()).show(one_digit),
        moved.show(whole),
    ]
}
