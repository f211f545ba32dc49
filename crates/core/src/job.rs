//! Acts on many items: what a job does, which items its filter wants, and what it must leave out. Pure; the
//! store fixes the items, and a service works them off.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::id::{BulkId, ItemId, LaneName};
use crate::item::QueueStatus;
use crate::money::Money;
use crate::ports::{IN_DOUBT, ItemState, RecordLine, StatusMove, cannot_replay};

/// A preview shows this many of its items.
const FIRST_SHOWN: usize = 20;
/// A preview shows at most this many reasons to leave items out, each with some ids.
const MOST_REASONS: usize = 20;
const IDS_PER_REASON: usize = 5;

/// What is done to each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobAct {
    Cancel,
    Release,
    Reschedule,
    Replay,
    Reopen,
    /// Asks the bank of an item in doubt about it.
    Ask,
}

impl JobAct {
    pub const ALL: [Self; 6] = [
        Self::Cancel,
        Self::Release,
        Self::Reschedule,
        Self::Replay,
        Self::Reopen,
        Self::Ask,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Release => "release",
            Self::Reschedule => "reschedule",
            Self::Replay => "replay",
            Self::Reopen => "reopen",
            Self::Ask => "ask",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == text)
    }

    /// What has happened to an item: "can be …".
    pub fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Release => "released",
            Self::Reschedule => "rescheduled",
            Self::Replay => "replayed",
            Self::Reopen => "reopened",
            Self::Ask => "asked about",
        }
    }

    /// Why it cannot be done to an item, by the rules of the same act on a single item.
    pub fn refuses(self, found: &ItemState, moves: &JobMoves) -> Option<String> {
        match self {
            Self::Cancel => found.refuses_cancel(),
            Self::Release => found.refuses_release(),
            Self::Reschedule => found.refuses_reschedule(),
            Self::Replay => cannot_replay(found.queue_status),
            Self::Reopen => found.refuses_reopen(&moves.reopened),
            Self::Ask => {
                let status = &found.record_status;
                (status != IN_DOUBT).then(|| format!("it is {status}, not {IN_DOUBT}"))
            }
        }
    }

    /// How an item has moved since it was previewed. What is in doubt moves all the time: its own flow asks, too.
    pub fn moved(self, previewed: &JobItem, found: &ItemState) -> Option<String> {
        match self {
            Self::Ask => None,
            Self::Cancel | Self::Release | Self::Reschedule | Self::Replay | Self::Reopen => {
                previewed.moved(found)
            }
        }
    }

    pub fn place(self) -> JobPlace {
        match self {
            Self::Ask => JobPlace::Banks,
            Self::Cancel | Self::Release | Self::Reschedule | Self::Replay | Self::Reopen => {
                JobPlace::Store
            }
        }
    }
}

/// Where a job is worked off. One that waits for banks must not keep others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPlace {
    Store,
    Banks,
}

/// How the records of a domain move with the acts that end an item, or begin it again.
#[derive(Debug, Clone)]
pub struct JobMoves {
    pub cancelled: StatusMove,
    pub reopened: StatusMove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Its items are fixed; nobody has confirmed it.
    Preview,
    Running,
    Done,
    Stopped,
}

impl JobState {
    pub const ALL: [Self; 4] = [Self::Preview, Self::Running, Self::Done, Self::Stopped];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preview => "PREVIEW",
            Self::Running => "RUNNING",
            Self::Done => "DONE",
            Self::Stopped => "STOPPED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// Which items a job wants. What is not said is not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<BulkId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_minor: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_minor: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_to: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_from: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_to: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// By what was taken in; the domain reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Refused in this refusal storm; the store knows which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<i64>,
    /// Everything the act can be done to; says so on purpose.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

impl JobFilter {
    /// Whether nothing is asked, not even for everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the domain has to read the item's document.
    pub fn asks_documents(&self) -> bool {
        self.account.is_some() || self.reference.is_some() || self.gateway.is_some()
    }

