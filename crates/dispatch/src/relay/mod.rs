//! Publishes events: every move of an item, at least once, those of one item in the order of its moves. One process at
//! a time has the right to do it. What was published is dropped and what was refused is set aside; what is read next is
//! whatever is there, however low its number, since a transaction may commit long after a later one.

mod cloud_event;
mod refused;
mod right;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tollgate_core::ports::{
    EventSink, OutboxEvent, Published, RelayHold, SinkTrouble, Store, StoreResult,
};

pub use cloud_event::cloud_event;

use refused::Refused;
use right::Right;

/// Publishing that takes longer is given up, so that it ends within the lease.
const PUBLISH_WITHIN: Duration = Duration::from_secs(6);
const MOST_AT_ONCE: u32 = 500;
/// Until the next look, when there was nothing.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What a process says that is configured to publish.
const OFF: &str = "events are turned off, but a process is configured to publish them; restart it to turn them on \
                   again, or remove [events] from its configuration";

/// Somebody else who hears of moves, once or more.
#[async_trait]
pub trait OnMoves: Send + Sync {
    /// In the order of the moves. What was heard is durable when this returns.
    async fn on_moves(&self, events: &[OutboxEvent]) -> StoreResult<()>;
}

/// Where events go; those that go nowhere are dropped.
pub struct Outlets {
    pub sink: Option<Arc<dyn EventSink>>,
    pub listener: Option<Arc<dyn OnMoves>>,
    /// The `source` of its events.
    pub source: String,
    /// Where its events go, as text without secrets, to be compared with that of other processes.
    pub settings: String,
}

impl std::fmt::Debug for Outlets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlets")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

pub struct EventRelay {
    store: Arc<dyn Store>,
    outlets: Outlets,
    /// This process, by a name that no other has.
    owner: String,
}

impl std::fmt::Debug for EventRelay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRelay")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What one look came to, or why it came to nothing.
#[derive(Debug, PartialEq, Eq)]
enum Relayed {
    /// There may be more at once.
    Events,
    /// There was nothing, or another process publishes.
    Nothing,
    Trouble(String),
}

/// What came of publishing some events.
#[derive(Debug, Default)]
struct Attempt {
    acknowledged: usize,
    /// The numbers of those that are not, in their order.
    left: Vec<i64>,
    trouble: Option<String>,
    took: Duration,
}

/// What the store says of the last trouble.
#[derive(Default, PartialEq, Eq)]
enum Said {
    #[default]
    Unknown,
    Fine,
    Trouble(String),
}

impl EventRelay {
    pub fn new(store: Arc<dyn Store>, outlets: Outlets, owner: String) -> Self {
        Self {
            store,
            outlets,
            owner,
        }
    }

