//! Imports (bulks): uploads, their chunks as the work list, and how a chunk's end is counted once. `views.rs` and `since.rs` are
//! what people read, `packing.rs` how the text of a chunk is kept.

pub(crate) mod packing;
mod since;
mod views;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType};
use tollgate_core::ports::{
    BulkLine, BulkOrigin, BulkSince, BulkSum, BulkView, Bulks, ChunkEnd, ChunkId, ChunkToDo,
    ChunksBefore, Closed, KnownBulk, LineError, NewChunk, Page, PageFrom, PageToken, RETRIES,
    StoreError, StoreResult,
};

use crate::sql::{Params, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::telemetry::Lines;
use crate::urgency::Urgency;
use crate::value::micros;
use packing::{pack, unpack};

#[async_trait]
impl<D: Database> Bulks for StoreOn<D> {
    async fn open_bulk(&self, bulk: &BulkId, item_type: &ItemType) -> StoreResult<bool> {
        const OPEN: &str = "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left,
                 accepted, duplicate, rejected, opened_at, touched_at)
             VALUES ($1, $2, 'UPLOADING', 0, 0, 0, 0, 0, $3, $3)
             ON CONFLICT (bulk_id) DO NOTHING";
        let (bulk, item_type) = (bulk.clone(), item_type.clone());
        self.write(Urgency::Normal, move |tx| async move {
            let now = tx.now().await?;
            Ok(tx.execute(OPEN, params![&bulk, &item_type, now]).await == 1)
        })
        .await
    }

    async fn name_bulk(&self, bulk: &BulkId, origin: BulkOrigin) -> StoreResult<()> {
        const NAME: &str = "UPDATE bulk SET file_name = $2, actor = $3 WHERE bulk_id = $1";
        let named = params![bulk, origin.file_name, origin.actor];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(NAME, named).await;
            Ok(())
        })
        .await
    }

    async fn add_chunk(&self, bulk: &BulkId, chunk: NewChunk) -> StoreResult<bool> {
        let (bulk, text) = (bulk.clone(), pack(&chunk.text)?);
        let chunk = NewChunk { text, ..chunk };
        self.write(Urgency::Normal, move |tx| async move {
            add_chunk(&tx, &bulk, chunk).await
        })
        .await
    }

    async fn close_bulk(
        &self,
        bulk: &BulkId,
        key: Option<String>,
        digest: String,
    ) -> StoreResult<Closed> {
        let bulk = bulk.clone();
        self.write(Urgency::Normal, move |tx| async move {
            close(&tx, &bulk, key.as_deref(), &digest).await
        })
        .await
    }

    async fn bulk_by_key(&self, item_type: &ItemType, key: &str) -> StoreResult<Option<KnownBulk>> {
        let (item_type, key) = (item_type.clone(), key.to_owned());
        self.read(move |tx| async move { by_key(&tx, &item_type, &key).await })
            .await
    }

    async fn drop_upload(&self, bulk: &BulkId) -> StoreResult<()> {
        let bulk = bulk.clone();
        self.write(Urgency::Normal, move |tx| async move {
            discard(&tx, &bulk).await;
            Ok(())
        })
        .await
    }

    async fn sweep_uploads(&self, idle: Duration, most: u32) -> StoreResult<u64> {
        self.write(Urgency::Normal, move |tx| async move {
            sweep(&tx, idle, most).await
        })
        .await
    }

    async fn chunks_to_do(&self, item_type: &ItemType, limit: u32) -> StoreResult<Vec<ChunkToDo>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { views::to_do(&tx, &item_type, limit).await })
            .await
    }

    async fn chunk_failed(&self, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>> {
        let (chunk, why) = (chunk.clone(), why.to_owned());
        self.write(Urgency::Normal, move |tx| async move {
            failed(&tx, &chunk, &why).await
        })
        .await
    }

    async fn chunks_before(&self, chunk: &ChunkId) -> StoreResult<ChunksBefore> {
        let chunk = chunk.clone();
        self.read(move |tx| async move { views::before(&tx, &chunk).await })
            .await
    }

    async fn hold_chunk(&self, chunk: &ChunkId) -> StoreResult<()> {
        const HOLD: &str =
            "UPDATE bulk_chunk SET holds = holds + 1 WHERE bulk_id = $1 AND chunk_no = $2";
        let held = params![&chunk.bulk, chunk.number];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(HOLD, held).await;
            Ok(())
        })
        .await
    }

    async fn order_lost(&self, bulk: &BulkId) -> StoreResult<()> {
        const LOST: &str = "UPDATE bulk SET order_kept = false WHERE bulk_id = $1";
        let lost = params![bulk];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(LOST, lost).await;
            Ok(())
        })
        .await
    }

    async fn chunk(&self, chunk: &ChunkId) -> StoreResult<Option<Vec<u8>>> {
        const TEXT: &str = "SELECT text FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
        let wanted = params![&chunk.bulk, chunk.number];
        let packed: Option<Vec<u8>> = self
            .read(move |tx| async move {
                let row = tx.row(TEXT, wanted).await;
                row.map(|row| row.get("text")).transpose()
            })
            .await?;
        packed.map(|packed| unpack(&packed)).transpose()
    }

    async fn finish_chunk(&self, chunk: &ChunkId, end: ChunkEnd) -> StoreResult<bool> {
        let (chunk, lines) = (chunk.clone(), Lines::of(&end));
        let finished = self
            .write(Urgency::Normal, move |tx| async move {
                finish(&tx, &chunk, &end).await
            })
            .await?;
        if finished {
            lines.count();
        }
        Ok(finished)
    }

    async fn bulk(&self, bulk: &BulkId) -> StoreResult<Option<BulkView>> {
        let bulk = bulk.clone();
        self.read(move |tx| async move { views::view(&tx, &bulk).await })
            .await
    }

    async fn bulks(
        &self,
        item_type: &ItemType,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<BulkLine, PageToken>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { views::lines(&tx, &item_type, from, limit).await })
            .await
    }

    async fn bulk_errors(
        &self,
        bulk: &BulkId,
        after_line: u64,
        limit: u32,
    ) -> StoreResult<Vec<LineError>> {
        let bulk = bulk.clone();
        self.read(move |tx| async move { views::errors(&tx, &bulk, after_line, limit).await })
            .await
    }

    async fn bulk_since(
        &self,
        item_type: &ItemType,
        bulk: &BulkId,
        at_most: u32,
    ) -> StoreResult<BulkSince> {
        let (item_type, bulk) = (item_type.clone(), bulk.clone());
        self.read(move |tx| async move { since::since(&tx, &item_type, &bulk, at_most).await })
            .await
    }

    async fn bulks_running(&self, item_type: &ItemType) -> StoreResult<u64> {
        const RUNNING: &str =
            "SELECT count(*) AS n FROM bulk WHERE item_type = $1 AND state = 'RUNNING'";
        let wanted = params![item_type];
        self.read(move |tx| async move { tx.one(RUNNING, wanted).await?.get("n") })
            .await
    }
}

