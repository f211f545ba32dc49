//! W4 on PostgreSQL: slots for one instant, beside COPY of the same rows in one transaction.

use anyhow::Result;

use super::super::rounds::interleaved;
use super::super::task::Task;
use super::Plan;
use crate::measure::BATCH;
use crate::report::table::{
    Figures, markdown, one_digit, percent, replans, two_digits, verdict, whole,
};
use crate::rounds::Samples;

/// The cost of the last tenth over that of the first.
const GOAL: f64 = 1.2;
/// Batches of 1,000 in flight.
const BATCHES_IN_FLIGHT: u32 = 4;
/// Batches of 1 in flight: half of what a group of admissions takes along.
const SINGLES_IN_FLIGHT: u32 = 512;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let many = plan.size.pick(20_000, 1_000_000);
    let singles = plan.size.pick(10_000, 100_000);
    let slots = |count, batch, at_once| Task::Slots {
        count,
        batch,
        at_once,
    };
    let tasks = [
        slots(many, BATCH, BATCHES_IN_FLIGHT),
        Task::SlotCopy { count: many },
        slots(singles, 1, SINGLES_IN_FLIGHT),
        Task::SlotCopy { count: singles },
        Task::Replan { count: many },
    ];
    let samples = interleaved(&tasks, plan.rounds, plan.server).await?;
    let [batched, batched_limit, single, single_limit, replan] = &samples[..] else {
        unreachable!("five tasks have five answers")
    };
    let rows = [
        ours("batches of 1,000, 4 in flight", batched, batched_limit),
        beside("limit: COPY, one transaction", batched_limit),
        ours("batches of 1, 512 in flight", single, single_limit),
        beside("limit: COPY, one transaction", single_limit),
    ];
    Ok(format!(
        "## W4 slots\n\n\
         Assignments to one instant on a lane of 100 per 4 seconds; every slot comes with its record, context and \
         queue row. Batches of 1 are measured at the smaller number of slots that the table names. The limit: COPY \
         of the same rows in one transaction, slots placed outside the measured time, one flush at the end (a \
         weaker durability class); its growth is that of its B-trees, without its commit.\n\n{}\n{}",
        markdown(HEAD, &rows),
        replans(replan),
    ))
}

const HEAD: [&str; 9] = [
    "cell",
    "slots",
    "slots/s",
    "WAL bytes per slot",
    "commits per 1,000 slots",
    "of the limit",
    "last 10 % / first 10 %",
    "goal",
    "",
];

fn ours(name: &str, samples: &Samples, limit: &Samples) -> [String; 9] {
    let growth = growth(samples);
    let mut row = beside(&format!("Tollgate, {name}"), samples);
    row[5] = Figures::rate(samples)
        .over(&Figures::rate(limit))
        .show(percent);
    row[7] = format!("≤ {GOAL}");
    row[8] = verdict(growth.median() <= GOAL);
    row
}

fn beside(name: &str, samples: &Samples) -> [String; 9] {
    let slots = samples.first().map_or(0, |sample| sample.count);
    [
        name.to_owned(),
        whole(f64::from(slots)),
        Figures::rate(samples).show(whole),
        Figures::wal_per_item(samples).show(whole),
        Figures::commits_per_item(samples)
            .times(1000.0)
            .show(one_digit),
        String::new(),
        growth(samples).show(two_digits),
        String::new(),
        String::new(),
    ]
}

fn growth(samples: &Samples) -> Figures {
    Figures::known(samples, |sample| sample.last_over_first)
}
