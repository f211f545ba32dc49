//! Publishes events: every move of an item, at least once, those of one item in the order of its moves. One process at
//! a time has the right to do it. What was published is dropped; what is read next is whatever is there, however low
//! its number, since a transaction may commit long after a later one.

mod cloud_event;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tollgate_core::ports::{
    EventSink, OutboxEvent, Published, RelayHold, Store, StoreError, StoreResult,
};
use tollgate_core::shared_settings::differences;

pub use cloud_event::cloud_event;

/// How long a process may be silent before another publishes, and how often it says that it is there.
const LEASE: Duration = Duration::from_secs(10);
const HOLD_EVERY: Duration = Duration::from_secs(2);
/// Publishing that takes longer is given up, so that it ends within the lease.
const PUBLISH_WITHIN: Duration = Duration::from_secs(6);
const MOST_AT_ONCE: u32 = 500;
/// Until the next look, when there was nothing.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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

/// What one look came to.
#[derive(Debug, PartialEq, Eq)]
enum Relayed {
    /// So many were published.
    Events(usize),
    /// There was nothing, or another process publishes.
    Nothing,
    Trouble(String),
}

/// What a process knows of the right to publish.
#[derive(Default)]
struct Right {
    /// While it has it, and since when.
    held: Option<(RelayHold, Instant)>,
    /// The settings were kept under this fence.
    kept: Option<u64>,
    /// What was said last of the settings of the process that has it.
    difference: Option<String>,
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
        loop {
            let relayed = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                relayed = self.relay(&mut right) => relayed,
            };
            let wait = match &relayed {
                Relayed::Events(_) => Duration::ZERO,
                Relayed::Nothing => LOOK_EVERY,
                Relayed::Trouble(_) => {
                    let wait = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    wait
                }
            };
            if right.held.is_some() {
                self.say(&mut said, &relayed).await;
            }
            if !matches!(relayed, Relayed::Trouble(_)) {
                pause = FIRST_PAUSE;
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        if let Err(error) = self.store.leave_relay(&self.owner).await {
            tracing::warn!(%error, "another process publishes events when the lease ends");
        }
    }

    /// One look: publishes what is there, if this process may.
    async fn relay(&self, right: &mut Right) -> Relayed {
        match self.hold(right).await {
            Ok(Some(ours)) => match self.publish(ours).await {
                Ok(relayed) => relayed,
                Err(error) => Relayed::Trouble(format!("the store: {error}")),
            },
            Ok(None) => Relayed::Nothing,
            Err(error) => Relayed::Trouble(format!("the store: {error}")),
        }
    }

    async fn hold(&self, right: &mut Right) -> Result<Option<RelayHold>, StoreError> {
        if let Some((hold, since)) = right.held
            && since.elapsed() < HOLD_EVERY
        {
            return Ok(Some(hold));
        }
        let asked = Instant::now();
        right.held = None;
        let found = self.store.hold_relay(&self.owner, LEASE).await?;
        self.compare(right, found).await?;
        right.held = found.map(|hold| (hold, asked));
        if found.is_none() {
            tokio::time::sleep(HOLD_EVERY).await;
        }
        Ok(found)
    }

    /// Another process would publish elsewhere: that goes unnoticed until it does, so it is said while this one waits.
    async fn compare(&self, right: &mut Right, found: Option<RelayHold>) -> StoreResult<()> {
        let fence = found.map(|hold| hold.fence);
        if fence.is_some() && fence == right.kept {
            return Ok(());
        }
        let ours = &self.outlets.settings;
        let theirs = self.store.relay_settings(&self.owner, ours).await?;
        right.kept = fence;
        let difference = difference(&theirs, ours);
        if let Some(what) = &difference {
            if right.difference != difference {
                tracing::error!(what, "processes would publish events to different places");
            }
            self.store.note_relay_difference(what, LEASE).await?;
        }
        right.difference = difference;
        Ok(())
    }

    async fn publish(&self, hold: RelayHold) -> Result<Relayed, StoreError> {
        let events = self.store.events_to_publish(MOST_AT_ONCE).await?;
        if events.is_empty() {
            return Ok(Relayed::Nothing);
        }
        if let Some(listener) = &self.outlets.listener {
            listener.on_moves(&events).await?;
        }
        let Ok(published) = timeout(PUBLISH_WITHIN, self.write(&events)).await else {
            let why = format!("the brokers did not answer for {PUBLISH_WITHIN:?}");
            return Ok(Relayed::Trouble(why));
        };
        let published = published?;
        let places = published.acknowledged.iter();
        let numbers: Vec<i64> = places
            .filter_map(|place| events.get(*place))
            .map(|event| event.number)
            .collect();
        let count = numbers.len();
        if count > 0 && self.store.events_published(hold, numbers).await? {
            metrics::counter!("tollgate_events_published_total").increment(count as u64);
        }
        Ok(match published.trouble {
            Some(trouble) => Relayed::Trouble(trouble.to_string()),
            None => Relayed::Events(count),
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
    async fn say(&self, said: &mut Said, relayed: &Relayed) {
        let now = match relayed {
            Relayed::Trouble(why) => Said::Trouble(why.clone()),
            Relayed::Events(_) | Relayed::Nothing => Said::Fine,
        };
        if *said == now {
            return;
        }
        let noted = match &now {
            Said::Trouble(why) => {
                tracing::warn!(why, "events cannot be published; they are kept");
                Some(why.clone())
            }
            Said::Fine | Said::Unknown => None,
        };
        match self.store.note_relay_trouble(noted).await {
            Ok(()) => *said = now,
            Err(error) => tracing::warn!(%error, "the state of events could not be noted"),
        }
    }
}

/// In one sentence for people, who may ask a third process about it.
fn difference(publishing: &str, waiting: &str) -> Option<String> {
    let shown = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
    let said = differences(publishing, waiting).into_iter().map(|it| {
        let (there, here) = (shown(it.there), shown(it.here));
        format!(
            "{} is {there} at the process that publishes and {here} at another",
            it.key
        )
    });
    let said: Vec<String> = said.collect();
    let said = (!said.is_empty()).then(|| said.join(", "))?;
    Some(format!("{said}; give all processes the same settings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_one_sentence_with_a_remedy() {
        assert_eq!(difference("events.topic = a", "events.topic = a"), None);
        let said = difference("events.topic = a", "events.topic = b").unwrap();
        assert_eq!(
            said,
            "events.topic is a at the process that publishes and b at another; \
             give all processes the same settings"
        );
    }
}