/// The bulk's row is held, so that an upload is added to or given up and never both.
async fn add_chunk(tx: &Tx, bulk: &BulkId, chunk: NewChunk) -> StoreResult<bool> {
    const IS_OPEN: &str = "SELECT 1 FROM bulk WHERE bulk_id = $1 AND state = 'UPLOADING'";
    const ADD: &str = "INSERT INTO bulk_chunk (bulk_id, chunk_no, text) VALUES ($1, $2, $3)
         ON CONFLICT (bulk_id, chunk_no) DO NOTHING";
    const COUNT: &str = "UPDATE bulk SET lines = lines + $2, chunks_left = chunks_left + 1,
                touched_at = $3
         WHERE bulk_id = $1";
    if tx.locked_row(IS_OPEN, params![bulk]).await.is_none() {
        return Ok(false);
    }
    let added = params![bulk, chunk.number, chunk.text];
    if tx.execute(ADD, added).await == 1 {
        let now = tx.now().await?;
        tx.execute(COUNT, params![bulk, chunk.lines, now]).await;
    }
    Ok(true)
}

/// Who closes under a key does so alone.
async fn close(tx: &Tx, bulk: &BulkId, key: Option<&str>, digest: &str) -> StoreResult<Closed> {
    const FOUND: &str = "SELECT item_type, state FROM bulk WHERE bulk_id = $1";
    const CLOSE: &str = "UPDATE bulk
         SET state = CASE WHEN chunks_left = 0 THEN 'DONE' ELSE 'RUNNING' END,
             idempotency_key = $2, digest = $3, started_at = $4, touched_at = $4,
             ended_at = CASE WHEN chunks_left = 0 THEN CAST($4 AS bigint) END
         WHERE bulk_id = $1 AND state = 'UPLOADING'";
    if let Some(key) = key {
        tx.lock_name(format!("tollgate/bulk/{key}")).await;
    }
    let Some(row) = tx.locked_row(FOUND, params![bulk]).await else {
        return Ok(Closed::Gone);
    };
    match row.get::<String>("state")?.as_str() {
        "RUNNING" | "DONE" => return Ok(Closed::Running),
        "UPLOADING" => {}
        _ => return Ok(Closed::Gone),
    }
    if let Some(key) = key
        && let Some(known) = by_key(tx, &row.get("item_type")?, key).await?
    {
        discard(tx, bulk).await;
        return Ok(Closed::Known(known));
    }
    let now = tx.now().await?;
    tx.execute(CLOSE, params![bulk, key, digest, now]).await;
    Ok(Closed::Running)
}

