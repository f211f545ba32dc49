//! A configured bank and its description together: whose promise counts, and where the description is found.

use anyhow::Context;
use tollgate_downstream::{Description, SHIPPED, Subject};

use super::downstream::{Bank, NamedBank};

/// The promises that a description makes and a configuration may make instead.
pub(super) const HONOURS: &str = "honours_idempotency_key";
pub(super) const RETENTION: &str = "key_retention_secs";
pub(super) const SETTLE: &str = "settle_secs";
pub(super) const NOT_DONE: &str = "means_not_done";
pub(super) const REMEMBERS: &str = "remembers_refusals";
pub(super) const PROMISES: [&str; 5] = [HONOURS, RETENTION, SETTLE, NOT_DONE, REMEMBERS];

/// Reads the description and lets it speak where nobody else has.
pub(super) fn described(
    (key, name): (String, String),
    bank: &Bank,
    subject: Subject,
) -> anyhow::Result<NamedBank> {
    let description = read(&bank.description).with_context(|| format!("{key}.description"))?;
    anyhow::ensure!(
        description.subject == subject,
        "{key}.description: {:?} is a description for {:?}, which cannot be used here",
        bank.description,
        description.subject
    );
    let mut bank = bank.clone();
    let promises = description.promises;
    let unsaid = |key: &str| !bank.said.contains(key);
    let honours = unsaid(HONOURS);
    let (retention, settle) = (unsaid(RETENTION), unsaid(SETTLE));
    let (not_done, remembers) = (unsaid(NOT_DONE), unsaid(REMEMBERS));
    let is_contract = matches!(bank.description.as_str(), "contract" | "contract-invoices");
    if !is_contract {
        match promises.honours_idempotency_key {
            Some(said) if honours => bank.honours_idempotency_key = said,
            None if honours || (bank.honours_idempotency_key && retention) => anyhow::bail!(
                "{key}: the description leaves honours_idempotency_key to you: ask the bank whether it recognises a repeated key, and for how long; then write honours_idempotency_key = true and key_retention_secs"
            ),
            Some(_) | None => {}
        }
        if retention {
            bank.key_retention_secs = promises.key_retention_secs;
        }
        if settle {
            bank.settle_secs = promises.settle_secs;
        }
        if remembers {
            bank.remembers_refusals = promises.remembers_refusals;
        }
    }
    let description = if is_contract || !not_done {
        let changed = description.promising_not_done(&bank.means_not_done);
        changed.map_err(|why| anyhow::anyhow!("{key}.means_not_done: {why}"))?
    } else {
        description
    };
    anyhow::ensure!(
        bank.honours_idempotency_key || description.can_be_asked(),
        "{key}.honours_idempotency_key: keys are not honoured and the description has no [probe]: a payment whose answer is lost could neither be resent nor queried"
    );
    Ok(NamedBank {
        key,
        name,
        bank,
        description,
    })
}

/// One that is shipped, or a file.
pub fn read(name: &str) -> anyhow::Result<Description> {
    let parsed = |text: &str| Description::read(text);
    if let Some(text) = Description::shipped(name) {
        return parsed(text).map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"));
    }
    let shipped: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let text = std::fs::read_to_string(name).map_err(|error| {
        let shipped = shipped.join(", ");
        anyhow::anyhow!(
            "{name:?} is neither a file that can be read ({}) nor one of {shipped}",
            error.kind()
        )
    })?;
    parsed(&text).map_err(|wrong| anyhow::anyhow!("{name}: {wrong}"))
}
