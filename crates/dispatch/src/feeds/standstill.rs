//! A partition that stands still where its log does not end: nothing fails, and nothing comes. That is usual for a moment, as
//! until a transaction is committed; a producer that died within one can make it last for ever.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::{Fetched, PartitionId};

use super::FeedRunner;
use super::reading::Reading;
use super::troubles::About;

/// Brokers abort a transaction after a minute, unless its producer asks for more.
const LASTS_FOR: Duration = Duration::from_mins(2);

/// Since when fetches find nothing where they should.
#[derive(Debug, Default)]
pub(super) struct Standstill(Option<Instant>);

impl Standstill {
    /// Whether that lasts, by a fetch from a position on.
    fn lasts(&mut self, from: i64, fetched: &Fetched) -> bool {
        if fetched.next > from || fetched.log_end == from {
            self.0 = None;
            return false;
        }
        self.0.get_or_insert_with(Instant::now).elapsed() >= LASTS_FOR
    }
}

impl FeedRunner {
    /// Says so if nothing comes for long. A position beyond the end is looked at again, as at the beginning: a broker that has just become
    /// the leader may know an earlier end, but not for so long.
    pub(super) async fn watch(&self, reading: &mut Reading, from: i64, fetched: &Fetched) {
        let about = About::Standstill(reading.partition.number);
        if !reading.standstill.lasts(from, fetched) {
            return self.troubles.over(about).await;
        }
        if fetched.log_end < from {
            reading.look_again(from);
            return;
        }
        let why = why(&reading.partition, from, fetched);
        self.troubles.note(about, &why).await;
    }
}

/// The same while it lasts, however the log grows: each other sentence is said again.
fn why(partition: &PartitionId, from: i64, fetched: &Fetched) -> String {
    let minutes = LASTS_FOR.as_secs() / 60;
    let cause = if fetched.committed_end <= from {
        "they belong to a transaction that is still open, or come after it; find its producer, or abort the transaction with \
         kafka-transactions.sh"
    } else {
        "the broker returns none of them, although they are committed; check its log, and whether a record is larger than a fetch"
    };
    format!(
        "{partition} has records from {from} on, but none could be read for {minutes} minutes: {cause}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(next: i64, log_end: i64, committed_end: i64) -> Fetched {
        Fetched {
            records: vec![],
            next,
            log_end,
            committed_end,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_lasts_when_nothing_comes_for_two_minutes_where_the_log_does_not_end() {
        let mut standstill = Standstill::default();
        let nothing = fetched(5, 9, 5);
        assert!(!standstill.lasts(5, &nothing));
        tokio::time::advance(LASTS_FOR.saturating_sub(Duration::from_secs(1))).await;
        assert!(!standstill.lasts(5, &nothing));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(standstill.lasts(5, &nothing));
        assert!(standstill.lasts(5, &fetched(5, 3, 3)), "beyond the end");
        for (next, log_end) in [(6, 9), (5, 5)] {
            assert!(!standstill.lasts(5, &fetched(next, log_end, log_end)));
            assert!(!standstill.lasts(5, &nothing), "counted from the start");
            tokio::time::advance(LASTS_FOR).await;
            assert!(standstill.lasts(5, &nothing));
        }
    }
}
