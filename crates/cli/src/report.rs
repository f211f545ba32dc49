//! The demo's proof: what the store says and what the bank's own ledger says, side by side.

use std::collections::BTreeMap;

use tollgate_core::Timestamp;
use tollgate_core::certificate::Certificate;
use tollgate_core::id::LaneName;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{Store, Total};
use tollgate_domains::payments;
use tollgate_sandbox::Ledger;

/// What the demo set out to do.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) payments: u64,
    pub(crate) limit: u32,
    pub(crate) lane: LaneName,
    pub(crate) since: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Report {
    certificate: Certificate,
    totals: Vec<Total>,
    bank: BankSays,
    checks: Vec<(&'static str, bool)>,
}

#[derive(Debug)]
struct BankSays {
    arrivals: usize,
    took: u64,
    doubles: usize,
    worst_second: usize,
    by_currency: BTreeMap<String, (u64, String)>,
}

impl Report {
    pub(crate) async fn make(
        store: &dyn Store,
        ledger: &Ledger,
        expected: &Expected,
    ) -> anyhow::Result<Self> {
        let now = store.now().await?;
        let certificate = store
            .certificate(&expected.lane, expected.since, now)
            .await?;
        let totals = store
            .totals(&payments::item_type(), expected.since, now)
            .await?;
        let bank = BankSays {
            arrivals: ledger.arrivals(),
            took: ledger.effective().len() as u64,
            doubles: ledger.doubles().len(),
            worst_second: ledger.worst_second().count,
            by_currency: ledger.total_by_currency(),
        };
        let counted: u64 = totals.iter().map(|total| total.count).sum();
        let our_worst = certificate.worst_second.map_or(0, |peak| peak.sends);
        let checks = vec![
            (
                "every payment is in the control totals",
                counted == expected.payments,
            ),
            (
                "every payment took effect at the bank",
                bank.took == expected.payments,
            ),
            ("no payment took effect twice", bank.doubles == 0),
            (
                "the amounts agree for each currency",
                amounts_agree(&totals, &bank.by_currency),
            ),
            (
                "our log has at least as many sends as the bank received",
                certificate.sends >= bank.arrivals as u64,
            ),
            (
                "our worst second is within the limit",
                our_worst <= expected.limit,
            ),
            (
                "the bank's worst second is within the limit",
                bank.worst_second <= expected.limit as usize,
            ),
        ];
        Ok(Self {
            certificate,
            totals,
            bank,
            checks,
        })
    }

    pub(crate) fn all_well(&self) -> bool {
        self.checks.iter().all(|(_, well)| *well)
    }

    #[expect(clippy::print_stdout, reason = "the report is data")]
    pub(crate) fn print(&self) {
        println!("\n{}", self.certificate);
        println!("Control totals");
        for total in &self.totals {
            println!(
                "  {:<12} {:>8}  {:>18}",
                total.status,
                total.count,
                amount(total)
            );
        }
        println!("\nThe bank's own ledger");
        println!("  arrivals        {}", self.bank.arrivals);
        println!(
            "  took effect     {}, more than once {}",
            self.bank.took, self.bank.doubles
        );
        println!("  worst second    {} arrivals", self.bank.worst_second);
        for (currency, (count, sum)) in &self.bank.by_currency {
            println!(
                "  {:<12} {count:>8}  {:>18}",
                "",
                format!("{sum} {currency}")
            );
        }
        println!();
        for (check, well) in &self.checks {
            println!("  {} {check}", if *well { "ok    " } else { "FAILED" });
        }
    }
}

fn amount(total: &Total) -> String {
    match Currency::from_code(&total.currency) {
        Some(currency) => Money {
            minor: total.amount_minor,
            currency,
        }
        .to_string(),
        None => format!("{} {}", total.amount_minor, total.currency),
    }
}

/// The bank adds up decimal text on its own; the sums must be the same numbers.
fn amounts_agree(totals: &[Total], bank: &BTreeMap<String, (u64, String)>) -> bool {
    let mut ours: BTreeMap<&str, i64> = BTreeMap::new();
    for total in totals {
        *ours.entry(&total.currency).or_default() += total.amount_minor;
    }
    let agree = |(code, minor): (&&str, &i64)| {
        let money = Currency::from_code(code).map(|currency| {
            Money {
                minor: *minor,
                currency,
            }
            .decimal()
        });
        let said = bank
            .get(*code)
            .and_then(|(_, sum)| sum.parse::<rust_decimal::Decimal>().ok());
        money.and_then(|money| money.parse().ok()) == said
    };
    ours.len() == bank.len() && ours.iter().all(agree)
}
