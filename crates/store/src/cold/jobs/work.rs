//! Working a job off: a few items in one transaction, by the same acts as on single items, with what became of
//! each. Whoever dies in between has done nothing of it.

use std::collections::BTreeSet;

use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType, JobId};
use tollgate_core::job::{JobAct, JobItem, JobMoves};
use tollgate_core::ports::{
    ActionResult, Author, ITEMS_PER_CHUNK, StoreError, StoreResult, Worked, refuses_another_key,
};

use super::views::chunk;
use crate::audit::Entry;
use crate::cold::audit::audit;
use crate::cold::items::new_slot::{self, How, NewSlot};
use crate::cold::items::operator_actions::{cancel, hold_plan_and_row};
use crate::sql::{Params, Tx, params};

/// A running job, held.
pub(super) struct Work {
    id: JobId,
    pub(super) item_type: ItemType,
    act: JobAct,
    requested: Option<Timestamp>,
    /// The audit entries of its items name the job.
    pub(super) author: Author,
    total: u64,
    done: u64,
    left_out: u64,
}

pub(super) async fn work(
    tx: &Tx,
    job: &JobId,
    limit: u32,
    moves: JobMoves,
    margin: Decimal,
) -> StoreResult<Worked> {
    let rules = Rules { moves, margin };
    let Some(mut work) = hold(tx, job).await? else {
        return Ok(Worked::NotRunning);
    };
    let items = work.next(tx, limit).await?;
    hold_plans(tx, &work.item_type, &items).await?;
    let first = work.next_number();
    let (mut results, mut done): (Vec<Params>, u64) = (vec![], 0);
    for (number, item) in (first..).zip(&items) {
        let left_out = work.act_on(tx, item, &rules).await?;
        done += u64::from(left_out.is_none());
        results.push(params![job, number, &item.id, left_out, None::<String>]);
    }
    let count = results.len() as u64;
    work.note(tx, results, done).await;
    Ok(work.worked(tx, count).await)
}

/// What acts on items go by.
struct Rules {
    moves: JobMoves,
    margin: Decimal,
}

pub(super) async fn hold(tx: &Tx, job: &JobId) -> StoreResult<Option<Work>> {
    const JOB: &str = "SELECT item_type, act, requested_time, actor, reason, total, done, left_out
         FROM job WHERE job_id = $1 AND state = 'RUNNING'";
    let Some(row) = tx.locked_row(JOB, params![job]).await else {
        return Ok(None);
    };
    let (actor, reason): (String, String) = (row.get("actor")?, row.get("reason")?);
    Ok(Some(Work {
        id: job.clone(),
        item_type: row.get("item_type")?,
        act: row.word("act", JobAct::parse)?,
        requested: row.get("requested_time")?,
        author: Author::new(actor, format!("{job}: {reason}")),
        total: row.get("total")?,
        done: row.get("done")?,
        left_out: row.get("left_out")?,
    }))
}

/// Several lanes in the order of their names, each before its items: as others take them.
async fn hold_plans(tx: &Tx, item_type: &ItemType, items: &[JobItem]) -> StoreResult<()> {
    const LANE: &str = "SELECT lane FROM item_queue WHERE item_type = $1 AND item_id = $2";
    const PLAN: &str = "SELECT lane FROM lane_plan WHERE lane = $1";
    let mut lanes: BTreeSet<String> = BTreeSet::new();
    for item in items {
        let lane = tx.row(LANE, params![item_type, &item.id]).await;
        lanes.extend(lane.map(|row| row.get("lane")).transpose()?);
    }
    for lane in lanes {
        tx.locked_row(PLAN, params![lane]).await;
    }
    Ok(())
}

impl Work {
    /// Of the item that comes next, from 1 on.
    pub(super) fn next_number(&self) -> u64 {
        self.done + self.left_out + 1
    }

    /// The job ends with its last item.
    pub(super) async fn worked(&self, tx: &Tx, count: u64) -> Worked {
        if self.done + self.left_out < self.total {
            return Worked::Some(count);
        }
        self.end(tx).await;
        Worked::Ended(count)
    }

