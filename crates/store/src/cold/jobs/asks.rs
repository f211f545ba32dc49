//! A job that asks banks: which item comes next, and what came of asking. The asking itself is outside of the store, so
//! whoever dies in between asks once more.

use tollgate_core::id::{Item, ItemId, JobId};
use tollgate_core::ports::{
    ActionResult, AskedItem, Author, BankSaid, ITEMS_PER_CHUNK, StoreResult, Worked,
};

use super::views::chunk;
use super::work::{Work, hold};
use crate::cold::in_doubt::evidence;
use crate::sql::{Tx, params};

pub(super) async fn next(tx: &Tx, job: &JobId, limit: u32) -> StoreResult<Vec<(u64, ItemId)>> {
    const AT: &str = "SELECT done + left_out AS looked_at FROM job
         WHERE job_id = $1 AND state = 'RUNNING'";
    let Some(row) = tx.row(AT, params![job]).await else {
        return Ok(vec![]);
    };
    let at: u64 = row.get("looked_at")?;
    let full = ITEMS_PER_CHUNK as u64;
    let (number, within) = (at / full, at % full);
    let items = chunk(tx, job, u32::try_from(number).unwrap_or(u32::MAX)).await?;
    let numbered = (number * full + 1..).zip(items.into_iter().map(|item| item.id));
    let within = usize::try_from(within).unwrap_or(usize::MAX);
    Ok(numbered.skip(within).take(limit as usize).collect())
}

pub(super) async fn note(tx: &Tx, job: &JobId, asked: AskedItem) -> StoreResult<Worked> {
    let Some(mut work) = hold(tx, job).await? else {
        return Ok(Worked::NotRunning);
    };
    if asked.number != work.next_number() {
        return Ok(Worked::Some(0));
    }
    let (answer, left_out) = match asked.said {
        Ok(said) => (Some(noted(tx, &work, &asked.id, said).await?), None),
        Err(why) => (None, Some(why)),
    };
    let done = u64::from(left_out.is_none());
    let result = params![job, asked.number, &asked.id, left_out, answer];
    work.note(tx, vec![result], done).await;
    Ok(work.worked(tx, 1).await)
}

/// The answer, and whether it ends the doubt.
async fn noted(tx: &Tx, work: &Work, id: &ItemId, said: BankSaid) -> StoreResult<String> {
    let Some(proof) = said.evidence else {
        return Ok(said.answer);
    };
    let item = Item::new(&work.item_type, id);
    let evidence = Author::new(&work.author.actor, proof);
    let answer = said.answer;
    Ok(match evidence::note(tx, &item, &evidence).await? {
        ActionResult::Yes => format!("{answer}; no longer in doubt"),
        ActionResult::NoSuchItem => format!("{answer}; it no longer exists"),
        ActionResult::Refused(why) => format!("{answer}; not recorded: {why}"),
    })
}
