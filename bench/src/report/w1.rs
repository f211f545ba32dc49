//! W1: NDJSON in, durable items out, at store level and through HTTP, beside the same rows in one
//! transaction.

use anyhow::Result;

use super::Plan;
use super::table::{Figures, markdown, percent, two_digits, verdict, whole};
use crate::measure::BATCH;
use crate::payments::{self, Ids};
use crate::rounds::{Samples, interleaved};
use crate::stopwatch::day_ahead;
use crate::task::Task;

/// Of the limit.
const GOAL: f64 = 0.6;

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.size.pick(20_000, 1_000_000);
    // Random ids are slow enough for a fifth of it to say so.
    let random = plan.size.pick(20_000, 200_000);
    let kinds = [
        (Ids::Ascending, "ascending ids", count),
        (Ids::Random, "random ids", random),
    ];
    let mut tasks = Vec::new();
    for (ids, name, count) in kinds {
        let input = plan.scratch.path().join(format!("{name}.ndjson"));
        payments::write(&input, count, ids)?;
        tasks.push(Task::Intake {
            input: input.clone(),
            count,
        });
        tasks.push(Task::IntakeRows { input, count });
    }
    // The whole way checks the time too, so these are for a day that is near.
    let input = plan.scratch.path().join("http.ndjson");
    payments::write_for(&input, count, Ids::Ascending, &day_ahead())?;
    let mib = payments::mib(&input)?;
    tasks.push(Task::IntakeHttp { input, count });
    let samples = interleaved(&tasks, plan.rounds, plan.scratch)?;
    let pairs = kinds.iter().zip(samples.chunks_exact(2));
    let mut rows: Vec<_> = pairs
        .flat_map(|((_, name, _), pair)| cells(name, &pair[0], &pair[1]))
        .collect();
    let http = &samples[samples.len() - 1];
    rows.push(judged(
        "Tollgate through HTTP, ascending ids",
        http,
        &samples[1],
    ));
    let acknowledged = Figures::known(http, |sample| sample.acknowledged_secs);
    let head = [
        "cell",
        "items/s",
        "CPU s",
        "peak MiB",
        "commits",
        "last 10 % / first 10 %",
        "of the limit",
        "goal",
        "",
    ];
    Ok(format!(
        "## W1 intake\n\n\
         {items} payments ({few} with random ids) of about 300 bytes as NDJSON, for 24 full hours on one lane: read, parsed \
         (`PaymentRequest::parse`; not the checks against the time and the rules), slotted and durable, in batches of {BATCH}. The limit: the same rows into the same tables and indexes by \
         prepared statements in one transaction (rows built and slots placed outside the measured time; one \
         fsync at the end, hence a weaker durability class). Peers are not measured here.\n\n\
         Through HTTP: the file of {items} ({mib} MiB) is streamed to `POST /payments/bulk` of a `tollgate serve`, and the clock \
         stops when every line is admitted: chunks durable, every check, rule and count, a flow per chunk. CPU and memory are \
         the serving process's. The file was acknowledged (202, durable) after {acknowledged} s, and all of it admitted \
         after {admitted} s.\n\n{table}",
        items = whole(f64::from(count)),
        few = whole(f64::from(random)),
        mib = whole(mib),
        acknowledged = acknowledged.show(two_digits),
        admitted = Figures::of(http, |sample| sample.wall_secs).show(two_digits),
        table = markdown(head, &rows),
    ))
}

fn cells(name: &str, ours: &Samples, limit: &Samples) -> [[String; 9]; 2] {
    let limit_name = format!("limit: one transaction, {name}");
    [
        judged(&format!("Tollgate, {name}"), ours, limit),
        row(&limit_name, limit, Default::default()),
    ]
}

fn judged(name: &str, ours: &Samples, limit: &Samples) -> [String; 9] {
    let ratio = Figures::rate(ours).over(&Figures::rate(limit));
    let judged = [
        ratio.show(percent),
        format!("≥ {}", percent(GOAL)),
        verdict(ratio.median() >= GOAL),
    ];
    row(name, ours, judged)
}

fn row(name: &str, samples: &Samples, judged: [String; 3]) -> [String; 9] {
    let [ratio, goal, verdict] = judged;
    [
        name.to_owned(),
        Figures::rate(samples).show(whole),
        Figures::of(samples, |sample| sample.cpu_secs).show(two_digits),
        Figures::of(samples, |sample| sample.peak_mib).show(whole),
        Figures::commits(samples).show(whole),
        Figures::known(samples, |sample| sample.last_over_first).show(two_digits),
        ratio,
        goal,
        verdict,
    ]
}
