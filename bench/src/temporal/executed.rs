//! What payments cost a Temporal server from their intake to their end, with one payment to a flow and with the
//! default.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::item_type::DEFAULT_ITEMS_PER_FLOW;

use super::Plan;
use super::history::{Cost, by_type};
use super::holds::{Holds, counted};
use crate::http;
use crate::measure::http::import;
use crate::payments;
use crate::process::Process;
use crate::report::table::{markdown, one_digit, two_digits, whole};
use crate::stopwatch;
use crate::storm::set_limit;

/// Above what a development server starts of flows, so that it is never the bank that they wait for.
const BANK: u32 = 1_000;
/// For the intake, before the payments are due.
const LEAD: Duration = Duration::from_secs(20);
/// What is listed lags behind what is written, by less than this.
const LAG: Duration = Duration::from_secs(5);
/// A bank that saw nothing new for so long will see no more.
const STUCK: Duration = Duration::from_mins(3);

/// That a development server has from the start on.
const NAMESPACE: &str = "default";

const EXECUTES: [&str; 2] = ["PaymentExecWorkflow", "PaymentExecBatchWorkflow"];

struct Executed {
    payments: f64,
    holds: Holds,
    costs: HashMap<String, Cost>,
}

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.arguments.size.pick(500, 2_000);
    let alone = executed(plan, count, 1).await?;
    let several = executed(plan, count, DEFAULT_ITEMS_PER_FLOW).await?;
    let each = |what: &str, figure: &dyn Fn(&Executed) -> f64| {
        let [one, many] = [&alone, &several].map(|of| figure(of) / of.payments);
        [
            what.to_owned(),
            two_digits(one),
            two_digits(many),
            one_digit(one / many),
        ]
    };
    let bytes = [&alone, &several].map(|of| of.holds.bytes / of.payments);
    let rows = [
        each("flows that execute", &|of| of.executing().flows),
        each("events of all flows", &|of| of.all().events),
        each("of them, of flows that execute", &|of| {
            of.executing().events
        }),
        each("billable actions of all flows", &|of| of.all().actions),
        each("of them, of flows that execute", &|of| {
            of.executing().actions
        }),
        each("rows in Temporal's database", &|of| of.holds.rows),
        [
            "bytes of its database".to_owned(),
            whole(bytes[0]),
            whole(bytes[1]),
            one_digit(bytes[0] / bytes[1]),
        ],
    ];
    let several_to_a_flow = format!("{DEFAULT_ITEMS_PER_FLOW} to a flow");
    let head = ["per payment", "1 to a flow", &several_to_a_flow, "× fewer"];
    Ok(format!(
        "## W7 executed\n\n\
         {payments} payments from a file through HTTP to a bank that takes {BANK} a second, all due in one instant; counted when the bank \
         has them and no flow executes any more, on a server of its own. Counts, not times. All flows are those of the intake and of \
         the dispatchers' rounds, too: those come by the clock and not by the payment, so that they weigh less when \
         there are more payments. Actions are counted as Temporal Cloud bills them: starts, tries of activities, timers, signals, updates, and the \
         local activities of one workflow task as one; heartbeats do not show in a history and are not counted.\n\n\
         {table}\n{types}",
        payments = whole(f64::from(count)),
        table = markdown(head, &rows),
        types = [(1, &alone), (DEFAULT_ITEMS_PER_FLOW, &several)]
            .map(|(items, of)| of.types(items))
            .concat(),
    ))
}

impl Executed {
    fn sum<'a>(costs: impl Iterator<Item = &'a Cost>) -> Cost {
        costs.fold(Cost::default(), |sum, cost| Cost {
            flows: sum.flows + cost.flows,
            events: sum.events + cost.events,
            actions: sum.actions + cost.actions,
        })
    }

    fn all(&self) -> Cost {
        Self::sum(self.costs.values())
    }

    fn executing(&self) -> Cost {
        Self::sum(EXECUTES.iter().filter_map(|name| self.costs.get(*name)))
    }

    /// A line of all types of flows.
    fn types(&self, items: u32) -> String {
        let mut types: Vec<_> = self.costs.iter().collect();
        types.sort_by(|a, b| a.0.cmp(b.0));
        let types: Vec<String> = types
            .into_iter()
            .map(|(name, cost)| {
                let [flows, events, actions] = [cost.flows, cost.events, cost.actions].map(whole);
                format!("{name} {flows} ({events} events, {actions} actions)")
            })
            .collect();
        format!("- {items} to a flow: {}\n", types.join(", "))
    }
}

/// On a Temporal server of its own: what is left of others is cleared away for a while.
async fn executed(plan: &Plan<'_>, count: u32, items_per_flow: u32) -> Result<Executed> {
    let store = plan.postgres.database().await;
    let input = plan.scratch.path().join("executed.ndjson");
    tokio::task::block_in_place(|| {
        let temporal = TemporalServer::start();
        let engine = format!(
            "engine.url = \"temporal://{}/{NAMESPACE}\"",
            temporal.address()
        );
        let bank = Process::bank(BANK)?;
        let before = Holds::now(&temporal)?;
        let server = Process::serve(&store, &bank.url(), &engine)?;
        set_limit(server.address, BANK)?;
        let flows = json!({"itemsPerFlow": items_per_flow, "reason": "measured"});
        http::put(server.address, "/admin/item-types/PAYMENT", &flows)?;
        payments::write_due(&input, count, stopwatch::wall() + LEAD)?;
        import(&server, &input, count)?;
        all_paid(&bank, count)?;
        none_executing(&temporal)?;
        drop(server);
        Ok(Executed {
            payments: f64::from(count),
            holds: settled(&temporal)?.since(before),
            costs: by_type(&temporal, NAMESPACE)?,
        })
    })
}

/// The server clears away the tasks of ended flows for a while.
fn settled(temporal: &TemporalServer) -> Result<Holds> {
    let mut holds = Holds::now(temporal)?;
    loop {
        sleep(LAG);
        let now = Holds::now(temporal)?;
        if now.rows >= holds.rows {
            return Ok(now);
        }
        holds = now;
    }
}

fn all_paid(bank: &Process, count: u32) -> Result<()> {
    let mut arrived = (0, stopwatch::wall());
    loop {
        let ledger = http::get(bank.address, "/sandbox/ledger")?;
        let now = ledger["arrivals"].as_u64().unwrap_or_default();
        if now >= u64::from(count) {
            return Ok(());
        }
        if now > arrived.0 {
            arrived = (now, stopwatch::wall());
        }
        let waited = stopwatch::wall().duration_since(arrived.1);
        ensure!(Duration::try_from(waited)? < STUCK, "stuck: {ledger}");
        sleep(LAG);
    }
}

fn none_executing(temporal: &TemporalServer) -> Result<()> {
    let [one, several] = EXECUTES;
    let query = format!("ExecutionStatus = 'Running' AND WorkflowType IN ('{one}', '{several}')");
    loop {
        sleep(LAG);
        if counted(temporal, NAMESPACE, &query)? == 0 {
            return Ok(());
        }
    }
}
