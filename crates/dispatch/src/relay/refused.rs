//! When events that were refused are tried again, and when new ones are not tried at all. It decides, and does nothing.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::{OutboxEvent, RetriedUpTo};

use super::{Attempt, FIRST_PAUSE, LONGEST_PAUSE};

/// After an attempt that came to nothing it rests so many times as long as that took, so that silent brokers leave time
/// for everything else.
const REST: u32 = 4;
/// So many attempts that come to nothing are followed by a pause. The next one goes on from there, so that events of a
/// partition that is back are reached, however many of another lie before them.
const MOST_IN_VAIN: u32 = 20;
/// How long one sentence about the trouble stays.
const SAID_FOR: Duration = Duration::from_secs(10);

/// What the relay knows of the events that are set aside.
#[derive(Debug)]
pub(super) struct Refused {
    /// The right to publish under which all of this is known: a process that had it in between may have set events aside.
    fence: Option<u64>,
    /// None are set aside, as far as is known. A process before may have left some.
    is_none: bool,
    /// How far the look at them has come.
    pub(super) up_to: RetriedUpTo,
    next: Option<Instant>,
    pause: Duration,
    in_vain: u32,
    hopeless_until: Option<Instant>,
    /// Why, and since when it is said like this.
    trouble: Option<(String, Instant)>,
}

impl Default for Refused {
    fn default() -> Self {
        Self {
            fence: None,
            is_none: false,
            up_to: RetriedUpTo::default(),
            next: None,
            pause: FIRST_PAUSE,
            in_vain: 0,
            hopeless_until: None,
            trouble: None,
        }
    }
}

impl Refused {
    /// Under another right to publish nothing is known yet.
    pub(super) fn under(&mut self, fence: u64) {
        if self.fence != Some(fence) {
            *self = Self {
                fence: Some(fence),
                ..Self::default()
            };
        }
    }

    pub(super) fn is_due(&self) -> bool {
        !self.is_none && self.next.is_none_or(|next| next <= Instant::now())
    }

