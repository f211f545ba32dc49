//! What waits for a person: counted, with its amounts and since when, and what a person has seen of it.

use async_trait::async_trait;

use super::{Author, ByTime, Page, PageFrom, PageToken, StoreResult};
use crate::Timestamp;
use crate::id::{ItemId, ItemType, LaneName};
use crate::money::Money;

/// A pile is counted up to this number of items; beyond it has at least one more.
pub const MOST_COUNTED: u64 = 100_000;
/// What must be looked up one by one is counted up to this number.
pub const MOST_LOOKED_UP: u64 = 10_000;

#[async_trait]
pub trait NeedsYou: Send + Sync {
    /// What the store holds that waits for a person. Each pile is counted in bounded time, however much waits.
    async fn worklists(&self, asked: WorklistsAsked) -> StoreResult<Worklists>;

    /// A person has seen so much of a kind. Replaces what was seen before, and is audited.
    async fn mark_seen(&self, kind: Need, seen: NewSeen, author: Author) -> StoreResult<()>;

    /// There are only so many left of what was seen: the next one more is new. With none left nothing is seen any
    /// more.
    async fn lower_seen(&self, kind: Need, left: u64) -> StoreResult<()>;

    /// What is HELD, by when it was due, beside a place in that order.
    async fn held(
        &self,
        item_type: &ItemType,
        order: ByTime,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<HeldItem, PageToken>>;

    /// What is HELD of a type, by currency.
    async fn held_sum(&self, item_type: &ItemType) -> StoreResult<Pile>;
}

/// The kinds of what needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    KillSwitches,
    RefusalStorms,
    LanesPaused,
    LanesClosed,
    InDoubt,
    AnswersDiffer,
    Held,
    DeadlinesAtRisk,
    DeadLetters,
    NotPlanned,
    /// Paused, or in trouble with their brokers.
    FeedsStopped,
    ImportsRejected,
    /// Records of feeds that could not be read.
    FeedDeadLetters,
    NotificationsFailing,
    /// Events that wait to be published for too long.
    EventsStuck,
    /// Processes would publish events to different places.
    EventsDiffer,
    /// Days of the archive that could not be filled, exported, verified or dropped.
    ArchiveTroubled,
    /// Closed days that have had no file for too long.
    ArchiveOverdue,
    /// Erasures whose last piece failed.
    ErasuresStuck,
    NoStandby,
}

impl Need {
    /// The most urgent first.
    pub const ALL: [Self; 20] = [
        Self::KillSwitches,
        Self::RefusalStorms,
        Self::LanesPaused,
        Self::LanesClosed,
        Self::InDoubt,
        Self::AnswersDiffer,
        Self::Held,
        Self::DeadlinesAtRisk,
        Self::DeadLetters,
        Self::NotPlanned,
        Self::FeedsStopped,
        Self::ImportsRejected,
        Self::FeedDeadLetters,
        Self::NotificationsFailing,
        Self::EventsStuck,
        Self::EventsDiffer,
        Self::ArchiveTroubled,
        Self::ArchiveOverdue,
        Self::ErasuresStuck,
        Self::NoStandby,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillSwitches => "kill-switches",
            Self::RefusalStorms => "refusal-storms",
            Self::LanesPaused => "lanes-paused",
            Self::LanesClosed => "lanes-closed",
            Self::InDoubt => "in-doubt",
            Self::AnswersDiffer => "answers-differ",
            Self::Held => "held",
            Self::DeadlinesAtRisk => "deadlines-at-risk",
            Self::DeadLetters => "dead-letters",
            Self::NotPlanned => "not-planned",
            Self::FeedsStopped => "feeds-stopped",
            Self::ImportsRejected => "imports-rejected",
            Self::FeedDeadLetters => "feed-dead-letters",
            Self::NotificationsFailing => "notifications-failing",
            Self::EventsStuck => "events-stuck",
            Self::EventsDiffer => "events-differ",
            Self::ArchiveTroubled => "archive-troubled",
            Self::ArchiveOverdue => "archive-overdue",
            Self::ErasuresStuck => "erasures-stuck",
            Self::NoStandby => "no-standby",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether it is about what has happened: only a person ends it, by having seen it. What is still there ends
    /// with its cause.
    pub fn is_past(self) -> bool {
        matches!(
            self,
            Self::AnswersDiffer | Self::ImportsRejected | Self::FeedDeadLetters
        )
    }
}

/// Which types are asked about.
#[derive(Debug, Clone)]
pub struct WorklistsAsked {
    /// Items of money, whose amounts are summed up.
    pub money: Vec<ItemType>,
    pub payments: ItemType,
    pub notifications: ItemType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worklists {
    pub now: Timestamp,
    pub held: Pile,
    pub in_doubt: Pile,
    pub dead: Pile,
    /// Accepted a minute ago or longer, or tried in vain, and not planned.
    pub not_planned: Pile,
    /// Of [`Worklists::not_planned`], parts of files.
    pub chunks: u64,
    /// Given up, or tried in vain more than twice.
    pub failing_notifications: Pile,
    /// Payments whose bank said another amount or currency than was sent, since a person last saw it.
    pub differing: Pile,
    /// Files with rejected lines that ended since a person last saw them.
    pub rejected_imports: Pile,
    /// Lines that were rejected in those files.
    pub rejected_lines: u64,
    pub seen: Vec<Seen>,
}

/// So many of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pile {
    pub count: u64,
    /// There may be more than `count`.
    pub is_capped: bool,
    /// By currency, in their order; empty where there is no money in it.
    pub amounts: Vec<Amount>,
    /// Since when the oldest waits.
    pub oldest: Option<Timestamp>,
    /// Since when the newest waits, where that is known.
    pub newest: Option<Timestamp>,
    /// How many of each type, where there are several.
    pub by_type: Vec<(ItemType, u64)>,
    /// Of what has happened: the last that was counted, as [`NewSeen::mark`].
    pub last: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
}

impl Pile {
    /// So many, without money in them.
    pub fn of(count: u64, oldest: Option<Timestamp>) -> Self {
        Self {
            count,
            oldest,
            ..Self::default()
        }
    }

