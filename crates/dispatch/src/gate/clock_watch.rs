//! What a node knows about the shared clock, for all lanes of its gate: the last good look, how
//! often it has jumped, and until when no turn is taken since it has. Each jump is remembered in
//! the store as a new era before another turn is taken.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::gate::SETTLE_AFTER_JUMP;
use tollgate_core::ports::{SharedClock, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};

use crate::gate::node_clock::{Sample, Verdict, judge, stepped};

/// What a look at the shared clock allows.
#[derive(Debug)]
pub(crate) enum Look {
    /// Turns can be mapped by it.
    Good(ClockOffset),
    Uncertain(Duration),
    /// No turn for so long, on no lane of this node: by then the turns that other nodes have
    /// reserved before the jump are used or dropped.
    Quiet(Duration),
}

/// Maps turns; void once the clock has jumped again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockOffset {
    pub(crate) sample: Sample,
    pub(crate) jumps: u64,
}

#[derive(Debug)]
pub(crate) struct ClockWatch {
    most_uncertain: Duration,
    state: Mutex<State>,
    /// How many jumps the store knows of; nothing before this node has vouched for the clock.
    /// Locked while it is told: lanes that look at the same time wait until it is durable.
    remembered: tokio::sync::Mutex<Option<u64>>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Sample>,
    jumps: u64,
    quiet_until: Option<Instant>,
}