async fn by_key(tx: &Tx, item_type: &ItemType, key: &str) -> StoreResult<Option<KnownBulk>> {
    const BY_KEY: &str =
        "SELECT bulk_id, digest FROM bulk WHERE item_type = $1 AND idempotency_key = $2";
    let Some(row) = tx.row(BY_KEY, params![item_type, key]).await else {
        return Ok(None);
    };
    Ok(Some(KnownBulk {
        bulk: row.get("bulk_id")?,
        digest: row.get("digest")?,
    }))
}

async fn discard(tx: &Tx, bulk: &BulkId) {
    const DISCARD: &str =
        "UPDATE bulk SET state = 'DISCARDED' WHERE bulk_id = $1 AND state = 'UPLOADING'";
    tx.execute(DISCARD, params![bulk]).await;
}

/// Bulk by bulk, a limited number of chunks in all: a row goes when its last chunk is gone.
async fn sweep(tx: &Tx, idle: Duration, most: u32) -> StoreResult<u64> {
    const GIVE_UP: &str =
        "UPDATE bulk SET state = 'DISCARDED' WHERE state = 'UPLOADING' AND touched_at < $1";
    const DISCARDED: &str = "SELECT bulk_id FROM bulk
         WHERE state = 'DISCARDED' AND bulk_id > '' ORDER BY bulk_id LIMIT $1";
    const REMOVE: &str = "DELETE FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no IN (
             SELECT chunk_no FROM bulk_chunk WHERE bulk_id = $1 ORDER BY chunk_no LIMIT $2)";
    const FORGET: &str = "DELETE FROM bulk WHERE bulk_id = $1 AND state = 'DISCARDED'";
    let before = tx.now().await?.as_microsecond() - micros(idle);
    tx.execute(GIVE_UP, params![before]).await;
    let (most, mut removed) = (u64::from(most), 0);
    for row in tx.rows(DISCARDED, params![most]).await {
        let bulk: BulkId = row.get("bulk_id")?;
        let room = most - removed;
        let gone = tx.execute(REMOVE, params![&bulk, room]).await;
        removed += gone;
        if gone == room {
            break;
        }
        tx.execute(FORGET, params![&bulk]).await;
    }
    Ok(removed)
}

