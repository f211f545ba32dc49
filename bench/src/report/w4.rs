//! W4: slots for one instant, beside the same inserts in one transaction and a plain window walk.

use anyhow::Result;

use super::Plan;
use super::table::{Figures, markdown, percent, replans, two_digits, verdict, whole};
use crate::measure::BATCH;
use crate::rounds::{Samples, interleaved};
use crate::task::Task;

/// The cost of the last tenth over that of the first.
const GOAL: f64 = 1.2;
/// Batches of 1,000 in flight.
const BATCHES_IN_FLIGHT: u32 = 4;
/// Batches of 1 in flight: one full group of the writer.
const SINGLES_IN_FLIGHT: u32 = 512;
/// The usual plan.
const PER_WINDOW: u32 = 100;

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let many = plan.size.pick(20_000, 1_000_000);
    let singles = plan.size.pick(20_000, 200_000);
    let walked = plan.size.pick(5_000, 20_000);
    let slots = |count, batch, at_once| Task::Slots {
        count,
        batch,
        at_once,
    };
    let tasks = [
        slots(many, BATCH, BATCHES_IN_FLIGHT),
        Task::SlotRows { count: many },
        slots(singles, 1, SINGLES_IN_FLIGHT),
        Task::SlotRows { count: singles },
        slots(walked, 1, 1),
        Task::WindowWalk {
            count: walked,
            per_window: PER_WINDOW,
        },
        Task::Replan { count: many },
    ];
    let samples = interleaved(&tasks, plan.rounds, plan.scratch)?;
    let [
        batched,
        batched_limit,
        single,
        single_limit,
        alone,
        walk,
        replan,
    ] = &samples[..]
    else {
        unreachable!("seven tasks have seven answers")
    };
    let rows = [
        ours(
            "batches of 1,000, 4 in flight",
            batched,
            Some(batched_limit),
        ),
        beside("limit: one transaction", batched_limit),
        ours("batches of 1, 512 in flight", single, Some(single_limit)),
        beside("limit: one transaction", single_limit),
        ours("batches of 1, one after the other", alone, None),
        beside("peer: window walk, one after the other", walk),
    ];
    let head = [
        "cell",
        "slots",
        "slots/s",
        "commits",
        "of the limit",
        "last 10 % / first 10 %",
        "goal",
        "",
    ];
    let faster = Figures::rate(alone).over(&Figures::rate(walk));
    Ok(format!(
        "## W4 slots\n\n\
         Assignments to one instant on a lane of 100 per 4 seconds; every slot comes with its record, context and \
         queue row. Batches of 1 are measured at the smaller number of slots that the table names. The limit: the \
         same inserts in one transaction, slots placed outside the measured time, one fsync at the end (a weaker \
         durability class). The peer walks from the requested window to the first with room (windows of \
         {PER_WINDOW}), one transaction per item, and writes a counter and a slot only. The growth of the limit is \
         the growth of its B-trees, without its commit.\n\n{table}\n\
         One after the other, Tollgate gives {faster} × the slots/s of the window walk at this size.\n\n{replans}",
        replans = replans(replan),
        table = markdown(head, &rows),
        faster = faster.show(two_digits),
    ))
}

fn ours(name: &str, samples: &Samples, limit: Option<&Samples>) -> [String; 8] {
    let growth = growth(samples);
    let [_, slots, rate, commits, _, _, _, _] = beside(name, samples);
    [
        format!("Tollgate, {name}"),
        slots,
        rate,
        commits,
        limit.map_or("—".to_owned(), |limit| {
            let ratio = Figures::rate(samples).over(&Figures::rate(limit));
            ratio.show(percent)
        }),
        growth.show(two_digits),
        format!("≤ {GOAL}"),
        verdict(growth.median() <= GOAL),
    ]
}

fn beside(name: &str, samples: &Samples) -> [String; 8] {
    let slots = samples.first().map_or(0, |sample| sample.count);
    [
        name.to_owned(),
        whole(f64::from(slots)),
        Figures::rate(samples).show(whole),
        Figures::commits(samples).show(whole),
        String::new(),
        growth(samples).show(two_digits),
        String::new(),
        String::new(),
    ]
}

fn growth(samples: &Samples) -> Figures {
    Figures::known(samples, |sample| sample.last_over_first)
}