    /// Publishes until told to stop, then gives the right back.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let (mut right, mut said, mut pause) = (Right::default(), Said::Unknown, FIRST_PAUSE);
        let (mut refused, mut under) = (Refused::default(), None);
        loop {
            let relayed = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                relayed = self.relay(&mut right, &mut refused) => relayed,
            };
            let wait = match &relayed {
                Relayed::Events => Duration::ZERO,
                Relayed::Nothing => LOOK_EVERY,
                Relayed::Trouble(_) => pause,
            };
            pause = match &relayed {
                Relayed::Trouble(_) => (pause * 2).min(LONGEST_PAUSE),
                Relayed::Events | Relayed::Nothing => FIRST_PAUSE,
            };
            let fence = right.held.map(|(hold, _)| hold.fence);
            if fence != under {
                // Another process may have had the right in between, and has said how it was.
                (said, under) = (Said::Unknown, fence);
            }
            if fence.is_some() {
                self.say(&mut said, &relayed, &refused).await;
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.rest(&mut right, wait) => {}
            }
        }
        if let Err(error) = self.store.leave_relay(&self.owner).await {
            tracing::warn!(%error, "another process publishes events when the lease ends");
        }
    }

    /// One look: publishes what is there, if this process may.
    async fn relay(&self, right: &mut Right, refused: &mut Refused) -> Relayed {
        let looked = self.look(right, refused).await;
        looked.unwrap_or_else(|error| Relayed::Trouble(format!("the store: {error}")))
    }

    async fn look(&self, right: &mut Right, refused: &mut Refused) -> StoreResult<Relayed> {
        let Some(hold) = self.hold(right).await? else {
            return Ok(Relayed::Nothing);
        };
        refused.under(hold.fence);
        if !hold.is_on {
            return Ok(Relayed::Trouble(OFF.to_owned()));
        }
        let is_more = self.publish_new(hold, refused).await?;
        // Publishing may have taken a good part of the lease.
        let Some(hold) = self.hold(right).await? else {
            return Ok(Relayed::Nothing);
        };
        let is_more_refused = self.publish_refused(hold, refused).await?;
        Ok(if is_more || is_more_refused {
            Relayed::Events
        } else {
            Relayed::Nothing
        })
    }

    /// Listeners hear of an event when it is new, whether or not it can be published. Then it is dropped or set aside, so
    /// that it holds up no others.
    async fn publish_new(&self, hold: RelayHold, refused: &mut Refused) -> StoreResult<bool> {
        let events = self.store.events_to_publish(MOST_AT_ONCE).await?;
        if events.is_empty() {
            return Ok(false);
        }
        if let Some(listener) = &self.outlets.listener {
            listener.on_moves(&events).await?;
        }
        let is_hopeless = refused.is_hopeless();
        let (waiting, tried): (Vec<_>, Vec<_>) = events
            .into_iter()
            .partition(|event| is_hopeless || event.is_behind);
        let attempt = self.publish(hold, &tried).await?;
        let waiting = waiting.iter().map(|event| event.number);
        let left: Vec<i64> = waiting.chain(attempt.left.iter().copied()).collect();
        if !left.is_empty() && self.store.events_refused(hold, left).await? {
            refused.set_aside(&attempt);
        }
        Ok(true)
    }

    /// Some of those that were set aside, when it is time.
    async fn publish_refused(&self, hold: RelayHold, refused: &mut Refused) -> StoreResult<bool> {
        if !refused.is_due() {
            return Ok(false);
        }
        let after = refused.up_to.clone();
        let events = self.store.events_to_retry(after, MOST_AT_ONCE).await?;
        let attempt = self.publish(hold, &events).await?;
        refused.tried(&events, &attempt, MOST_AT_ONCE as usize);
        Ok(refused.is_due())
    }

    /// Those that are acknowledged are dropped.
    async fn publish(&self, hold: RelayHold, events: &[OutboxEvent]) -> StoreResult<Attempt> {
        let began = Instant::now();
        let published = if events.is_empty() {
            Published::default()
        } else {
            self.write_in_time(events).await?
        };
        let took = began.elapsed();
        let is_durable: BTreeSet<usize> = published.acknowledged.into_iter().collect();
        let (durable, left): (Vec<_>, Vec<_>) = events
            .iter()
            .enumerate()
            .partition(|(place, _)| is_durable.contains(place));
        let numbers = |events: Vec<(usize, &OutboxEvent)>| -> Vec<i64> {
            events.into_iter().map(|(_, event)| event.number).collect()
        };
        let (durable, left) = (numbers(durable), numbers(left));
        let acknowledged = durable.len();
        if acknowledged > 0 && self.store.events_published(hold, durable).await? {
            metrics::counter!("tollgate_events_published_total").increment(acknowledged as u64);
        }
        Ok(Attempt {
            left,
            acknowledged,
            trouble: published.trouble.map(|trouble| trouble.to_string()),
            took,
        })
    }

    async fn write_in_time(&self, events: &[OutboxEvent]) -> StoreResult<Published> {
        let why = || SinkTrouble(format!("the brokers did not answer for {PUBLISH_WITHIN:?}"));
        let written = timeout(PUBLISH_WITHIN, self.write(events)).await;
        written.unwrap_or_else(|_| {
            Ok(Published {
                acknowledged: vec![],
                trouble: Some(why()),
            })
        })
    }

    async fn write(&self, events: &[OutboxEvent]) -> StoreResult<Published> {
        let Some(sink) = &self.outlets.sink else {
            return Ok(Published {
                acknowledged: (0..events.len()).collect(),
                trouble: None,
            });
        };
        let now = self.store.now().await?;
        let record = |event: &OutboxEvent| cloud_event(event, &self.outlets.source);
        let records: Vec<_> = events.iter().map(record).collect();
        Ok(sink.publish(&records, now).await)
    }

    /// When it begins, changes and is over, however often it is met.
    async fn say(&self, said: &mut Said, relayed: &Relayed, refused: &Refused) {
        let trouble = match relayed {
            Relayed::Trouble(why) => Some(why),
            Relayed::Events | Relayed::Nothing => refused.trouble(),
        };
        let now = trouble.map_or(Said::Fine, |why| Said::Trouble(why.clone()));
        if *said == now {
            return;
        }
        let noted = match &now {
            Said::Trouble(why) if why == OFF => {
                tracing::error!(why, "no events are written or published");
                Some(why.clone())
            }
            Said::Trouble(why) => {
                tracing::warn!(why, "events cannot be published; they are kept");
                Some(why.clone())
            }
            Said::Fine | Said::Unknown => None,
        };
        match self.store.note_relay_trouble(noted).await {
            Ok(()) => *said = now,
            Err(error) => tracing::warn!(%error, "the state of events could not be recorded"),
        }
    }
}
