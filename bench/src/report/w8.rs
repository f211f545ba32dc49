//! W8 on SQLite and the embedded engine: one status check over many gateways, beside the critical path
//! that its rules allow. Server and services are processes of their own; every call is counted by the
//! services' own book.

use std::io::{Write, stderr};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Plan;
use super::table::{Figures, markdown, one_digit, two_digits, verdict, whole};
use crate::arguments::Size;
use crate::http;
use crate::process::{PACE, Process};
use crate::stopwatch::Lap;

/// Wall time over critical path.
const GOAL: f64 = 1.1;
const GATEWAYS: u32 = 20;
/// As configured by default: lookups at once, and payments in a chunk.
const LOOKUPS: u32 = 10;
const CHUNK: u32 = 5;

/// How long the services take, per call, in milliseconds.
const LATENCIES: [Latencies; 2] = [
    Latencies {
        lookup: 30,
        notify: 50,
        check: 50,
    },
    Latencies {
        lookup: 5,
        notify: 10,
        check: 10,
    },
];

#[derive(Debug, Clone, Copy)]
struct Latencies {
    lookup: u32,
    notify: u32,
    check: u32,
}

impl Latencies {
    fn faults(self) -> String {
        let Self {
            lookup,
            notify,
            check,
        } = self;
        format!(
            "lookups: latency {lookup}ms; notifies: latency {notify}ms; checks: latency {check}ms"
        )
    }

    /// Batches of lookups one after another, then all gateways side by side; of each, chunks one
    /// after another, each announced once and then asked about payment by payment.
    fn critical_path(self, ids: u32) -> Duration {
        let batches = ids.div_ceil(LOOKUPS);
        let of_one = ids.div_ceil(GATEWAYS);
        let gateway_ms = of_one.div_ceil(CHUNK) * self.notify + of_one * self.check;
        Duration::from_millis(u64::from(batches * self.lookup + gateway_ms))
    }
}

/// What one check took.
#[derive(Debug, Clone, Copy)]
struct Took {
    wall_secs: f64,
    calls: f64,
    cpu_secs: f64,
    peak_mib: f64,
}

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let ids = plan.size.pick(1_000, 10_000);
    let mut rounds = LATENCIES.map(|_| vec![]);
    for _ in 0..plan.rounds {
        for (latencies, taken) in LATENCIES.into_iter().zip(&mut rounds) {
            let took = check(plan, latencies, ids)?;
            writeln!(stderr(), "{latencies:?}: {took:?}")?;
            taken.push(took);
        }
    }
    let rows: Vec<_> = LATENCIES
        .iter()
        .zip(&rounds)
        .map(|(latencies, taken)| row(*latencies, ids, taken))
        .collect();
    Ok(text(plan.size, ids, &rows))
}

fn check(plan: &Plan<'_>, latencies: Latencies, ids: u32) -> Result<Took> {
    let services = Process::services(&latencies.faults())?;
    let folder = plan.scratch.folder()?;
    let store = format!("sqlite:{}", folder.path().join("checks.db").display());
    let url = services.url();
    let places = ["elasticsearch", "idb_facade", "pgi_gateway"]
        .map(|place| format!("{place}.url = \"{url}\"\n"))
        .concat();
    let server = Process::serve(&store, &url, &places)?;
    let all: Vec<String> = (0..ids)
        .map(|n| format!("gateway-{}:{n}", n % GATEWAYS))
        .collect();
    let cpu = server.cpu_secs()?;
    let lap = Lap::begin()?;
    let started = http::post(
        server.address,
        "/payments/check-status",
        &json!({"paymentIds": all}),
    )?;
    let path = format!(
        "/payments/check-status/{}",
        started["workflowId"].as_str().unwrap_or_default()
    );
    while http::get(server.address, &path)?["status"] == "RUNNING" {
        sleep(PACE);
    }
    let wall_secs = lap.wall().as_secs_f64();
    let ended = http::get(server.address, &path)?;
    ensure!(ended["status"] == "COMPLETED", "{}", ended["status"]);
    let calls = http::get(services.address, "/sandbox/calls")?;
    Ok(Took {
        wall_secs,
        calls: made(&calls),
        cpu_secs: server.cpu_secs()? - cpu,
        peak_mib: server.peak_mib()?,
    })
}

/// All calls that the services have counted.
fn made(calls: &Value) -> f64 {
    let kinds = ["lookups", "notifies", "checks"];
    kinds.iter().filter_map(|kind| calls[*kind].as_f64()).sum()
}

fn row(latencies: Latencies, ids: u32, taken: &[Took]) -> [String; 8] {
    let of = |figure: fn(&Took) -> f64| Figures::new(taken.iter().map(figure).collect());
    let path = latencies.critical_path(ids).as_secs_f64();
    let ratio = of(|took| took.wall_secs).times(1.0 / path);
    let Latencies {
        lookup,
        notify,
        check,
    } = latencies;
    [
        format!("{lookup} / {notify} / {check}"),
        one_digit(path),
        of(|took| took.wall_secs).show(one_digit),
        ratio.show(two_digits),
        verdict(ratio.median() <= GOAL),
        of(|took| took.calls).show(whole),
        of(|took| took.cpu_secs).show(one_digit),
        of(|took| took.peak_mib).show(whole),
    ]
}

fn text(size: Size, ids: u32, rows: &[[String; 8]]) -> String {
    let head = [
        "ms of a lookup / notify / check",
        "critical path s",
        "wall s",
        "ratio",
        "≤ 1.1",
        "calls, by the services' book",
        "server's CPU s",
        "server's peak MiB",
    ];
    let pace = PACE.as_millis();
    let small = size.pick(" A small run.", "");
    format!(
        "## W8 status check\n\n\
         One check of {ids} payments over {GATEWAYS} gateways, on SQLite and the embedded engine, against `tollgate sandbox` as \
         Elasticsearch, IDB facade and PGI gateway with the latencies below, in a process of its own on this machine. \
         Settings are the defaults: {LOOKUPS} lookups at once, chunks of {CHUNK}. Critical path: batches of lookups one after another, \
         then all gateways side by side, and of one gateway one announcement for each chunk and one question for each \
         payment, one after another; nothing but the services' latencies. Wall time: from the request to the first answer \
         that it has ended, looked for every {pace} ms. Every call is a durable step.{small}\n\n{table}",
        ids = whole(f64::from(ids)),
        table = markdown(head, rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_critical_path_is_lookups_and_then_the_longest_gateway() {
        let path = LATENCIES[0].critical_path(10_000);
        assert_eq!(
            path,
            Duration::from_secs(30) + Duration::from_secs(5) + Duration::from_secs(25)
        );
    }
}
