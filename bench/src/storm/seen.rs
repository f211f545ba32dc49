//! What a bank saw of a storm, by its own ledger and its own clock.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::Value;
use tollgate_core::Timestamp;

use crate::http;

/// Lines of the ledger, or payments, per page.
const PAGE: usize = 1000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) arrivals: f64,
    /// Arrivals in the fullest sliding second.
    pub(crate) worst_second: f64,
    /// Above the limit, or otherwise not to the bank's liking.
    pub(crate) refused: f64,
    /// Paid more than once.
    pub(crate) doubles: f64,
    /// Arrivals over what the limit allows between the first and the last.
    pub(crate) utilisation: f64,
    /// From the slot that was promised to the arrival.
    pub(crate) late_p50_ms: f64,
    pub(crate) late_p99_ms: f64,
    /// How long after its exact time a turn was used, in the mean, by the first node's gate.
    pub(crate) turn_late_ms: f64,
    /// 99 of 100 turns were used no later than this; by the gate's histogram, so one of its bounds.
    pub(crate) turn_late_p99_ms: f64,
    pub(crate) turns_dropped: f64,
    /// Of all nodes: at the instant, at the end, and the peak.
    pub(crate) memory: [f64; 3],
}

impl Seen {
    /// With the slots that were promised at a door to the payments of a file, if there is one.
    pub(crate) fn by(
        bank: SocketAddr,
        promised: Option<(SocketAddr, &str)>,
        limit: u32,
    ) -> Result<Self> {
        let summary = http::get(bank, "/sandbox/ledger")?;
        let arrivals = arrivals(bank)?;
        let times: Vec<f64> = arrivals.iter().map(|(_, at)| *at).collect();
        let began = number(&summary, "startedUnixSecs")?;
        let slots = promised.map(|(door, file)| slots(door, file));
        let slots = slots.transpose()?.unwrap_or_default();
        let mut late: Vec<f64> = arrivals
            .iter()
            .filter_map(|(id, at)| Some((began + at - slots.get(id)?) * 1000.0))
            .collect();
        late.sort_by(f64::total_cmp);
        let gate = promised.map(|(door, _)| http::get_text(door, "/metrics"));
        let gate = gate.transpose()?.unwrap_or_default();
        let turns = metric(&gate, "tollgate_turn_lateness_seconds_count");
        let late_secs = metric(&gate, "tollgate_turn_lateness_seconds_sum");
        Ok(Self {
            turn_late_ms: late_secs * 1000.0 / turns.max(1.0),
            turn_late_p99_ms: bound_of_99(&gate, "tollgate_turn_lateness_seconds") * 1000.0,
            turns_dropped: metric(&gate, "tollgate_turns_dropped_total"),
            arrivals: number(&summary, "arrivals")?,
            worst_second: number(&summary, "worstSecondCount")?,
            refused: number(&summary, "refused")?,
            doubles: number(&summary, "doubles")?,
            utilisation: utilisation(&times, limit),
            late_p50_ms: percentile(&late, 50),
            late_p99_ms: percentile(&late, 99),
            memory: [0.0; 3],
        })
    }
}

fn number(value: &Value, field: &str) -> Result<f64> {
    let found = value[field].as_f64();
    found.with_context(|| format!("{field} is missing in {value}"))
}

/// The sum over a metric's labels.
pub(super) fn metric(text: &str, name: &str) -> f64 {
    let lines = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    // The sum of nothing would be minus zero.
    values.fold(0.0, |sum, value| sum + value)
}

/// The lowest bound of a histogram with one series that 99 of 100 are below.
fn bound_of_99(text: &str, name: &str) -> f64 {
    let prefix = format!("{name}_bucket");
    let lines = text.lines().filter_map(|line| {
        let (labels, count) = line.strip_prefix(&prefix)?.rsplit_once(' ')?;
        let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
        Some((bound.parse::<f64>().ok()?, count.parse::<f64>().ok()?))
    });
    let buckets: Vec<(f64, f64)> = lines.collect();
    let all = buckets.iter().map(|(_, count)| *count).fold(0.0, f64::max);
    let enough = buckets.iter().filter(|(_, count)| *count >= all * 0.99);
    let bounds = enough.map(|(bound, _)| *bound);
    bounds.fold(f64::INFINITY, f64::min)
}

