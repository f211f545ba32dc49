//! W2: due items to their end, beside a bare SQL script and three peers with jobs that do nothing.

use anyhow::Result;
use tollgate_core::item_type::DEFAULT_ITEMS_PER_FLOW;

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
        Task::Flows {
            count,
            items_per_flow: DEFAULT_ITEMS_PER_FLOW,
        },
        Task::Flows {
            count,
            items_per_flow: 1,
        },
        Task::Drain { count },
        Task::Bare { count },
        peer(Peer::GraphileWorker),
        peer(Peer::PgBoss),
        peer(Peer::GraphileWorkerRs),
    ];
    let samples = interleaved(&tasks, plan.rounds, plan.server).await?;
    let [flows, alone, store, bare, peers @ ..] = &samples[..] else {
        unreachable!("seven tasks have seven answers")
    };
    let mut rows = vec![
        judged(
            &format!(
                "Tollgate, {DEFAULT_ITEMS_PER_FLOW} items to a flow (the default): claim → start → done"
            ),
            flows,
            bare,
        ),
        judged(
            "Tollgate, 1 item to a flow: claim → start → three steps journaled → done",
            alone,
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
        against.push(beside(name, [flows, alone, store], samples));
    }
    Ok(words(count, &markdown(HEAD, &rows), &against.concat()))
}

fn words(count: u32, table: &str, against: &str) -> String {
    format!(
        "## W2 claim and complete\n\n\
         {items} due items, claimed in batches of 500 and brought to their end; \
         nothing asks the gate for a turn and no bank is called. The first two rows are the whole road: the real dispatcher and the \
         embedded engine, three steps for each item, the last of them finishing queue row and record. \
         With one item to a flow each step is journaled; with several, the flow's one step is. The third asks the store only: `claim`, `record_starts`, then `finish` for each \
         item, 1,024 at once, without a flow. The bare script updates the queue row alone, on one connection, two commits per 500. \
         The peers' jobs do nothing, with their own batching switched on: graphile-worker with a local queue of 500 \
         and completions gathered (concurrency 24), pg-boss with `fetch` and `complete` of 500 by two callers, graphile_worker with a \
         local queue of 500 and completions gathered (concurrency 24). They journal no steps. All flush every commit.\n\n{table}\n{against}",
        items = whole(f64::from(count)),
    )
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

/// What the whole road is to reach of a peer.
const PEER_GOAL: f64 = 0.8;

fn beside(name: &str, ours: [&Samples; 3], peer: &Samples) -> String {
    let peer = Figures::rate(peer);
    let [flows, alone, store] = ours.map(|ours| Figures::rate(ours).over(&peer));
    format!(
        "- against {name}: whole road {} × ({}), with one item to a flow {} × ({}), store level {} × ({})\n",
        flows.show(two_digits),
        verdict(flows.median() >= PEER_GOAL),
        alone.show(two_digits),
        verdict(alone.median() >= PEER_GOAL),
        store.show(two_digits),
        verdict(store.median() > 1.0),
    )
}
