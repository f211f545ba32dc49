//! W1 on PostgreSQL: NDJSON in, durable items out, at store level and through HTTP, beside COPY of the
//! same rows and three peers.

use anyhow::Result;

use super::super::rounds::interleaved;
use super::super::task::{Peer, Task, Work};
use super::Plan;
use crate::measure::BATCH;
use crate::payments::{self, Ids};
use crate::report::table::{Figures, markdown, one_digit, percent, two_digits, verdict, whole};
use crate::rounds::Samples;
use crate::stopwatch::day_ahead;

/// Of the limit.
const GOAL: f64 = 0.55;
/// Of the best peer, at the store's door and through HTTP.
const DOOR_GOAL: f64 = 1.0;
const HTTP_GOAL: f64 = 0.8;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.size.pick(20_000, 200_000);
    let few = plan.size.pick(20_000, 100_000);
    let samples = interleaved(&tasks(plan, count, few)?, plan.rounds, plan.server).await?;
    let [ours, limit, random, random_limit, http, peers @ ..] = &samples[..] else {
        unreachable!("eight tasks have eight answers")
    };
    let mut rows = vec![
        judged("Tollgate, ascending ids", ours, limit),
        row("limit: COPY, one transaction, ascending ids", limit),
        judged("Tollgate, random ids", random, random_limit),
        row("limit: COPY, one transaction, random ids", random_limit),
        judged("Tollgate through HTTP, ascending ids", http, limit),
    ];
    for ((_, name), samples) in PEERS.iter().zip(peers) {
        rows.push(row(&format!("peer: {name}"), samples));
    }
    let ahead = over_the_best(&Figures::rate(ours), peers);
    let http_ahead = over_the_best(&Figures::rate(http), peers);
    Ok(format!(
        "## W1 intake\n\n\
         {items} payments ({few} with random ids and for the peers) of about 300 bytes as NDJSON, for 24 full hours on one lane: \
         read, parsed (`PaymentRequest::parse`; not the checks against the time and the rules), slotted and durable, \
         in batches of {BATCH}, 4 in flight: two rows each (body, queue), every id checked for \
         sameness. The limit: COPY of the same rows into the same tables and indexes in one transaction, rows \
         written down and slots placed outside the measured time (one flush at the end: a weaker durability class). \
         The peers read and parse the same lines and insert each payment as one job, one row, in the same batches, \
         4 in flight; they plan no slots and know no sameness. Of the Node packages, these are the newest that run on \
         Node 20.\n\n\
         Through HTTP: a file of {items} is streamed to `POST /payments/bulk` of a `tollgate serve`, and the clock stops \
         when every line is admitted: chunks durable, every check, rule and count, a flow per chunk. The client is the serving \
         process. The file was acknowledged (202, durable) after {acknowledged} s.\n\n{table}\n\
         Per durable item Tollgate takes in {ahead} × as many per second as the best peer at the store's door (goal ≥ {DOOR_GOAL:.1} ×: {judged}), \
         and {http_ahead} × through HTTP (goal ≥ {HTTP_GOAL:.1} ×: {http_judged}).\n",
        items = whole(f64::from(count)),
        few = whole(f64::from(few)),
        acknowledged = Figures::known(http, |sample| sample.acknowledged_secs).show(two_digits),
        table = markdown(HEAD, &rows),
        ahead = ahead.show(two_digits),
        judged = verdict(ahead.median() >= DOOR_GOAL),
        http_ahead = http_ahead.show(two_digits),
        http_judged = verdict(http_ahead.median() >= HTTP_GOAL),
    ))
}

const PEERS: [(Peer, &str); 3] = [
    (
        Peer::GraphileWorker,
        "graphile-worker 0.17 `addJobs` (Node)",
    ),
    (Peer::PgBoss, "pg-boss 10 `insert` (Node)"),
    (
        Peer::GraphileWorkerRs,
        "graphile_worker 0.14 `add_raw_jobs` (Rust)",
    ),
];

fn tasks(plan: &Plan<'_>, count: u32, few: u32) -> Result<Vec<Task>> {
    let kinds = [
        (Ids::Ascending, "ascending.ndjson", count),
        (Ids::Random, "random.ndjson", few),
    ];
    let mut tasks = Vec::new();
    for (ids, name, count) in kinds {
        let input = plan.scratch.path().join(name);
        payments::write(&input, count, ids)?;
        tasks.push(Task::Intake {
            input: input.clone(),
            count,
        });
        tasks.push(Task::IntakeCopy { input, count });
    }
    // The whole way checks the time too, so these are for a day that is near.
    let input = plan.scratch.path().join("http.ndjson");
    payments::write_for(&input, count, Ids::Ascending, &day_ahead())?;
    tasks.push(Task::IntakeHttp { input, count });
    let input = plan.scratch.path().join("ascending.ndjson");
    let peers = PEERS.iter().map(|(peer, _)| Task::Peer {
        peer: *peer,
        work: Work::Insert,
        input: input.clone(),
        count: few,
    });
    Ok(tasks.into_iter().chain(peers).collect())
}

/// Over the one whose median is the highest.
fn over_the_best(ours: &Figures, peers: &[Samples]) -> Figures {
    let rates = peers.iter().map(Figures::rate);
    let best = rates.max_by(|a, b| a.median().total_cmp(&b.median()));
    best.map_or_else(|| ours.clone(), |best| ours.over(&best))
}

const HEAD: [&str; 10] = [
    "cell",
    "items/s",
    "CPU s, client",
    "peak MiB, client",
    "WAL bytes per item",
    "commits per 1,000 items",
    "last 10 % / first 10 %",
    "of the limit",
    "goal",
    "",
];

fn judged(name: &str, samples: &Samples, limit: &Samples) -> [String; 10] {
    let ratio = Figures::rate(samples).over(&Figures::rate(limit));
    let mut row = row(name, samples);
    row[7] = ratio.show(percent);
    row[8] = format!("≥ {}", percent(GOAL));
    row[9] = verdict(ratio.median() >= GOAL);
    row
}

fn row(name: &str, samples: &Samples) -> [String; 10] {
    [
        name.to_owned(),
        Figures::rate(samples).show(whole),
        Figures::of(samples, |sample| sample.cpu_secs).show(two_digits),
        Figures::of(samples, |sample| sample.peak_mib).show(whole),
        Figures::wal_per_item(samples).show(whole),
        Figures::commits_per_item(samples)
            .times(1000.0)
            .show(one_digit),
        Figures::known(samples, |sample| sample.last_over_first).show(two_digits),
        String::new(),
        String::new(),
        String::new(),
    ]
}
