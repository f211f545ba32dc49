//! What needs a person about feeds and events.

use tollgate_core::ports::{
    FeedView, Need, OutboxTrouble, OutboxView, Pile, Seen, Store, StoreResult,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::{MOST_NAMED, Named, Needed, needed};
use crate::grouped;

const UNREAD: &str = "no process reads it; start a process with the role init that configures it, \
     or forget it with tollgate feeds forget";

/// What passes by itself within this time needs nobody.
const PASSES: SignedDuration = SignedDuration::from_mins(1);

pub(super) async fn look(
    store: &dyn Store,
    seen: &[Seen],
    now: Timestamp,
) -> StoreResult<[Needed; 4]> {
    let feeds = store.feeds().await?;
    let outbox = store.outbox().await?;
    let mark = seen.iter().find(|it| it.kind == Need::FeedDeadLetters);
    let mark = mark.map_or(0, |seen| seen.mark);
    Ok([
        stopped(&feeds, now),
        dead_letters(&feeds, mark),
        stuck(&outbox, now),
        differing(&outbox, now),
    ])
}

/// Paused by a person or by Tollgate, read by no process, or in trouble for a while.
fn stopped(feeds: &[FeedView], now: Timestamp) -> Needed {
    let mut stopped = needed(Need::FeedsStopped);
    for feed in feeds {
        let paused = feed.paused.as_ref();
        let paused =
            paused.map(|pause| (format!("paused by {}: {}", pause.by, pause.why), pause.at));
        let unread = feed.unread_since.map(|since| (UNREAD.to_owned(), since));
        let troubled = feed.trouble.as_ref().filter(|it| it.at + PASSES < now);
        let troubled = troubled.map(|trouble| (trouble.what.clone(), trouble.at));
        let Some((why, since)) = paused.or(unread).or(troubled) else {
            continue;
        };
        let what = format!("feed \"{}\": {why}", feed.feed);
        let one = Pile {
            newest: Some(since),
            ..Pile::of(1, Some(since))
        };
        stopped.name(&feed.feed, what, one);
    }
    stopped
}

/// More than a person has seen.
fn dead_letters(feeds: &[FeedView], mark: i64) -> Needed {
    let mut grown = needed(Need::FeedDeadLetters);
    let mut total = 0_u64;
    for feed in feeds {
        let count = feed.dead_letters;
        total += count;
        if count > 0 {
            let what = format!("feed \"{}\": {} so far", feed.feed, grouped(count));
            grown.name(&feed.feed, what, Pile::default());
        }
    }
    let last = i64::try_from(total).unwrap_or(i64::MAX);
    grown.pile = Pile {
        last,
        ..Pile::of(u64::try_from(last - mark).unwrap_or(0), None)
    };
    grown
}

fn stuck(outbox: &OutboxView, now: Timestamp) -> Needed {
    let mut stuck = needed(Need::EventsStuck);
    if let Some(trouble) = lost(outbox) {
        let since = Pile::of(1, Some(trouble.at));
        stuck.name("events", trouble.what.clone(), since);
        return stuck;
    }
    let Some(oldest) = outbox.oldest.filter(|at| *at + PASSES < now) else {
        return stuck;
    };
    let why = match (&outbox.trouble, &outbox.owner) {
        (Some(trouble), _) => trouble.what.clone(),
        (None, Some(_)) => "they are published more slowly than they are written".to_owned(),
        (None, None) => "no process publishes them; configure [events], or turn events off with \
             tollgate events off"
            .to_owned(),
    };
    let pile = Pile {
        is_capped: outbox.is_capped,
        ..Pile::of(outbox.backlog, Some(oldest))
    };
    stuck.name("events", why, pile);
    stuck
}

/// Moves write no events while a process would publish them: every minute of it is lost to consumers.
fn lost(outbox: &OutboxView) -> Option<&OutboxTrouble> {
    let would_publish = !outbox.is_on && outbox.owner.is_some();
    outbox.trouble.as_ref().filter(|_| would_publish)
}

fn differing(outbox: &OutboxView, now: Timestamp) -> Needed {
    let mut differing = needed(Need::EventsDiffer);
    if let Some(what) = &outbox.difference {
        differing.name("events", what.clone(), Pile::of(1, Some(now)));
    }
    differing
}

impl Needed {
    pub(super) fn name(&mut self, name: &str, what: String, pile: Pile) {
        if self.named.len() < MOST_NAMED {
            let name = name.to_owned();
            self.named.push(Named { name, what });
        }
        self.pile = std::mem::take(&mut self.pile).with(pile);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::ports::{FeedPause, FeedTrouble, PartitionView};

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }

    fn feed(name: &str, dead_letters: u64) -> FeedView {
        FeedView {
            feed: name.into(),
            topic: "t".into(),
            paused: None,
            unread_since: None,
            trouble: None,
            dead_letters,
            partitions: vec![PartitionView {
                number: 0,
                is_gone: false,
                item_type: None,
                position: Some(1),
                log_end: Some(1),
                owner: None,
                records: 9,
                dead_letters: 0,
                waiting: 0,
                last_record_at: None,
            }],
        }
    }

    #[test]
    fn feeds_that_are_not_read_need_a_person_and_short_trouble_does_not() {
        let mut paused = feed("p", 0);
        paused.paused = Some(FeedPause {
            why: "maintenance".into(),
            by: "ann".into(),
            at: at(0),
        });
        let in_trouble = |since| FeedView {
            trouble: Some(FeedTrouble {
                what: "no broker".into(),
                at: at(since),
            }),
            ..feed("t", 0)
        };
        let feeds = [paused, feed("fine", 0), in_trouble(0)];
        let needed = stopped(&feeds, at(61));
        assert_eq!((needed.pile.count, needed.pile.oldest), (2, Some(at(0))));
        assert_eq!(
            needed.named[0].what,
            "feed \"p\": paused by ann: maintenance"
        );
        assert_eq!(needed.named[1].what, "feed \"t\": no broker");
        assert_eq!(stopped(&[in_trouble(30)], at(61)).pile.count, 0);
        let removed = FeedView {
            unread_since: Some(at(0)),
            ..feed("r", 0)
        };
        let needed = stopped(&[removed], at(61));
        assert!(
            needed.named[0]
                .what
                .starts_with("feed \"r\": no process reads it")
        );
    }

    #[test]
    fn dead_letters_need_a_person_while_there_are_more_than_were_seen() {
        let feeds = [feed("a", 3), feed("b", 4)];
        let new = dead_letters(&feeds, 5);
        assert_eq!((new.pile.count, new.pile.last), (2, 7));
        assert_eq!(dead_letters(&feeds, 7).pile.count, 0);
    }

    #[test]
    fn events_that_wait_say_why() {
        let outbox = OutboxView {
            is_on: true,
            backlog: 4,
            is_capped: false,
            oldest: Some(at(0)),
            owner: None,
            published: 0,
            last_published_at: None,
            trouble: None,
            difference: None,
        };
        assert_eq!(differing(&outbox, at(59)).pile.count, 0);
        assert_eq!(stuck(&outbox, at(59)).pile.count, 0);
        let alone = stuck(&outbox, at(61));
        assert_eq!(alone.pile.count, 4);
        assert!(alone.named[0].what.contains("tollgate events off"));
        let troubled = OutboxView {
            trouble: Some(OutboxTrouble {
                what: "no broker".into(),
                at: at(1),
            }),
            difference: Some("events.topic is a and b".into()),
            ..outbox
        };
        let differing = differing(&troubled, at(61));
        assert_eq!(differing.named[0].what, "events.topic is a and b");
        assert_eq!(stuck(&troubled, at(61)).named[0].what, "no broker");
    }

    #[test]
    fn events_that_are_off_need_a_person_while_a_process_would_publish_them() {
        let outbox = OutboxView {
            is_on: false,
            backlog: 0,
            is_capped: false,
            oldest: None,
            owner: Some("a".into()),
            published: 7,
            last_published_at: None,
            trouble: Some(OutboxTrouble {
                what: "events are turned off, but".into(),
                at: at(0),
            }),
            difference: None,
        };
        let needed = stuck(&outbox, at(1));
        assert_eq!((needed.pile.count, needed.pile.oldest), (1, Some(at(0))));
        assert_eq!(needed.named[0].what, "events are turned off, but");
        let is_gone = OutboxView {
            owner: None,
            ..outbox
        };
        assert_eq!(stuck(&is_gone, at(61)).pile.count, 0);
    }
}