    /// By what the queue knows of it. The import is found by its index.
    pub fn wants(&self, item: &Candidate, now: Timestamp) -> bool {
        let is_held = item.found.queue_status == QueueStatus::Held;
        let minor = item.money.minor;
        is_or_unasked(self.status.as_ref(), &item.found.record_status)
            && is_or_unasked(self.held.as_ref(), &is_held)
            && is_or_unasked(self.lane.as_ref(), &item.found.lane)
            && is_or_unasked(self.late.as_ref(), &item.is_late(now))
            && (self.currency.as_deref()).is_none_or(|code| code == item.money.currency.code())
            && self.min_minor.is_none_or(|least| minor >= least)
            && self.max_minor.is_none_or(|most| minor <= most)
            && within(item.created_at, self.accepted_from, self.accepted_to)
            && within(item.due, self.due_from, self.due_to)
    }
}

impl JobFilter {
    /// Of what is accepted and has neither lane nor slot yet: it is neither held nor late.
    pub fn wants_unplanned(&self, money: Money, accepted_at: Timestamp) -> bool {
        let asks_more = [
            self.lane.is_some(),
            self.import.is_some(),
            self.gateway.is_some(),
        ];
        !asks_more.contains(&true)
            && self.held != Some(true)
            && self.late != Some(true)
            && (self.currency.as_deref()).is_none_or(|code| code == money.currency.code())
            && self.min_minor.is_none_or(|least| money.minor >= least)
            && self.max_minor.is_none_or(|most| money.minor <= most)
            && within(accepted_at, self.accepted_from, self.accepted_to)
    }
}

fn is_or_unasked<T: PartialEq>(asked: Option<&T>, is: &T) -> bool {
    asked.is_none_or(|asked| asked == is)
}

/// From the first moment to the last, without the last.
fn within(at: Timestamp, from: Option<Timestamp>, to: Option<Timestamp>) -> bool {
    from.is_none_or(|from| at >= from) && to.is_none_or(|to| at < to)
}

/// An item that an index has found for a filter.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub id: ItemId,
    pub money: Money,
    pub found: ItemState,
    pub due: Timestamp,
    pub deadline: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// As a list has it, which does not know what may have been done.
impl From<&RecordLine> for Candidate {
    fn from(line: &RecordLine) -> Self {
        Self {
            id: line.id.clone(),
            money: line.money,
            found: ItemState {
                queue_status: line.queue_status,
                lane: line.lane.clone(),
                run: line.run,
                may_be_done: false,
                is_erased: false,
                has_ended: line.has_ended,
                record_status: line.status.clone(),
            },
            due: line.due,
            deadline: line.deadline,
            created_at: line.created_at,
        }
    }
}

impl Candidate {
    /// Its deadline has passed, which is a fact and no forecast, and it has not ended.
    pub fn is_late(&self, now: Timestamp) -> bool {
        !self.found.has_ended && self.deadline.is_some_and(|deadline| deadline < now)
    }
}

/// An item of a job, as it was when the job was previewed. Whatever moves it raises its run or changes
/// its place in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobItem {
    pub id: ItemId,
    pub run: u32,
    pub was: QueueStatus,
}

impl From<&Candidate> for JobItem {
    fn from(candidate: &Candidate) -> Self {
        Self {
            id: candidate.id.clone(),
            run: candidate.found.run,
            was: candidate.found.queue_status,
        }
    }
}

impl JobItem {
    /// How it has moved since; such an item is left out.
    pub fn moved(&self, found: &ItemState) -> Option<String> {
        let (was, is) = (self.was, found.queue_status);
        if was != is {
            return Some(format!(
                "changed since the preview: it was {was} and is now {is}"
            ));
        }
        (self.run != found.run).then(|| {
            let (was, is) = (self.run, found.run);
            format!("changed since the preview: it was in run {was} and is now in run {is}")
        })
    }
}

/// What a preview shows: counted while its items are fixed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSummary {
    pub count: u64,
    /// In minor units, by currency.
    pub amounts: BTreeMap<String, i64>,
    pub first: Vec<ShownItem>,
    pub excluded: Vec<Excluded>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownItem {
    pub id: ItemId,
    pub minor: i64,
    pub currency: String,
    pub lane: LaneName,
    pub status: String,
    pub queue_status: String,
}

/// Items that the filter wants and the act cannot be done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    pub reason: String,
    pub count: u64,
    pub first: Vec<ItemId>,
}

impl JobSummary {
    pub fn take(&mut self, item: &Candidate) {
        let code = item.money.currency.code();
        let sum = self.amounts.entry(code.to_owned()).or_insert(0);
        *sum = sum.saturating_add(item.money.minor);
        self.count += 1;
        if self.first.len() < FIRST_SHOWN {
            self.first.push(ShownItem {
                id: item.id.clone(),
                minor: item.money.minor,
                currency: code.to_owned(),
                lane: item.found.lane.clone(),
                status: item.found.record_status.clone(),
                queue_status: item.found.queue_status.to_string(),
            });
        }
    }

    pub fn leave_out(&mut self, item: &Candidate, reason: String) {
        let is_new = !self.excluded.iter().any(|it| it.reason == reason);
        let reason = if is_new && self.excluded.len() >= MOST_REASONS {
            "other reasons".to_owned()
        } else {
            reason
        };
        let known = self.excluded.iter_mut().find(|it| it.reason == reason);
        if let Some(known) = known {
            known.count += 1;
            if known.first.len() < IDS_PER_REASON {
                known.first.push(item.id.clone());
            }
            return;
        }
        self.excluded.push(Excluded {
            reason,
            count: 1,
            first: vec![item.id.clone()],
        });
    }

    /// Whether so many differences make it another preview: more than one in a hundred.
    pub fn is_off_by(&self, differences: u64) -> bool {
        differences.saturating_mul(100) > self.count
    }
}

#[cfg(test)]
mod tests;
