//! W2: due items to their end, beside a bare SQL script and three peers with jobs that do nothing.

use anyhow::Result;

use super::super::rounds::interleaved;
use super::super::task::{Peer, Task, Work};
use super::Plan;
use crate::payments::{self, Ids};
use crate::report::table::{Figures, markdown, percent, three_digits, two_digits, verdict, whole};
use crate::rounds::Samples;

/// Of the bare script.
const GOAL: f64 = 0.5;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.size.pick(10_000, 100_000);
    let input = plan.scratch.path().join("drained.ndjson");
    payments::write(&input, count, Ids::Ascending)?;
    let peer = |peer| Task::Peer {
        peer,
        work: Work::Drain,
        input: input.clone(),
        count,
    };
    let tasks = [
        Task::Flows { count },
        Task::Drain { count },
        Task::Bare { count },
        peer(Peer::GraphileWorker),
        peer(Peer::PgBoss),
        peer(Peer::GraphileWorkerRs),
    ];
    let samples = interleaved(&tasks, plan.rounds, plan.server).await?;
    let [flows, store, bare, peers @ ..] = &samples[..] else {
        unreachable!("six tasks have six answers")
    };
    let mut rows = vec![
        judged(
            "Tollgate: claim → start → three steps journaled → done",
            flows,
            bare,
        ),
        judged(
            "Tollgate, store level: claim → started → finished",
            store,
            bare,
        ),
        row("limit: bare SQL, claim 500, complete 500", bare),
    ];
    let names = [
        "graphile-worker 0.17 (Node)",
        "pg-boss 10 (Node)",
        "graphile_worker 0.14 (Rust)",
    ];
    let mut against = Vec::new();
    for (name, samples) in names.iter().zip(peers) {
        rows.push(row(&format!("peer: {name}"), samples));
        against.push(beside(name, flows, store, samples));
    }
    Ok(format!(
        "## W2 claim and complete\n\n\
         {items} due items, claimed in batches of 500 and brought to their end; \
         nothing asks the gate for a turn and no bank is called. The first row is the whole road: the real dispatcher and the \
         embedded engine, a flow of three steps for each item, each step journaled, the last of them finishing \
         queue row and record. The second asks the store only: `claim`, `record_starts`, then `finish` for each \
         item, 1,024 at once, without a flow. The bare script updates the queue row alone, on one connection, two commits per 500. \
         The peers' jobs do nothing, with their own batching switched on: graphile-worker with a local queue of 500 \
         and completions gathered (concurrency 24), pg-boss with `fetch` and `complete` of 500 by two callers, graphile_worker with a \
         local queue of 500 and completions gathered (concurrency 24). They journal no steps. All flush every commit.\n\n{table}\n{against}",
        items = whole(f64::from(count)),
        table = markdown(HEAD, &rows),
        against = against.concat(),
    ))
}

const HEAD: [&str; 7] = [
    "cell",
    "items/s",
    "WAL bytes per item",
    "commits per item",
    "of the bare script",
    "goal",
    "",
];

fn judged(name: &str, samples: &Samples, bare: &Samples) -> [String; 7] {
    let ratio = Figures::rate(samples).over(&Figures::rate(bare));
    let mut row = row(name, samples);
    row[4] = ratio.show(percent);
    row[5] = format!("≥ {}", percent(GOAL));
    row[6] = verdict(ratio.median() >= GOAL);
    row
}

fn row(name: &str, samples: &Samples) -> [String; 7] {
    [
        name.to_owned(),
        Figures::rate(samples).show(whole),
        Figures::wal_per_item(samples).show(whole),
        Figures::commits_per_item(samples).show(three_digits),
        String::new(),
        String::new(),
        String::new(),
    ]
}

fn beside(name: &str, flows: &Samples, store: &Samples, peer: &Samples) -> String {
    let peer = Figures::rate(peer);
    let [flows, store] = [flows, store].map(|ours| Figures::rate(ours).over(&peer));
    format!(
        "- against {name}: whole road {} × ({}), store level {} × ({})\n",
        flows.show(two_digits),
        verdict(flows.median() > 1.0),
        store.show(two_digits),
        verdict(store.median() > 1.0),
    )
}
