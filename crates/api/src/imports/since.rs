//! What happened to the payments of an import since it was taken in: counts and amounts that add up.

use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::BulkId;
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{BulkBucket, BulkView, IN_DOUBT};

use crate::App;
use crate::answer::error::ApiError;

/// More are not counted: the page is asked for again while people look at it.
const MOST_COUNTED: u32 = 100_000;

pub(super) async fn since(app: &App, view: &BulkView) -> Result<contract::BulkSince, ApiError> {
    let found = app
        .store
        .bulk_since(&view.item_type, &view.bulk, MOST_COUNTED)
        .await?;
    let same_file = |(bulk, imported_at): (BulkId, Timestamp)| contract::BulkSameFile {
        batch_id: bulk.to_string(),
        imported_at,
    };
    let count = found.buckets.iter().map(|bucket| bucket.count).sum();
    Ok(contract::BulkSince {
        payments: bucket_responses(found.buckets),
        count,
        at_least: count >= u64::from(MOST_COUNTED),
        same_file: found.same_before.map(same_file),
    })
}

/// By status and currency. What is held is a status of its own, as in the totals.
fn bucket_responses(buckets: Vec<BulkBucket>) -> Vec<contract::BulkBucket> {
    let mut sums = std::collections::BTreeMap::<(String, String), (u64, i64)>::new();
    for bucket in buckets {
        let status = if bucket.held && bucket.status != IN_DOUBT {
            QueueStatus::Held.as_str().to_owned()
        } else {
            bucket.status
        };
        let (count, minor) = sums.entry((status, bucket.currency)).or_default();
        *count += bucket.count;
        *minor = minor.saturating_add(bucket.amount_minor);
    }
    let bucket = |((status, currency), (count, minor)): ((String, String), (u64, i64))| {
        let amount = match Currency::from_code(&currency) {
            Some(currency) => Money { minor, currency }.decimal(),
            None => minor.to_string(),
        };
        contract::BulkBucket {
            status,
            currency,
            count,
            amount,
        }
    };
    sums.into_iter().map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_apart_unless_it_is_in_doubt_and_nothing_is_lost() {
        let bucket = |status: &str, held, count| BulkBucket {
            status: status.to_owned(),
            held,
            currency: "EUR".to_owned(),
            count,
            amount_minor: 100,
        };
        let told = bucket_responses(vec![
            bucket("SCHEDULED", false, 5),
            bucket("SCHEDULED", true, 3),
            bucket(IN_DOUBT, true, 2),
            bucket(IN_DOUBT, false, 1),
        ]);
        let told: Vec<_> = told
            .iter()
            .map(|it| (it.status.as_str(), it.count, it.amount.as_str()))
            .collect();
        let expected = [
            ("HELD", 3, "1.00"),
            (IN_DOUBT, 3, "2.00"),
            ("SCHEDULED", 5, "1.00"),
        ];
        assert_eq!(told, expected);
    }
}
