//! The worst sliding second of a list of arrivals. It knows nothing of payments or limits.

use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The fullest second: how many arrivals it held, and the arrival that closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worst {
    pub count: usize,
    /// Time since the ledger was opened; zero if nothing has arrived.
    pub at: Duration,
}

/// The most arrivals in any second, of arrivals in ascending order; the earliest such second if
/// several are equal. A second is open at its start and closed at its end, so two arrivals exactly
/// one second apart are never in the same one.
pub fn worst_second(ascending: &[Duration]) -> Worst {
    debug_assert!(ascending.is_sorted(), "arrivals must be in ascending order");
    let mut worst = Worst::default();
    let mut first = 0;
    for (last, &at) in ascending.iter().enumerate() {
        while ascending[first] + SECOND <= at {
            first += 1;
        }
        let count = last - first + 1;
        if count > worst.count {
            worst = Worst { count, at };
        }
    }
    worst
}
