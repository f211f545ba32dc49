//! What is wrong with a feed right now, as one sentence in the store. Said when it begins, when it changes and when
//! it is over, however often it is met; and again with every share while it lasts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::ports::Store;

/// What a trouble is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    Topic,
    Panic(u32),
    Partition(u32),
    Standstill(u32),
    Answers(u32),
}

pub(super) struct Troubles {
    store: Arc<dyn Store>,
    feed: String,
    now: Mutex<State>,
    /// What is said last is what was met last.
    saying: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    met: BTreeMap<About, String>,
    said: Said,
}

/// What the store says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Said {
    /// Whatever another process has left.
    #[default]
    Unknown,
    Fine,
    Trouble(String),
}

impl Troubles {
    pub(super) fn new(store: Arc<dyn Store>, feed: &str) -> Self {
        Self {
            store,
            feed: feed.to_owned(),
            now: Mutex::default(),
            saying: tokio::sync::Mutex::default(),
        }
    }

    pub(super) async fn note(&self, about: About, what: &str) {
        self.change(|met| drop(met.insert(about, what.to_owned())))
            .await;
    }

    pub(super) async fn over(&self, about: About) {
        self.change(|met| drop(met.remove(&about))).await;
    }

    /// All processes share one sentence: another one that is fine may have taken ours away. What was met on a partition that
    /// is not held any more is not ours to say.
    pub(super) async fn say_again(&self, held: &[u32]) {
        self.change(|met| {
            met.retain(|about, _| match about {
                About::Topic => true,
                About::Panic(number)
                | About::Partition(number)
                | About::Standstill(number)
                | About::Answers(number) => held.contains(number),
            });
        })
        .await;
        let _alone = self.saying.lock().await;
        if let Some(what) = self.said_trouble() {
            self.say(Some(what)).await;
        }
    }

    fn said_trouble(&self) -> Option<String> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        match &now.said {
            Said::Trouble(what) => Some(what.clone()),
            Said::Unknown | Said::Fine => None,
        }
    }

    async fn change(&self, change: impl FnOnce(&mut BTreeMap<About, String>)) {
        let _alone = self.saying.lock().await;
        let say = match self.changed(change) {
            None | Some((_, Said::Unknown)) => return,
            Some((before, Said::Fine)) => {
                if let Said::Trouble(what) = before {
                    tracing::info!(feed = self.feed, what, "the trouble with the feed is over");
                }
                None
            }
            Some((_, Said::Trouble(what))) => {
                tracing::warn!(feed = self.feed, what, "the feed is in trouble");
                Some(what)
            }
        };
        self.say(say).await;
    }

    async fn say(&self, say: Option<String>) {
        if let Err(error) = self.store.note_trouble(&self.feed, say).await {
            tracing::warn!(feed = self.feed, %error, "a feed's state could not be recorded");
            let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
            now.said = Said::Unknown;
        }
    }

    /// What was said before and what to say now, if it is news.
    fn changed(&self, change: impl FnOnce(&mut BTreeMap<About, String>)) -> Option<(Said, Said)> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut now.met);
        let first = now.met.values().next().cloned();
        let say = first.map_or(Said::Fine, Said::Trouble);
        if now.said == say {
            return None;
        }
        let before = std::mem::replace(&mut now.said, say.clone());
        Some((before, say))
    }
}