/// Payments and when they arrived, in order of arrival.
fn arrivals(bank: SocketAddr) -> Result<Vec<(String, f64)>> {
    let mut arrivals = vec![];
    let mut after = 0;
    loop {
        let path = format!("/sandbox/ledger?entries=true&after={after}&limit={PAGE}");
        let page = http::get_text(bank, &path)?;
        let lines = page.lines().filter(|line| !line.is_empty());
        let before = after;
        for line in lines {
            let entry: Value = serde_json::from_str(line)?;
            let id = entry["paymentId"].as_str().unwrap_or_default();
            arrivals.push((id.to_owned(), number(&entry, "arrivalSecs")?));
            after += 1;
        }
        if after == before {
            arrivals.sort_by(|a, b| a.1.total_cmp(&b.1));
            return Ok(arrivals);
        }
    }
}

/// When each payment of a file was promised to run, in seconds since 1970.
fn slots(door: SocketAddr, file: &str) -> Result<HashMap<String, f64>> {
    let mut slots = HashMap::new();
    let mut after = String::new();
    loop {
        let page = http::get(door, &format!("/payments?batch={file}&limit={PAGE}{after}"))?;
        for line in page["payments"].as_array().context("no payments")? {
            let id = line["paymentId"].as_str().unwrap_or_default();
            let slot = line["scheduledTime"].as_str().context("no slot")?;
            let slot: Timestamp = slot.parse()?;
            slots.insert(id.to_owned(), slot.as_duration().as_secs_f64());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(slots),
        }
    }
}

fn utilisation(times: &[f64], limit: u32) -> f64 {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return 0.0;
    };
    let gaps = u32::try_from(times.len().saturating_sub(1)).unwrap_or(u32::MAX);
    f64::from(gaps) / ((last - first) * f64::from(limit))
}

fn percentile(sorted: &[f64], hundredths: usize) -> f64 {
    let index = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bank_that_is_kept_busy_is_used_in_full() {
        let times: Vec<f64> = (0..101).map(|n| f64::from(n) / 50.0).collect();
        assert!((utilisation(&times, 50) - 1.0).abs() < 1e-9);
        assert!((utilisation(&times, 100) - 0.5).abs() < 1e-9);
        assert!((utilisation(&[], 50)).abs() < 1e-9);
    }

    #[test]
    fn a_metric_is_summed_over_its_labels_and_is_not_its_neighbour() {
        let text = "# TYPE a counter\na{lane=\"x\"} 2\na{lane=\"y\"} 3.5\nab 7\n";
        assert!((metric(text, "a") - 5.5).abs() < 1e-9);
    }

    #[test]
    fn the_bound_of_99_of_100_is_read_from_a_histogram() {
        let line = |le: &str, count: u32| format!("a_bucket{{lane=\"x\",le=\"{le}\"}} {count}\n");
        let text = [line("0.001", 90), line("0.002", 99), line("+Inf", 100)].concat();
        assert!((bound_of_99(&text, "a") - 0.002).abs() < 1e-9);
        let text = [line("0.001", 90), line("0.002", 98), line("+Inf", 100)].concat();
        assert!(bound_of_99(&text, "a").is_infinite());
        assert!(bound_of_99("", "a").is_infinite());
    }

    #[test]
    fn percentiles_are_of_what_was_seen() {
        let sorted: Vec<f64> = (1..=200).map(f64::from).collect();
        assert!((percentile(&sorted, 50) - 100.0).abs() < 1e-9);
        assert!((percentile(&sorted, 99) - 198.0).abs() < 1e-9);
        assert!(percentile(&[], 50).is_nan());
    }
}