    /// Up to the end of a chunk.
    async fn next(&self, tx: &Tx, limit: u32) -> StoreResult<Vec<JobItem>> {
        let at = usize::try_from(self.done + self.left_out).unwrap_or(usize::MAX);
        let (number, within) = (at / ITEMS_PER_CHUNK, at % ITEMS_PER_CHUNK);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let items = chunk(tx, &self.id, number).await?.into_iter().skip(within);
        let items: Vec<JobItem> = items.take(limit as usize).collect();
        if items.is_empty() {
            let job = &self.id;
            let why = format!("{job} has no item {at}, but {} items", self.total);
            return Err(StoreError::Bug(why));
        }
        Ok(items)
    }

    /// Why it was left out.
    async fn act_on(&self, tx: &Tx, item: &JobItem, rules: &Rules) -> StoreResult<Option<String>> {
        let gone = || Some("it no longer exists".to_owned());
        let previewed = item;
        let item = self.item(&item.id);
        let Some(found) = hold_plan_and_row(tx, &item).await? else {
            return Ok(gone());
        };
        if let Some(how) = self.act.moved(previewed, &found) {
            return Ok(Some(how));
        }
        Ok(match self.act_alone(tx, item, rules).await? {
            ActionResult::Yes => None,
            ActionResult::NoSuchItem => gone(),
            ActionResult::Refused(why) => Some(why),
        })
    }

    fn item(&self, id: &ItemId) -> Item {
        Item::new(&self.item_type, id)
    }

    /// As on a single item. What goes back into the queue waits for a slot that is free.
    async fn act_alone(&self, tx: &Tx, item: Item, rules: &Rules) -> StoreResult<ActionResult> {
        let how = match self.act {
            JobAct::Cancel => return cancel(tx, &item, &rules.moves.cancelled, &self.author).await,
            JobAct::Release => How::Release,
            JobAct::Reschedule => How::Reschedule,
            JobAct::Replay => How::Replay,
            // Asked outside of any transaction: `asks.rs`.
            JobAct::Ask => return Ok(ActionResult::Refused("its bank was not asked".to_owned())),
            JobAct::Reopen => {
                let past = tx.history(&item).await?.past;
                let states = past.iter().map(|attempt| attempt.state);
                if let Some(why) = refuses_another_key(states) {
                    return Ok(ActionResult::Refused(why));
                }
                How::Reopen(rules.moves.reopened.clone())
            }
        };
        let now = tx.now().await?;
        let slot = NewSlot {
            item,
            requested: self.requested.unwrap_or(now),
            how,
            author: self.author.clone(),
        };
        new_slot::place(tx, &slot, rules.margin).await
    }

    pub(super) async fn note(&mut self, tx: &Tx, results: Vec<Params>, done: u64) {
        const RESULT: &str = "INSERT INTO job_result (job_id, number, item_id, left_out, answer)
             VALUES ($1, $2, $3, $4, $5)";
        const COUNT: &str = "UPDATE job SET done = $2, left_out = $3 WHERE job_id = $1";
        const FORGET: &str = "DELETE FROM job_chunk WHERE job_id = $1 AND chunk_no = $2";
        let count = results.len() as u64;
        tx.execute_each(RESULT, results).await;
        self.done += done;
        self.left_out += count - done;
        let counted = params![&self.id, self.done, self.left_out];
        tx.execute(COUNT, counted).await;
        let (at, full) = (self.done + self.left_out, ITEMS_PER_CHUNK as u64);
        if at % full == 0 || at >= self.total {
            let last = (at - 1) / full;
            tx.execute(FORGET, params![&self.id, last]).await;
        }
    }

    async fn end(&self, tx: &Tx) {
        const END: &str = "UPDATE job SET state = 'DONE', ended_at = tg_now() WHERE job_id = $1";
        tx.execute(END, params![&self.id]).await;
        let (job, acted) = (&self.id, self.act.done());
        let detail = format!("{job}: {} {acted}, {} left out", self.done, self.left_out);
        let entry = Entry {
            action: "JOB_ENDED",
            actor: &self.author.actor,
            detail: &detail,
            ..Entry::default()
        };
        audit(tx, &entry).await;
    }
}
