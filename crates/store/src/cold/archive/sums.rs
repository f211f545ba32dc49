//! What a day of the archive adds up to: sums by acceptance, status, currency and import, and the turns of its sends.

use std::collections::BTreeMap;

use tollgate_core::archive::ArchivedItem;
use tollgate_core::guard::quarter_of;
use tollgate_core::id::ItemType;

use super::turns::Turns;
use crate::sql::{Tx, params};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    quarter: i64,
    day: i64,
    status: String,
    currency: &'static str,
    bulk: String,
}

#[derive(Debug, Default)]
struct Sum {
    items: i64,
    amount_minor: i64,
}

/// Of some items of one type.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    sums: BTreeMap<Bucket, Sum>,
    turns: Turns,
}

impl Accounting {
    pub(super) fn of(items: &[ArchivedItem]) -> Self {
        let mut accounting = Self::default();
        for item in items {
            accounting.add(item);
        }
        accounting
    }

    pub(super) fn add(&mut self, item: &ArchivedItem) {
        let day = item.day().number();
        let bucket = Bucket {
            quarter: quarter_of(item.created_at).as_microsecond(),
            day,
            status: item.status.clone(),
            currency: item.currency.code(),
            bulk: item.bulk_id.clone().unwrap_or_default(),
        };
        let sum = self.sums.entry(bucket).or_default();
        sum.items += 1;
        sum.amount_minor += item.amount_minor;
        for attempt in &item.attempts {
            self.turns.add(&attempt.lane, attempt.turn_at, day);
        }
    }

    /// Adds them to what is there.
    pub(super) async fn write(self, tx: &Tx, item_type: &ItemType) {
        const ADD: &str = "INSERT INTO archived_sum (item_type, quarter, day, status, currency,
                 bulk_id, items, amount_minor)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (item_type, quarter, day, status, currency, bulk_id) DO UPDATE
             SET items = archived_sum.items + excluded.items,
                 amount_minor = archived_sum.amount_minor + excluded.amount_minor";
        let row = |(bucket, sum): (Bucket, Sum)| {
            let Bucket {
                quarter,
                day,
                status,
                currency,
                bulk,
            } = bucket;
            params![
                item_type,
                quarter,
                day,
                status,
                currency,
                bulk,
                sum.items,
                sum.amount_minor
            ]
        };
        let rows = self.sums.into_iter().map(row).collect();
        tx.execute_each(ADD, rows).await;
        self.turns.write(tx, item_type).await;
    }
}