    pub fn add(&mut self, amount: Amount) {
        self.count += amount.count;
        let known = self.amounts.iter_mut();
        match known.into_iter().find(|it| it.currency == amount.currency) {
            Some(known) => {
                known.count += amount.count;
                known.amount_minor = known.amount_minor.saturating_add(amount.amount_minor);
            }
            None => {
                self.amounts.push(amount);
                self.amounts.sort_by(|a, b| a.currency.cmp(&b.currency));
            }
        }
    }

    /// So many of one type, and nothing else.
    #[must_use]
    pub fn all_of(mut self, item_type: &ItemType) -> Self {
        if self.count > 0 {
            self.by_type = vec![(item_type.clone(), self.count)];
        }
        self
    }

    /// Whether a person has seen all of it: there are no more than were seen, and none is newer. What is too much to
    /// be counted may grow unnoticed, so it is never seen.
    pub fn is_covered_by(&self, seen: &Seen) -> bool {
        let none_is_newer = self.newest.is_none_or(|newest| newest <= seen.at);
        !self.is_capped && self.count <= seen.count && none_is_newer
    }

    /// Both together.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        let count = self.count + other.count;
        for amount in other.amounts {
            self.add(amount);
        }
        self.count = count;
        self.is_capped |= other.is_capped;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        self.newest = self.newest.max(other.newest);
        self.by_type.extend(other.by_type);
        self.last = self.last.max(other.last);
        self
    }
}

/// What a person has seen of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub kind: Need,
    pub count: u64,
    pub mark: i64,
    pub author: Author,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSeen {
    pub count: u64,
    /// Of what has happened: up to here it was seen.
    pub mark: i64,
}

/// An item that waits for a person to release or cancel it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldItem {
    pub id: ItemId,
    pub money: Money,
    pub lane: LaneName,
    /// When it was due.
    pub due: Timestamp,
    pub deadline: Option<Timestamp>,
    /// The rules that hold it; none if it missed its deadline.
    pub rules: Option<String>,
    pub why: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(currency: &str, count: u64, amount_minor: i64) -> Amount {
        let currency = currency.to_owned();
        Amount {
            currency,
            count,
            amount_minor,
        }
    }

    #[test]
    fn piles_add_up_by_currency() {
        let at = |secs| Timestamp::from_second(secs).ok();
        let mut first = Pile::of(0, at(7));
        first.add(amount("USD", 2, 200));
        let mut second = Pile::of(0, at(5));
        second.add(amount("USD", 1, 50));
        second.add(amount("EUR", 3, 30));
        let sum = first.with(second);
        assert_eq!((sum.count, sum.oldest), (6, at(5)));
        assert_eq!(sum.amounts, [amount("EUR", 3, 30), amount("USD", 3, 250)]);
        let plain = Pile::of(2, None).with(Pile::of(3, at(1)));
        assert_eq!((plain.count, plain.oldest), (5, at(1)));
    }

    #[test]
    fn what_was_seen_is_new_again_once_there_is_more_or_another_one() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let (actor, reason) = ("ann".to_owned(), "they move".to_owned());
        let author = Author { actor, reason };
        let seen = Seen {
            kind: Need::LanesPaused,
            count: 2,
            mark: 0,
            author,
            at: at(100),
        };
        let pile = |count, newest: Option<i64>, is_capped| Pile {
            count,
            newest: newest.map(at),
            is_capped,
            ..Pile::default()
        };
        let table = [
            (pile(2, None, false), true),
            (pile(1, Some(100), false), true),
            (pile(3, None, false), false),
            // Resumed, and another paused in its place.
            (pile(2, Some(101), false), false),
            (pile(2, None, true), false),
        ];
        for (pile, expected) in table {
            assert_eq!(pile.is_covered_by(&seen), expected, "{pile:?}");
        }
    }

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for kind in Need::ALL {
            assert_eq!(Need::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(Need::parse("HELD"), None);
    }
}
