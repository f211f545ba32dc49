//! The worst sliding second: how many sends it held, and when it began.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{SignedDuration, Timestamp};

/// Fed with send times in ascending order; keeps one second of them.
#[derive(Debug, Default)]
pub struct WorstSecond {
    second: VecDeque<Timestamp>,
    worst: Option<Peak>,
    sends: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    pub sends: u32,
    /// The first send of that second.
    pub from: Timestamp,
}

impl WorstSecond {
    pub fn add(&mut self, send: Timestamp) {
        while let Some(first) = self.second.front()
            && send.duration_since(*first) >= SignedDuration::from_secs(1)
        {
            self.second.pop_front();
        }
        self.second.push_back(send);
        self.sends += 1;
        let sends = u32::try_from(self.second.len()).unwrap_or(u32::MAX);
        if self.worst.is_none_or(|worst| sends > worst.sends) {
            let from = self.second.front().copied().unwrap_or(send);
            self.worst = Some(Peak { sends, from });
        }
    }

    pub fn worst(&self) -> Option<Peak> {
        self.worst
    }

    pub fn sends(&self) -> u64 {
        self.sends
    }
}

/// The proof for one lane and one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    pub lane: String,
    pub from: Timestamp,
    pub to: Timestamp,
    pub sends: u64,
    pub first_send: Option<Timestamp>,
    pub last_send: Option<Timestamp>,
    pub worst_second: Option<Peak>,
    /// The hard limits that were in force, oldest first.
    pub limits: Vec<LimitInForce>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitInForce {
    pub version: i64,
    pub since: Timestamp,
    pub max_per_second: rust_decimal::Decimal,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_equals_a_brute_force_count(mut sends in prop::collection::vec(0_i64..5_000_000, 0..200)) {
            sends.sort_unstable();
            let mut worst = WorstSecond::default();
            for us in &sends {
                worst.add(Timestamp::from_microsecond(*us).unwrap());
            }
            let brute = sends.iter()
                .map(|s| sends.iter().filter(|t| (*s..s + 1_000_000).contains(*t)).count())
                .max();
            prop_assert_eq!(worst.worst().map(|p| p.sends as usize), brute);
        }
    }
}
