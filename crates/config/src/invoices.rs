//! How invoices are charged: the retry schedule of customers without one, the checks, the sweep.

use anyhow::{Context, ensure};
use serde::Deserialize;
use tollgate_domains::invoices::{Chain, CheckText, RetrySchedule};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoices {
    pub ladder: Vec<String>,
    pub sweep_secs: u64,
    #[serde(default)]
    pub checks: Vec<CheckText>,
}

impl Invoices {
    pub fn retry_schedule(&self) -> anyhow::Result<RetrySchedule> {
        RetrySchedule::try_from(self.ladder.clone()).map_err(|why| anyhow::anyhow!("{why}"))
    }

    pub fn validate(&self) -> anyhow::Result<()> {
        self.retry_schedule().context("invoices.ladder")?;
        ensure!(
            self.sweep_secs > 0,
            "invoices.sweep_secs must be at least 1"
        );
        Chain::read(&self.checks).map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::with;

    #[test]
    fn each_contradiction_about_invoices_names_its_key() {
        let check = |rest: &str| {
            format!("[[invoices.checks]]\nname = \"night\"\nmessage = \"not at night\"\n{rest}")
        };
        let table = [
            ("invoices.ladder = [\"1w\"]".to_owned(), "invoices.ladder"),
            ("invoices.sweep_secs = 0".to_owned(), "invoices.sweep_secs"),
            (check("require = \"1 +\"\notherwise = \"skip\""), "night"),
            (
                check("require = \"true\"\notherwise = \"stop\""),
                "otherwise",
            ),
            (
                "downstream.invoices.timeout_ms = 0".to_owned(),
                "downstream.invoices.timeout_ms",
            ),
            (
                "downstream.invoices.lane = \"a b\"".to_owned(),
                "downstream.invoices.lane",
            ),
        ];
        for (toml, key) in table {
            let said = format!("{:#}", with(&toml).unwrap_err());
            assert!(said.contains(key), "{toml}: {said}");
        }
        let good = check(
            "require = \"amountMinor < minor('10.00')\"\notherwise = \"postpone\"\npause = \"2h\"",
        );
        with(&good).unwrap();
    }
}