    /// Nothing at all was acknowledged a moment ago: a further attempt would take time from those who hear of events.
    pub(super) fn is_hopeless(&self) -> bool {
        self.hopeless_until
            .is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn trouble(&self) -> Option<&String> {
        self.trouble.as_ref().map(|(why, _)| why)
    }

    /// New events were set aside.
    pub(super) fn set_aside(&mut self, attempt: &Attempt) {
        let now = Instant::now();
        if self.is_none {
            (self.is_none, self.next) = (false, Some(now + FIRST_PAUSE));
        }
        if attempt.acknowledged == 0 && attempt.trouble.is_some() {
            self.hopeless_until = Some(now + (attempt.took * REST).max(FIRST_PAUSE));
        }
        self.note(attempt);
    }

    /// These were tried again, of at most so many.
    pub(super) fn tried(&mut self, events: &[OutboxEvent], attempt: &Attempt, limit: usize) {
        if events.is_empty() && self.up_to == RetriedUpTo::default() {
            *self = Self {
                fence: self.fence,
                is_none: true,
                ..Self::default()
            };
            return;
        }
        self.note(attempt);
        let is_end = events.len() < limit;
        let last = events.last().filter(|_| !is_end);
        self.up_to = last.map_or_else(RetriedUpTo::default, |last| past(last, attempt));
        if attempt.acknowledged > 0 {
            (self.next, self.pause) = (None, FIRST_PAUSE);
            (self.in_vain, self.hopeless_until) = (0, None);
            return;
        }
        self.in_vain += 1;
        let mut rest = attempt.took * REST;
        if is_end || self.in_vain >= MOST_IN_VAIN {
            rest = rest.max(self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            self.in_vain = 0;
        }
        self.next = Some(Instant::now() + rest);
    }

    /// Two partitions may be refused with two sentences in turn: one of them is enough for a while.
    fn note(&mut self, attempt: &Attempt) {
        let is_over = |since: &Instant| since.elapsed() >= SAID_FOR;
        let is_new = self
            .trouble
            .as_ref()
            .is_none_or(|(_, since)| is_over(since));
        if let (true, Some(why)) = (is_new, &attempt.trouble) {
            self.trouble = Some((why.clone(), Instant::now()));
        }
    }
}

/// Where the next look begins: what is left of an item must not be overtaken by what comes after it.
fn past(last: &OutboxEvent, attempt: &Attempt) -> RetriedUpTo {
    match attempt.left.last() {
        Some(left) if *left == last.number => RetriedUpTo::item_of(last),
        _ => RetriedUpTo::event(last),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Timestamp;
    use tollgate_core::id::{Item, ItemId, ItemType};
    use tollgate_core::money::Money;

    use super::*;

    fn event(number: i64, item: &str) -> OutboxEvent {
        OutboxEvent {
            number,
            id: number.to_string(),
            item: Item::new(&ItemType::new("PAYMENT"), &ItemId::new(item)),
            status: "SCHEDULED".into(),
            at: Timestamp::UNIX_EPOCH,
            money: Money::NONE,
            lane: None,
            scheduled: None,
            is_behind: false,
        }
    }

    fn attempt(acknowledged: usize, left: Vec<i64>, took: Duration) -> Attempt {
        let trouble = (!left.is_empty()).then(|| "no leader".to_owned());
        Attempt {
            acknowledged,
            left,
            trouble,
            took,
        }
    }

    #[test]
    fn what_is_left_of_an_item_is_not_overtaken_at_the_end_of_a_look() {
        let events = [event(1, "a"), event(2, "b")];
        let none = Duration::ZERO;
        let mut refused = Refused::default();
        refused.tried(&events, &attempt(1, vec![2], none), 2);
        assert_eq!(refused.up_to, RetriedUpTo::item_of(&events[1]));
        refused.tried(&events, &attempt(1, vec![1], none), 2);
        assert_eq!(refused.up_to, RetriedUpTo::event(&events[1]));
        refused.tried(&events[..1], &attempt(1, vec![], none), 2);
        assert_eq!(refused.up_to, RetriedUpTo::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_begins_after_some_attempts_in_vain_and_ends_with_an_acknowledgement() {
        let events = [event(1, "a"), event(2, "b")];
        let in_vain = || attempt(0, vec![1, 2], Duration::from_millis(10));
        let mut refused = Refused::default();
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            for _ in 1..MOST_IN_VAIN {
                refused.tried(&events, &in_vain(), 2);
                assert!(!refused.is_due());
                tokio::time::advance(Duration::from_millis(40)).await;
                assert!(refused.is_due());
            }
            refused.tried(&events, &in_vain(), 2);
            tokio::time::advance(Duration::from_millis(pause * 1000 - 1)).await;
            assert!(!refused.is_due());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(refused.is_due());
        }
        refused.tried(&events, &attempt(1, vec![2], Duration::ZERO), 2);
        assert!(refused.is_due());
        refused.tried(&[], &attempt(0, vec![], Duration::ZERO), 2);
        tokio::time::advance(FIRST_PAUSE).await;
        refused.tried(&[], &attempt(0, vec![], Duration::ZERO), 2);
        assert!(!refused.is_due() && refused.trouble().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_brokers_are_left_alone_for_longer_than_their_silence() {
        let mut refused = Refused::default();
        refused.set_aside(&attempt(1, vec![2], Duration::from_secs(5)));
        assert!(!refused.is_hopeless(), "another partition answers");
        refused.set_aside(&attempt(0, vec![1], Duration::from_secs(6)));
        tokio::time::advance(Duration::from_secs(23)).await;
        assert!(refused.is_hopeless());
        // Nothing was tried meanwhile.
        refused.set_aside(&attempt(0, vec![], Duration::ZERO));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!refused.is_hopeless());
    }
}
