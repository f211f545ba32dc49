//! Wrong tokens: counted, logged and answered slowly, by the address that they come from. A right token is never
//! kept waiting, so nobody is locked out by whoever shares an address with them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For so long a wrong token is held against its address.
const REMEMBERED: Duration = Duration::from_mins(1);
/// Within that time so many are answered at once: someone mistypes, a client is restarted with an old token.
const FREE: u32 = 10;
/// What the next one waits; each waits twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(4);
/// Addresses that are remembered; the one that was quiet for longest is forgotten first.
const MOST_ADDRESSES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct WrongTokens(Mutex<HashMap<IpAddr, Tries>>);

#[derive(Debug, Clone, Copy)]
struct Tries {
    count: u32,
    last: Instant,
}

impl WrongTokens {
    /// Notes a wrong token; its answer is given after this.
    pub(crate) async fn note(&self, from: Option<IpAddr>) {
        metrics::counter!("tollgate_api_wrong_tokens_total").increment(1);
        let Some(from) = from else { return };
        let count = self.count(from, Instant::now());
        // Not a line for each: whoever guesses would fill the disk.
        if count.is_power_of_two() {
            tracing::warn!(%from, count, "wrong tokens from one address");
        }
        tokio::time::sleep(wait(count)).await;
    }

    /// How many there were lately, this one included.
    fn count(&self, from: IpAddr, now: Instant) -> u32 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_ADDRESSES && !known.contains_key(&from) {
            known.retain(|_, tries| now - tries.last < REMEMBERED);
            let quietest = known.iter().min_by_key(|(_, tries)| tries.last);
            if let Some(quietest) = quietest.map(|(from, _)| *from)
                && known.len() >= MOST_ADDRESSES
            {
                known.remove(&quietest);
            }
        }
        let tries = known.entry(from).or_insert(Tries {
            count: 0,
            last: now,
        });
        if now - tries.last >= REMEMBERED {
            tries.count = 0;
        }
        tries.count = tries.count.saturating_add(1);
        tries.last = now;
        tries.count
    }
}

fn wait(count: u32) -> Duration {
    match count.checked_sub(FREE + 1) {
        None => Duration::ZERO,
        Some(doubled) => FIRST_WAIT
            .saturating_mul(2_u32.saturating_pow(doubled))
            .min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn the_first_few_are_answered_at_once_and_then_each_waits_longer() {
        let waits = [1, 10, 11, 12, 13, 14, 15, 16, u32::MAX].map(|n| wait(n).as_millis());
        assert_eq!(waits, [0, 0, 250, 500, 1000, 2000, 4000, 4000, 4000]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_to_a_wrong_token_waits_when_there_were_many() {
        let (wrong, began) = (WrongTokens::default(), Instant::now());
        for _ in 0..FREE {
            wrong.note(Some(address(1))).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        wrong.note(Some(address(1))).await;
        assert_eq!(began.elapsed(), FIRST_WAIT);
        wrong.note(Some(address(2))).await;
        assert_eq!(began.elapsed(), FIRST_WAIT, "another address");
    }

    #[tokio::test]
    async fn addresses_are_counted_apart_and_forgotten_after_a_quiet_minute() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let counts = [(1, 0), (1, 59), (2, 59), (1, 118), (1, 178), (2, 178)];
        let counts =
            counts.map(|(n, secs)| wrong.count(address(n), now + Duration::from_secs(secs)));
        assert_eq!(counts, [1, 2, 1, 3, 1, 1]);
    }

    #[tokio::test]
    async fn so_many_addresses_are_remembered_and_no_more() {
        let (wrong, now) = (WrongTokens::default(), Instant::now());
        let most = u32::try_from(MOST_ADDRESSES).unwrap();
        for n in 0..most + 5 {
            wrong.count(address(n), now + Duration::from_millis(n.into()));
        }
        assert_eq!(wrong.0.lock().unwrap().len(), MOST_ADDRESSES);
        let soon = now + Duration::from_millis((most + 5).into());
        assert_eq!(wrong.count(address(most), soon), 2, "the latest are known");
    }
}
