//! How long ended items stay where: `[retention]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;
use tollgate_core::id::ItemType;
use tollgate_core::retention::{Ages, Floor};
use tollgate_dispatch::{ArchivedType, OldAges};
use tollgate_domains::notifications::AT_LEAST_FOR;
use tollgate_domains::payments::RuleText;
use tollgate_domains::{invoices, notifications, payments};

use super::Config;

const DAY: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    hot_days: u32,
    archive_days: u32,
    known_years: u32,
    #[serde(default)]
    payments: AgesText,
    #[serde(default)]
    invoices: AgesText,
    #[serde(default)]
    notifications: AgesText,
    import_days: u32,
    job_days: u32,
    export_dir: PathBuf,
    restored_days: u32,
}

/// What is different for one item type.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgesText {
    hot_days: Option<u32>,
    archive_days: Option<u32>,
    known_years: Option<u32>,
}

impl Retention {
    fn ages(&self, own: &AgesText) -> Ages {
        Ages {
            hot_days: own.hot_days.unwrap_or(self.hot_days),
            archive_days: own.archive_days.unwrap_or(self.archive_days),
            known_years: own.known_years.unwrap_or(self.known_years),
        }
    }

    fn of(&self, item_type: &ItemType) -> (&'static str, Ages) {
        if *item_type == payments::item_type() {
            ("payments", self.ages(&self.payments))
        } else if *item_type == invoices::item_type() {
            ("invoices", self.ages(&self.invoices))
        } else {
            ("notifications", self.ages(&self.notifications))
        }
    }
}

/// The ages of one item type as configured, and what they may not be shorter than, beside what is changed while the
/// service runs.
#[derive(Debug, Clone)]
pub struct TypeRetention {
    pub archived: ArchivedType,
    pub floors: Vec<Floor>,
}

impl Config {
    pub fn retention(&self) -> anyhow::Result<Vec<TypeRetention>> {
        let types = [
            (payments::item_type(), true, self.payment_floors()?),
            (notifications::item_type(), false, vec![patience()]),
            (invoices::item_type(), true, self.invoice_floors()?),
        ];
        let one = |(item_type, remembered, floors): (ItemType, bool, Vec<Floor>)| TypeRetention {
            archived: ArchivedType {
                ages: self.retention.of(&item_type).1,
                item_type,
                remembered,
            },
            floors,
        };
        Ok(types.into_iter().map(one).collect())
    }

    /// The setting of the file behind a field of the ages.
    pub fn retention_key(&self, item_type: &ItemType, field: &str) -> String {
        let (name, _) = self.retention.of(item_type);
        let key = match field {
            "hotDays" => "hot_days",
            "archiveDays" => "archive_days",
            _ => "known_years",
        };
        format!("retention.{key} of {name}")
    }

    /// Where days of the archive are exported to; none if they are not.
    pub fn export_dir(&self) -> Option<&Path> {
        let path = self.retention.export_dir.as_path();
        (!path.as_os_str().is_empty()).then_some(path)
    }

    /// Days for which a restored day stays in the database.
    pub fn restored_days(&self) -> u32 {
        self.retention.restored_days
    }

    pub fn old_ages(&self) -> OldAges {
        OldAges {
            refused: DAY * self.retention.hot_days,
            imports: DAY * self.retention.import_days,
            jobs: DAY * self.retention.job_days,
        }
    }

    pub(super) fn validate_retention(&self) -> anyhow::Result<()> {
        for of in self.retention()? {
            let (ages, item_type) = (of.archived.ages, &of.archived.item_type);
            let mut floors = of.floors;
            if *item_type == payments::item_type() {
                floors.extend(rule_floors(&self.rules));
            }
            if let Some((field, why)) = ages.problem(&floors) {
                let key = self.retention_key(item_type, field);
                anyhow::bail!("{key} {why}");
            }
        }
        for (key, days) in [
            ("import_days", self.retention.import_days),
            ("job_days", self.retention.job_days),
        ] {
            ensure!(days >= 1, "retention.{key} must be at least 1");
        }
        // A folder that is not there is not made: it may be a disk that is not mounted.
        if let Some(path) = self.export_dir() {
            ensure!(
                path.is_dir(),
                "retention.export_dir: {} does not exist or is not a folder; create or mount it",
                path.display()
            );
        }
        Ok(())
    }

    fn payment_floors(&self) -> anyhow::Result<Vec<Floor>> {
        let banks = self.downstream.banks()?;
        let key = |named: &super::NamedBank| {
            let key = format!("{}.key_retention_secs", named.key);
            Floor {
                key,
                needed: Duration::from_secs(named.bank.key_retention_secs),
            }
        };
        let mut floors: Vec<Floor> = banks.iter().map(key).collect();
        if !self.downstream.notifications.urls.is_empty() {
            floors.push(patience());
        }
        Ok(floors)
    }

    fn invoice_floors(&self) -> anyhow::Result<Vec<Floor>> {
        let key = Floor {
            key: "downstream.invoices.key_retention_secs".to_owned(),
            needed: Duration::from_secs(self.downstream.invoices.key_retention_secs),
        };
        let retries = Floor {
            key: "the retry schedule invoices.ladder".to_owned(),
            needed: self.invoices.retry_schedule()?.length(),
        };
        Ok(vec![key, retries])
    }
}

/// What rules about duplicates look back at.
pub fn rule_floors(rules: &[RuleText]) -> Vec<Floor> {
    let floor = |rule: &RuleText| {
        let secs = rule.duplicate_within_secs?;
        Some(Floor {
            key: format!("duplicate_within_secs of the rule {}", rule.name),
            needed: Duration::from_secs(secs.into()),
        })
    };
    rules.iter().filter_map(floor).collect()
}

/// A notification is tried for this long.
fn patience() -> Floor {
    Floor {
        key: "the time that notifications are tried for".to_owned(),
        needed: AT_LEAST_FOR.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::with;

    #[test]
    fn a_contradiction_stops_the_start_with_the_key_and_the_floor() {
        let rule =
            "[[rules]]\nname = \"twice\"\nmessage = \"again\"\nduplicate_within_secs = 864000";
        for (toml, said) in [
            (
                "retention.hot_days = 0".to_owned(),
                "retention.hot_days of payments must be between 1",
            ),
            (
                "retention.archive_days = 3".to_owned(),
                "retention.archive_days of payments must be between hotDays (30)",
            ),
            (
                "retention.known_years = 1".to_owned(),
                "retention.known_years of payments must be between 2",
            ),
            (
                "retention.notifications.hot_days = 2".to_owned(),
                "retention.hot_days of notifications must be at least 3",
            ),
            (
                "retention.import_days = 0".to_owned(),
                "retention.import_days",
            ),
            (
                "invoices.ladder = [\"20d\", \"20d\"]".to_owned(),
                "retention.hot_days of invoices must be at least 40, because of the retry schedule",
            ),
            (
                "downstream.payments.key_retention_secs = 8640000".to_owned(),
                "must be at least 100, because of downstream.payments.key_retention_secs",
            ),
            (
                format!("retention.hot_days = 5\n{rule}"),
                "must be at least 10, because of duplicate_within_secs of the rule twice",
            ),
        ] {
            let found = format!("{:#}", with(&toml).unwrap_err());
            assert!(found.contains(said), "{toml}: {found}");
        }
        with("retention.payments.hot_days = 7").unwrap();
    }
}
