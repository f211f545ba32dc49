//! What the server holds while payments wait: open workflows, rows and bytes of its database.

use std::time::Duration;

use anyhow::{Result, ensure};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, Memo, Start};
use tollgate_temporal::{Server, TemporalEngine};

use super::Plan;
use super::holds::{Holds, counted, running};
use crate::measure::http::{NO_BANK, import};
use crate::payments::{self, Ids};
use crate::process::Process;
use crate::report::table::{markdown, one_digit, verdict, whole};
use crate::stopwatch::day_ahead;

const GOAL: f64 = 200.0;
/// Longer than any run takes.
const ASLEEP: Duration = Duration::from_hours(24);
/// Flows asked for in one call.
const BATCH: u32 = 500;
/// So many of the dispatcher's rounds are watched.
const ROUNDS: u64 = 20;
/// What is listed lags behind what is written, by less than this.
const LAG: Duration = Duration::from_secs(5);

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.arguments.size.pick(20_000, 100_000);
    let ours = ours(plan, count).await?;
    let (sleeping, open) = sleeping(plan, count).await?;
    let row = |what: &str, open: f64, holds: Holds| {
        [
            what.to_owned(),
            whole(open),
            whole(holds.rows),
            whole(holds.bytes),
        ]
    };
    let ratio = |what: &str, goal: f64, ratios: [f64; 3]| {
        let [open, rows, bytes] = ratios.map(|ratio| {
            let met = if goal > 0.0 {
                format!(", {}", verdict(ratio >= goal))
            } else {
                String::new()
            };
            format!("{} ×{met}", one_digit(ratio))
        });
        [what.to_owned(), open, rows, bytes]
    };
    let taken = ours.intake;
    let rows = [
        row("one sleeping workflow each", open, sleeping),
        row("Tollgate, after the intake of a file", ours.open, taken),
        ratio(
            &format!("so many times fewer (goal ≥ {GOAL:.0})"),
            GOAL,
            [
                open / ours.open.max(1.0),
                sleeping.rows / taken.rows,
                sleeping.bytes / taken.bytes,
            ],
        ),
    ];
    let head = ["", "open workflows", "rows", "bytes"];
    let per_round = |figure: f64| figure / ours.rounds;
    Ok(format!(
        "## W7 engine pressure\n\n\
         {payments} payments for a day a month ahead. Sleeping: a workflow each with Temporal's start delay, which \
         is the cheapest way to sleep (no task has run, no timer event is written). Tollgate: the same payments \
         as one file through HTTP, with all roles in one process of its own. Rows and bytes are what Temporal's own database has \
         more than before; what Tollgate itself keeps is in PostgreSQL and not counted.\n\n{table}\n\
         What Tollgate adds later does not depend on how many payments wait: each round of a dispatcher, one per \
         interval and item type, is a workflow that ends and stays for the namespace's retention. Over {rounds} rounds \
         it was {round_rows} rows and {round_bytes} bytes a round; with five seconds between rounds a day of one type's \
         is {day} MiB. That is as much as {equal} payments asleep: below that number the sleeping design takes less space.\n",
        payments = whole(f64::from(count)),
        table = markdown(head, &rows),
        rounds = whole(ours.rounds),
        round_rows = one_digit(per_round(ours.later.rows)),
        round_bytes = whole(per_round(ours.later.bytes)),
        day = whole(per_round(ours.later.bytes) * ROUNDS_A_DAY / 1_048_576.0),
        equal =
            whole(per_round(ours.later.bytes) * ROUNDS_A_DAY / (sleeping.bytes / f64::from(count))),
    ))
}

/// With the default interval.
const ROUNDS_A_DAY: f64 = 86_400.0 / 5.0;

struct Ours {
    open: f64,
    intake: Holds,
    /// What came when the intake had settled, in so many rounds.
    later: Holds,
    rounds: f64,
}

async fn ours(plan: &Plan<'_>, count: u32) -> Result<Ours> {
    let (name, temporal) = ("ours", plan.temporal);
    plan.namespace(name)?;
    let store = plan.postgres.database().await;
    let engine = format!("engine.url = \"temporal://{}/{name}\"", temporal.address());
    let input = plan.scratch.path().join("payments.ndjson");
    payments::write_for(&input, count, Ids::Ascending, &day_ahead())?;

    let before = Holds::now(temporal)?;
    let serving = move || -> Result<Process> {
        let server = Process::serve(&store, NO_BANK, &engine)?;
        import(&server, &input, count)?;
        Ok(server)
    };
    let server = tokio::task::spawn_blocking(serving).await??;
    let (intake, open) = (Holds::now(temporal)?, running(temporal, name)?);
    // The server clears away the tasks of the intake for a while: rounds are counted after that.
    more_rounds(temporal, name).await?;
    let (settled, began) = (Holds::now(temporal)?, rounds(temporal, name)?);
    more_rounds(temporal, name).await?;
    let (after, ended) = (Holds::now(temporal)?, rounds(temporal, name)?);
    drop(server);
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    Ok(Ours {
        open: open as f64,
        intake: intake.since(before),
        later: after.since(settled),
        rounds: (ended - began) as f64,
    })
}

async fn sleeping(plan: &Plan<'_>, count: u32) -> Result<(Holds, f64)> {
    let (name, server) = ("asleep", plan.temporal);
    plan.namespace(name)?;
    let client = Server::plain(&server.address(), name, "bench")
        .connect()
        .await?;
    let engine = TemporalEngine::new(client, "bench");
    let input = plan.scratch.path().join("payments.ndjson");
    let text = std::fs::read_to_string(&input)?;
    let lines: Vec<&str> = text.lines().collect();
    let before = Holds::now(server)?;
    for (batch, lines) in lines.chunks(BATCH as usize).enumerate() {
        let starts = lines.iter().enumerate().map(|(number, line)| Start {
            id: FlowId::new(format!("asleep-{batch:06}-{number:03}")),
            name: "SleepingWorkflow".to_owned(),
            task_queue: "nobody".to_owned(),
            input_json: (*line).to_owned(),
            delay: ASLEEP,
            memo: Memo::new(),
        });
        let started = engine.start(starts.collect()).await?;
        ensure!(started.len() == lines.len(), "the server went away");
    }
    tokio::time::sleep(LAG).await;
    let open = running(server, name)?;
    ensure!(open == u64::from(count), "{open} of {count} are asleep");
    Ok((Holds::now(server)?.since(before), f64::from(count)))
}

fn rounds(server: &TemporalServer, namespace: &str) -> Result<u64> {
    let over = "WorkflowType = 'DispatcherWorkflow' AND ExecutionStatus = 'Completed'";
    counted(server, namespace, over)
}

async fn more_rounds(server: &TemporalServer, namespace: &str) -> Result<()> {
    let enough = rounds(server, namespace)? + ROUNDS;
    while rounds(server, namespace)? < enough {
        tokio::time::sleep(LAG).await;
    }
    Ok(())
}