impl ClockWatch {
    /// Half of what a turn may be late is left to the clock.
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self {
            most_uncertain: tolerance / 2,
            state: Mutex::default(),
            remembered: tokio::sync::Mutex::default(),
        }
    }

    /// A turn that was mapped before the last of these jumps is not used.
    pub(crate) fn jumps(&self) -> u64 {
        self.state().jumps
    }

    pub(crate) async fn look(&self, clock: &(impl SharedClock + ?Sized)) -> StoreResult<Look> {
        let sample = Sample::take(clock).await?;
        match self.judge(sample) {
            Verdict::Uncertain => return Ok(Look::Uncertain(sample.uncertainty())),
            Verdict::Jumped | Verdict::Steady => self.remember(clock, sample).await?,
        }
        let mut state = self.state();
        let jumps = state.jumps;
        Ok(match state.quiet_for() {
            Some(left) => Look::Quiet(left),
            None => Look::Good(ClockOffset { sample, jumps }),
        })
    }

    fn judge(&self, sample: Sample) -> Verdict {
        let mut state = self.state();
        let before = state.last;
        let verdict = judge(before, sample, self.most_uncertain);
        match verdict {
            Verdict::Jumped => state.jump(before, sample),
            Verdict::Steady => state.keep(sample),
            Verdict::Uncertain => {}
        }
        verdict
    }

    /// On return the store knows every jump that this node has seen, or that it has seen none
    /// since its machine last vouched for the clock.
    async fn remember(
        &self,
        clock: &(impl SharedClock + ?Sized),
        sample: Sample,
    ) -> StoreResult<()> {
        let mut remembered = self.remembered.lock().await;
        let jumps = self.jumps();
        match *remembered {
            Some(known) if known == jumps => return Ok(()),
            None if jumps == 0 => clock.vouch(sample.boot()).await?,
            _ => clock.open_era(sample.boot()).await?,
        }
        *remembered = Some(jumps);
        Ok(())
    }

    /// Whether a block of turns, given at this shared time, can be mapped by an earlier look.
    pub(crate) fn still_holds(&self, bearing: ClockOffset, asked: Instant, now: Timestamp) -> bool {
        let given = bearing.sample.and_then(asked, now);
        let mut state = self.state();
        if judge(Some(bearing.sample), given, self.most_uncertain) == Verdict::Jumped {
            state.jump(Some(bearing.sample), given);
        }
        state.jumps == bearing.jumps
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lanes look at the same time, and the later look may come first.
    fn keep(&mut self, sample: Sample) {
        if !self.last.is_some_and(|last| sample.is_older_than(&last)) {
            self.last = Some(sample);
        }
    }

    fn jump(&mut self, before: Option<Sample>, sample: Sample) {
        self.keep(sample);
        self.jumps += 1;
        self.quiet_until = Some(Instant::now() + SETTLE_AFTER_JUMP);
        metrics::counter!("tollgate_clock_jumps_total").increment(1);
        let by = before.map_or(SignedDuration::ZERO, |before| stepped(before, sample));
        tracing::warn!(
            %by,
            quiet = ?SETTLE_AFTER_JUMP,
            "the store's clock has jumped, or the store is another one: unsent turns are dropped"
        );
    }

    fn quiet_for(&mut self) -> Option<Duration> {
        let left = self.quiet_until?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.quiet_until = None;
        }
        self.quiet_until.map(|_| left)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use tollgate_core::ports::{Boot, Reading, StoreError};

    use super::*;

    /// Goes on with the test's time, and can be stepped.
    struct Steppable {
        started: Instant,
        stepped: Mutex<SignedDuration>,
        /// What the store was told, and whether it can be told now.
        told: Mutex<Vec<&'static str>>,
        away: AtomicBool,
    }

    impl Steppable {
        fn new() -> Self {
            let started = Instant::now();
            let stepped = Mutex::new(SignedDuration::ZERO);
            Self {
                started,
                stepped,
                told: Mutex::default(),
                away: AtomicBool::default(),
            }
        }
        fn tell(&self, what: &'static str) -> StoreResult<()> {
            if self.away.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("away".into()));
            }
            self.told.lock().unwrap().push(what);
            Ok(())
        }
        fn step(&self, hours: i64) {
            *self.stepped.lock().unwrap() += SignedDuration::from_hours(hours);
        }
        fn time(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + self.started.elapsed() + *self.stepped.lock().unwrap()
        }
    }

    #[async_trait]
    impl SharedClock for Steppable {
        async fn read_clock(&self) -> StoreResult<Reading> {
            let now = self.time();
            Ok(Reading { now, timeline: 1 })
        }
        async fn vouch(&self, _: Option<Boot>) -> StoreResult<()> {
            self.tell("vouch")
        }
        async fn open_era(&self, _: Option<Boot>) -> StoreResult<()> {
            self.tell("new era")
        }
    }

    async fn bearing(watch: &ClockWatch, clock: &Steppable) -> Option<ClockOffset> {
        match watch.look(clock).await.unwrap() {
            Look::Good(bearing) => Some(bearing),
            Look::Quiet(_) => None,
            Look::Uncertain(uncertainty) => panic!("uncertain by {uncertainty:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_voids_what_was_mapped_and_is_followed_by_a_second_of_quiet() {
        for hours in [1, -1] {
            let (watch, clock) = (ClockWatch::new(Duration::from_millis(8)), Steppable::new());
            let before = bearing(&watch, &clock).await.unwrap();
            assert_eq!(before.jumps, watch.jumps());
            clock.step(hours);
            assert!(bearing(&watch, &clock).await.is_none());
            assert_ne!(before.jumps, watch.jumps());
            tokio::time::advance(Duration::from_millis(999)).await;
            assert!(bearing(&watch, &clock).await.is_none());
            tokio::time::advance(Duration::from_millis(1)).await;
            let after = bearing(&watch, &clock).await.unwrap();
            assert_eq!(after.jumps, watch.jumps(), "one jump is counted once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_turn_is_taken_before_the_store_knows_of_the_start_and_of_each_jump() {
        let (watch, clock) = (ClockWatch::new(Duration::from_millis(8)), Steppable::new());
        clock.away.store(true, Ordering::SeqCst);
        assert!(watch.look(&clock).await.is_err());
        clock.away.store(false, Ordering::SeqCst);
        let before = bearing(&watch, &clock).await.unwrap();
        bearing(&watch, &clock).await.unwrap();
        assert_eq!(*clock.told.lock().unwrap(), ["vouch"]);
        clock.step(-1);
        clock.away.store(true, Ordering::SeqCst);
        assert!(watch.look(&clock).await.is_err());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(watch.look(&clock).await.is_err(), "the quiet is over, but");
        clock.away.store(false, Ordering::SeqCst);
        let after = bearing(&watch, &clock).await.unwrap();
        assert_eq!(after.jumps, before.jumps + 1);
        assert_eq!(*clock.told.lock().unwrap(), ["vouch", "new era"]);
        // Seen beside a block of turns, and told with the next look.
        clock.step(1);
        assert!(!watch.still_holds(after, Instant::now(), clock.time()));
        assert!(bearing(&watch, &clock).await.is_none());
        let told = clock.told.lock().unwrap().len();
        assert_eq!(told, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_that_was_given_after_a_jump_is_not_mapped_by_a_look_before_it() {
        let (watch, clock) = (ClockWatch::new(Duration::from_millis(8)), Steppable::new());
        let bearing_before = bearing(&watch, &clock).await.unwrap();
        let asked = Instant::now();
        tokio::time::advance(Duration::from_millis(30)).await;
        assert!(watch.still_holds(bearing_before, asked, clock.time()));
        clock.step(1);
        assert!(!watch.still_holds(bearing_before, asked, clock.time()));
        assert!(bearing(&watch, &clock).await.is_none(), "no quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_is_not_mapped_if_another_lane_has_seen_a_jump_meanwhile() {
        let (watch, clock) = (ClockWatch::new(Duration::from_millis(8)), Steppable::new());
        let bearing_before = bearing(&watch, &clock).await.unwrap();
        let (asked, given) = (Instant::now(), clock.time());
        clock.step(1);
        assert!(bearing(&watch, &clock).await.is_none());
        assert!(!watch.still_holds(bearing_before, asked, given));
    }
}
