//! How long steps wait for a store that is away, the same in every domain. These values are part of
//! recorded histories.

use std::time::Duration;

use tollgate_core::flow::Policy;
use tollgate_core::ports::LONGEST_SEND;
use tollgate_core::retry;

/// Of steps that execute an item: outlives a store that is away for two minutes; then the sweeper
/// starts the item again. The longest pause is short, since flows that still wait when it is back
/// hold their lane's credit, and with it the rate.
const UNTIL_SWEPT: retry::Policy = retry::Policy {
    max_attempts: 60,
    first_pause: Duration::from_millis(200),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(2),
};

/// A step that sends.
pub(crate) const SEND_STEP: Policy = Policy {
    timeout: LONGEST_SEND,
    retry: UNTIL_SWEPT,
};

/// A step that executes an item and uses nothing but the store.
pub(crate) const EXEC_STEP: Policy = Policy {
    timeout: Duration::from_secs(30),
    retry: UNTIL_SWEPT,
};

/// A step of what no sweeper looks for: the store is waited for however long it is away, since what
/// was accepted is never given up.
pub(crate) const STORE_STEP: Policy = Policy {
    timeout: Duration::from_secs(30),
    retry: retry::Policy {
        max_attempts: u32::MAX,
        first_pause: Duration::from_millis(200),
        factor: retry::TWICE,
        longest_pause: Duration::from_secs(10),
    },
};
