//! The worst second, against the same question asked the slow way.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_sandbox::{Worst, worst_second};

/// The same question asked the slow way: for each arrival, count the second that it closes.
pub(crate) fn brute_force(arrivals: &[Duration]) -> Worst {
    let mut worst = Worst::default();
    for &at in arrivals {
        let in_its_second =
            |&&other: &&Duration| other <= at && at < other + Duration::from_secs(1);
        let count = arrivals.iter().filter(in_its_second).count();
        if count > worst.count {
            worst = Worst { count, at };
        }
    }
    worst
}

#[test]
fn arrivals_a_second_apart_are_not_in_the_same_second() {
    let millis = |list: &[u64]| -> Vec<Duration> {
        list.iter().map(|ms| Duration::from_millis(*ms)).collect()
    };
    for (arrivals, count, at) in [
        (&[][..], 0, 0),
        (&[5], 1, 5),
        (&[0, 1_000], 1, 0),
        (&[0, 999], 2, 999),
        (&[0, 999, 1_000, 1_500], 3, 1_500),
        (&[7, 7, 7, 2_000], 3, 7),
    ] {
        let at = Duration::from_millis(at);
        assert_eq!(
            worst_second(&millis(arrivals)),
            Worst { count, at },
            "{arrivals:?}"
        );
    }
}

proptest! {
    #[test]
    fn the_worst_second_is_what_brute_force_finds(mut millis in prop::collection::vec(0_u64..6_000, 0..80)) {
        // Quarter seconds, so that arrivals exactly a second apart are common.
        for ms in millis.iter_mut().step_by(2) {
            *ms -= *ms % 250;
        }
        millis.sort_unstable();
        let arrivals: Vec<Duration> = millis.into_iter().map(Duration::from_millis).collect();
        prop_assert_eq!(worst_second(&arrivals).count, brute_force(&arrivals).count);
        prop_assert_eq!(worst_second(&arrivals), brute_force(&arrivals));
    }
}
