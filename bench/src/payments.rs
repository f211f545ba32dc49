//! The payments of W1: about 300 bytes of JSON each, unique ids, the same on every machine.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, anyhow};
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, LaneName};
use tollgate_core::ports::NewItem;
use tollgate_domains::payments::{PaymentRequest, new_item};

/// How the ids follow each other, which decides where the rows of a B-tree go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Each above the one before, as sequences and ULIDs are.
    Ascending,
    /// All over the place, as UUIDs of version 4 are.
    Random,
}

/// Writes `count` payments, one per line, for a day that is never reached.
pub(crate) fn write(path: &Path, count: u32, ids: Ids) -> Result<()> {
    write_for(path, count, ids, "2040-06-01")
}

/// Writes `count` payments, one per line, for a day.
pub(crate) fn write_for(path: &Path, count: u32, ids: Ids, day: &str) -> Result<()> {
    // People choose full hours: 24 instants, each with a 24th of all payments.
    write_at(path, count, ids, |mixed| {
        format!("{day}T{:02}:00:00Z", mixed % 24)
    })
}

/// Writes `count` payments, one per line, for one instant.
pub(crate) fn write_due(path: &Path, count: u32, instant: Timestamp) -> Result<()> {
    write_at(path, count, Ids::Ascending, |_| instant.to_string())
}

/// One of them, as it is taken in.
pub(crate) fn one() -> Result<NewItem> {
    let text = line(0, Ids::Ascending, |_| "2040-06-01T00:00:00Z".to_owned());
    parse(&text, &LaneName::new("default"), &FlowId::new("init-bench"))
}

fn write_at(path: &Path, count: u32, ids: Ids, at: impl Fn(u64) -> String) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 0..count {
        writeln!(file, "{}", line(number, ids, &at))?;
    }
    file.flush()?;
    Ok(())
}

fn line(number: u32, ids: Ids, at: impl Fn(u64) -> String) -> String {
    let mixed = mix(u64::from(number));
    let id = match ids {
        Ids::Ascending => format!("pay-{number:016}"),
        Ids::Random => format!("pay-{mixed:016x}"),
    };
    let (units, cents, at) = (1 + mixed % 9_000, mixed % 100, at(mixed));
    format!(
        r#"{{"paymentId":"{id}","amount":"{units}.{cents:02}","currency":"EUR","debtor":{{"account":"DE89{mixed:020}","name":"Bakery at the Mill"}},"creditor":{{"account":"FR14{number:020}","name":"Flour and Sons"}},"executeAt":"{at}","gateway":"sepa","reference":"invoice {number:08}"}}"#
    )
}

/// How large a file is.
pub(crate) fn mib(path: &Path) -> Result<f64> {
    let kib = u32::try_from(path.metadata()?.len() / 1024)?;
    Ok(f64::from(kib) / 1024.0)
}

/// Reads a file of payments in batches, through the checks of parsing; those against the time and
/// the rules are private to the domain and not included.
pub(crate) fn read(
    path: &Path,
    batch: usize,
    lane: LaneName,
) -> Result<impl Iterator<Item = Result<Vec<NewItem>>>> {
    let mut lines = BufReader::new(File::open(path)?).lines();
    let flow = FlowId::new("init-bench");
    Ok(std::iter::from_fn(move || {
        let items = lines.by_ref().take(batch);
        let items: Result<Vec<NewItem>> = items.map(|line| parse(&line?, &lane, &flow)).collect();
        match items {
            Ok(items) if items.is_empty() => None,
            other => Some(other),
        }
    }))
}

fn parse(text: &str, lane: &LaneName, flow: &FlowId) -> Result<NewItem> {
    let body = serde_json::from_str(text)?;
    let payment = PaymentRequest::parse(&body).map_err(|wrong| anyhow!("{wrong:?}"))?;
    Ok(new_item(&payment, lane, flow)?)
}

/// The finalizer of SplitMix64: a bijection, so that unique numbers stay unique.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