async fn failed(tx: &Tx, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>> {
    const TRIES: &str = "SELECT tries FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
    const FAILED: &str = "UPDATE bulk_chunk SET tries = $3, last_error = $4, due_at = $5,
                failing_since = coalesce(failing_since, $6)
         WHERE bulk_id = $1 AND chunk_no = $2";
    let (bulk, number) = (&chunk.bulk, chunk.number);
    let Some(row) = tx.locked_row(TRIES, params![bulk, number]).await else {
        return Ok(None);
    };
    let tries = row.get::<u32>("tries")?.saturating_add(1);
    let now = tx.now().await?.as_microsecond();
    let due = now.saturating_add(micros(RETRIES.pause_after(tries)));
    tx.execute(FAILED, params![bulk, number, tries, why, due, now])
        .await;
    Ok(Some(tries))
}

/// The row of the chunk is the right to count it. The bulk's row comes next, so that the chunks of
/// a bulk end one after the other and the last one knows.
async fn finish(tx: &Tx, chunk: &ChunkId, end: &ChunkEnd) -> StoreResult<bool> {
    const TAKE: &str = "DELETE FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
    const COUNT: &str = "UPDATE bulk SET accepted = accepted + $2, duplicate = duplicate + $3,
                rejected = rejected + $4, chunks_left = chunks_left - 1,
                state = CASE WHEN chunks_left = 1 THEN 'DONE' ELSE state END,
                ended_at = CASE WHEN chunks_left = 1 THEN CAST($5 AS bigint) END,
                rejected_at = CASE WHEN $4 > 0 THEN CAST($5 AS bigint) ELSE rejected_at END
         WHERE bulk_id = $1";
    let bulk = &chunk.bulk;
    if tx.execute(TAKE, params![bulk, chunk.number]).await == 0 {
        return Ok(false);
    }
    let (accepted, rejected) = (end.accepted(), end.rejected.len());
    let now = tx.now().await?;
    let counted = params![bulk, accepted, end.duplicate, rejected, now];
    tx.execute(COUNT, counted).await;
    write_errors(tx, bulk, &end.rejected).await?;
    add_sums(tx, bulk, &end.sums).await;
    Ok(true)
}

async fn write_errors(tx: &Tx, bulk: &BulkId, errors: &[LineError]) -> StoreResult<()> {
    // A feed may read a record again; then the last verdict counts.
    const ERROR: &str = "INSERT INTO bulk_error (bulk_id, line_no, item_id, details, line_text, unanswered,
                answered_at)
         VALUES ($1, $2, $3, $4, $5, (SELECT answers FROM bulk WHERE bulk_id = $1),
             (SELECT CASE WHEN bulk_id LIKE 'feed.%' AND NOT answers THEN tg_now() END
              FROM bulk WHERE bulk_id = $1))
         ON CONFLICT (bulk_id, line_no) DO UPDATE SET item_id = excluded.item_id,
             details = excluded.details, line_text = excluded.line_text, unanswered = excluded.unanswered,
             answered_at = excluded.answered_at";
    let written = errors.iter().map(|error| {
        let details = serde_json::to_string(&error.details);
        let details = details.map_err(|e| StoreError::Bug(e.to_string()))?;
        let (id, text) = (error.id.as_deref(), error.text.as_deref());
        Ok(params![bulk, error.line, id, details, text])
    });
    let written = written.collect::<StoreResult<_>>()?;
    tx.execute_each(ERROR, written).await;
    Ok(())
}

/// Of two deadlines one may be missing: then the other is taken.
async fn add_sums(tx: &Tx, bulk: &BulkId, sums: &[BulkSum]) {
    const SUM: &str = "INSERT INTO bulk_sum (bulk_id, lane, currency, accepted, amount_minor,
                met, missed, first_slot, last_slot, first_deadline, last_deadline)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (bulk_id, lane, currency) DO UPDATE SET
             accepted = bulk_sum.accepted + excluded.accepted,
             amount_minor = bulk_sum.amount_minor + excluded.amount_minor,
             met = bulk_sum.met + excluded.met, missed = bulk_sum.missed + excluded.missed,
             first_slot = CASE WHEN bulk_sum.first_slot <= excluded.first_slot
                 THEN bulk_sum.first_slot ELSE excluded.first_slot END,
             last_slot = CASE WHEN bulk_sum.last_slot >= excluded.last_slot
                 THEN bulk_sum.last_slot ELSE excluded.last_slot END,
             first_deadline = CASE WHEN bulk_sum.first_deadline <= excluded.first_deadline
                 THEN bulk_sum.first_deadline
                 ELSE coalesce(excluded.first_deadline, bulk_sum.first_deadline) END,
             last_deadline = CASE WHEN bulk_sum.last_deadline >= excluded.last_deadline
                 THEN bulk_sum.last_deadline
                 ELSE coalesce(excluded.last_deadline, bulk_sum.last_deadline) END";
    let sum_of = |sum: &BulkSum| -> Params {
        let first_deadline: Option<Timestamp> = sum.deadlines.map(|(first, _)| first);
        let last_deadline: Option<Timestamp> = sum.deadlines.map(|(_, last)| last);
        params![
            bulk,
            &sum.lane,
            &sum.currency,
            sum.accepted,
            sum.amount_minor,
            sum.met,
            sum.missed,
            sum.first_slot,
            sum.last_slot,
            first_deadline,
            last_deadline,
        ]
    };
    tx.execute_each(SUM, sums.iter().map(sum_of).collect())
        .await;
}
