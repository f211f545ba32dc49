//! What every try to take a chunk in has in common, whatever its lines hold: how they are read, its turn, the note of
//! a failure, and the text of rejected lines.

use std::collections::HashMap;

use tollgate_core::flow::{Call, StepError};
use tollgate_core::ports::{ChunkEnd, ChunkId, ChunkTurn, LineError, Store, StoreResult};
use tollgate_dispatch::FileOrder;

use super::super::deferred::{self, Trouble};
use super::chunk;
use super::flow::breathe;

/// At most this many lines are read before others get their turn on the thread.
const LINES_AT_ONCE: usize = 32;
/// A rejected line is kept to be corrected if it is no longer than this, in bytes.
const LONGEST_KEPT: usize = 4096;

/// Ends a step by what its try came to. A try that failed is noted on the chunk, which waits in the store for the next
/// one.
pub(crate) async fn ended(
    store: &dyn Store,
    chunk: &ChunkId,
    taken_in: Result<bool, Trouble>,
    call: &Call,
) -> Result<bool, StepError> {
    match taken_in {
        Err(trouble) if trouble.is_enough(call) => {
            let noted = store.chunk_failed(chunk, &trouble.why).await?;
            if let Some(tries) = noted {
                let error = trouble.why;
                tracing::error!(%chunk, tries, error, "the chunk could not be processed; it is tried again");
                deferred::count("chunk");
            }
            Ok(false)
        }
        taken_in => Ok(taken_in?),
    }
}

/// Reads the lines of a chunk one after the other, and lets others run in between.
pub(crate) async fn each_line(text: &[u8], mut read: impl FnMut(u64, Result<&[u8], String>)) {
    for (place, (number, line)) in chunk::lines(text).enumerate() {
        read(number, line);
        if place % LINES_AT_ONCE == LINES_AT_ONCE - 1 {
            breathe().await;
        }
    }
}

/// Waits until the chunk may be admitted: in its turn, or out of order. None if an earlier one comes first.
pub(crate) async fn turn(
    store: &dyn Store,
    order: &FileOrder,
    chunk: &ChunkId,
) -> StoreResult<Option<ChunkTurn>> {
    let turn = order.turn(chunk).await?;
    match turn {
        ChunkTurn::Now => {}
        ChunkTurn::OutOfOrder => {
            tracing::warn!(%chunk, "processed before an earlier chunk, which keeps failing");
            store.order_lost(&chunk.bulk).await?;
        }
        ChunkTurn::Wait | ChunkTurn::HeldBack => {
            store.hold_chunk(chunk).await?;
            return Ok(None);
        }
    }
    Ok(Some(turn))
}

/// Adds the text of each rejected line, so that it can be corrected. It is read once more: most chunks have none.
pub(crate) async fn keep_rejected(
    store: &dyn Store,
    chunk: &ChunkId,
    end: &mut ChunkEnd,
) -> StoreResult<()> {
    if end.rejected.is_empty() {
        return Ok(());
    }
    let Some(text) = store.chunk(chunk).await? else {
        return Ok(());
    };
    let rejected = end.rejected.iter_mut();
    let mut rejected: HashMap<u64, &mut LineError> =
        rejected.map(|error| (error.line, error)).collect();
    for (number, line) in chunk::lines(&text) {
        let line = line.ok().filter(|line| line.len() <= LONGEST_KEPT);
        let line = line.and_then(|line| std::str::from_utf8(line).ok());
        // A database takes no NUL.
        let line = line.filter(|line| !line.contains('\0'));
        if let (Some(error), Some(line)) = (rejected.get_mut(&number), line) {
            error.text = Some(line.to_owned());
        }
    }
    Ok(())
}
