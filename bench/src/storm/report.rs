//! W3 as a table.

use std::io::{Write, stderr};

use anyhow::Result;

use super::{LIMITS, Seen, Storm};
use crate::arguments::Size;
use crate::report::table::{Figures, markdown, one_digit, percent, verdict, whole};

/// Of the limit.
const GOAL: f64 = 0.97;

/// One line of the table: some nodes under one limit, and what the bank saw, round by round.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) limit: u32,
    pub(crate) seen: Vec<Seen>,
}

impl Cell {
    pub(crate) fn all(names: &[&str]) -> Vec<Self> {
        let cells = names
            .iter()
            .flat_map(|name| LIMITS.map(|limit| Self::new(name, limit)));
        cells.collect()
    }

    pub(crate) fn new(name: &str, limit: u32) -> Self {
        Self {
            name: name.to_owned(),
            limit,
            seen: vec![],
        }
    }

    /// One round more.
    pub(crate) fn add(&mut self, seen: Seen) -> Result<()> {
        writeln!(stderr(), "{}, {}/s: {seen:?}", self.name, self.limit)?;
        self.seen.push(seen);
        Ok(())
    }

    fn row(&self) -> [String; 11] {
        let of = |figure: fn(&Seen) -> f64| Figures::new(self.seen.iter().map(figure).collect());
        let (worst, used) = (of(|seen| seen.worst_second), of(|seen| seen.utilisation));
        let [before, after, peak] =
            [0, 1, 2].map(|n| Figures::new(self.seen.iter().map(|seen| seen.memory[n]).collect()));
        let good = |seen: &Seen| {
            seen.worst_second <= f64::from(self.limit) && seen.refused + seen.doubles == 0.0
        };
        [
            self.name.clone(),
            self.limit.to_string(),
            of(|seen| seen.arrivals).show(whole),
            worst.show(whole),
            of(|seen| seen.refused).show(whole),
            verdict(self.seen.iter().all(good)),
            used.show(percent),
            verdict(used.median() >= GOAL),
            of(|seen| seen.late_p50_ms).show(one_digit),
            of(|seen| seen.late_p99_ms).show(one_digit),
            format!(
                "{} → {}, peak {}",
                before.show(whole),
                after.show(whole),
                peak.show(whole)
            ),
        ]
    }
}

const HEAD: [&str; 11] = [
    "cell",
    "limit/s",
    "arrivals",
    "worst sliding second",
    "refused by the bank",
    "0 violations",
    "utilisation",
    "≥ 97 %",
    "behind the slot p50 ms",
    "p99 ms",
    "MiB of all nodes",
];

pub(crate) fn section(size: Size, cells: &[Cell], note: &str) -> String {
    let storm = Storm::of(size, LIMITS[0]);
    let rows: Vec<_> = cells.iter().map(Cell::row).collect();
    format!(
        "## W3 storm\n\n\
         {payments} payments for one instant, sent in as a file before it; then the bank is watched for {watched} s. \
         Server and bank (`tollgate sandbox`) are processes of their own on this machine. Worst second, refusals and times \
         are the bank's, by its own ledger and clock; it refuses what is above the limit in any sliding second. \
         Utilisation: arrivals over what the limit allows between the first and the last. Behind the slot: from the \
         `scheduledTime` that was promised at intake to the arrival. Memory: resident, at the instant, at the end, and the \
         highest since the start, the intake of the file included. The gate's margin is the default, 2 %: 20 ms of every second \
         for all that lies between a turn and the bank's own stamp, the bank's process included; where that is held up for \
         longer, as on a machine that others use, the bank counts more than the limit in a second.{note}\n\n{table}",
        payments = whole(f64::from(storm.payments)),
        watched = storm.watched.as_secs(),
        table = markdown(HEAD, &rows),
    )
}
