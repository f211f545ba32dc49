//! Bulks: uploads, their chunks as the work list, and how a chunk's end is counted once.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::id::{BulkId, ItemType};
use tollgate_core::ports::{
    Bookmark, BulkLine, BulkSum, BulkView, Bulks, ChunkEnd, ChunkId, ChunkToDo, Closed, KnownBulk,
    LineError, NewChunk, Page, RETRIES, StoreResult,
};

use super::SqliteStore;
use super::bulk_views;
use super::value::Us;
use crate::telemetry::Lines;
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl Bulks for SqliteStore {
    async fn open_bulk(&self, bulk: &BulkId, item_type: &ItemType) -> StoreResult<bool> {
        let (bulk, item_type) = (bulk.clone(), item_type.clone());
        let clock = self.clock.clone();
        let write = move |c: &Connection| {
            c.prepare_cached(
                "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left, accepted,
                                   duplicate, rejected, opened_at, touched_at)
                 VALUES (?1, ?2, 'UPLOADING', 0, 0, 0, 0, 0, ?3, ?3)
                 ON CONFLICT (bulk_id) DO NOTHING",
            )?
            .execute(params![bulk.as_str(), item_type.as_str(), clock.now_us()])
        };
        let opened = self.writer.write(Urgency::Normal, write).await?;
        Ok(opened == 1)
    }

    async fn add_chunk(&self, bulk: &BulkId, chunk: NewChunk) -> StoreResult<bool> {
        let (bulk, clock) = (bulk.clone(), self.clock.clone());
        let write = move |c: &Connection| add_chunk(c, &bulk, &chunk, clock.now_us());
        self.writer.write(Urgency::Normal, write).await
    }

    async fn close_bulk(
        &self,
        bulk: &BulkId,
        key: Option<String>,
        digest: String,
    ) -> StoreResult<Closed> {
        let (bulk, clock) = (bulk.clone(), self.clock.clone());
        let write = move |c: &Connection| close(c, &bulk, key.as_deref(), &digest, clock.now_us());
        self.writer.write(Urgency::Normal, write).await
    }

    async fn bulk_by_key(&self, item_type: &ItemType, key: &str) -> StoreResult<Option<KnownBulk>> {
        let (item_type, key) = (item_type.clone(), key.to_owned());
        let read = move |c: &Connection| by_key(c, item_type.as_str(), &key);
        self.readers.read(read).await
    }

    async fn drop_upload(&self, bulk: &BulkId) -> StoreResult<()> {
        let bulk = bulk.clone();
        let write = move |c: &Connection| discard(c, &bulk);
        self.writer.write(Urgency::Normal, write).await
    }

    async fn sweep_uploads(&self, idle: Duration, most: u32) -> StoreResult<u64> {
        let before = self.clock.now_us().saturating_sub(micros(idle));
        let write = move |c: &Connection| sweep(c, before, most);
        self.writer.write(Urgency::Normal, write).await
    }

    async fn chunks_to_do(&self, item_type: &ItemType, limit: u32) -> StoreResult<Vec<ChunkToDo>> {
        let (item_type, now) = (item_type.clone(), self.clock.now_us());
        let read = move |c: &Connection| bulk_views::to_do(c, &item_type, now, limit);
        self.readers.read(read).await
    }

    async fn chunk_failed(&self, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>> {
        let (chunk, why, clock) = (chunk.clone(), why.to_owned(), self.clock.clone());
        let write = move |c: &Connection| failed(c, &chunk, &why, clock.now_us());
        self.writer.write(Urgency::Normal, write).await
    }

    async fn chunk(&self, chunk: &ChunkId) -> StoreResult<Option<Vec<u8>>> {
        let chunk = chunk.clone();
        let read = move |c: &Connection| {
            c.prepare_cached("SELECT text FROM bulk_chunk WHERE bulk_id = ?1 AND chunk_no = ?2")?
                .query_row(params![chunk.bulk.as_str(), chunk.number], |row| row.get(0))
                .optional()
        };
        self.readers.read(read).await
    }

    async fn finish_chunk(&self, chunk: &ChunkId, end: ChunkEnd) -> StoreResult<bool> {
        let (chunk, clock, lines) = (chunk.clone(), self.clock.clone(), Lines::of(&end));
        let write = move |c: &Connection| finish(c, &chunk, &end, clock.now_us());
        let finished = self.writer.write(Urgency::Normal, write).await?;
        if finished {
            lines.count();
        }
        Ok(finished)
    }

    async fn bulk(&self, bulk: &BulkId) -> StoreResult<Option<BulkView>> {
        let bulk = bulk.clone();
        self.readers.read(move |c| bulk_views::view(c, &bulk)).await
    }

    async fn bulks(
        &self,
        item_type: &ItemType,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<BulkLine, Bookmark>> {
        let item_type = item_type.clone();
        let after = after.unwrap_or(Bookmark::ABOVE_ALL);
        self.readers
            .read(move |c| bulk_views::lines(c, &item_type, &after, limit))
            .await
    }

    async fn bulk_errors(
        &self,
        bulk: &BulkId,
        after_line: u64,
        limit: u32,
    ) -> StoreResult<Vec<LineError>> {
        let bulk = bulk.clone();
        self.readers
            .read(move |c| bulk_views::errors(c, &bulk, after_line, limit))
            .await
    }

    async fn bulks_running(&self, item_type: &ItemType) -> StoreResult<u64> {
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT count(*) FROM bulk WHERE item_type = ?1 AND state = 'RUNNING'",
            )?
            .query_row([item_type.as_str()], |row| row.get::<_, i64>(0))
        };
        self.readers.read(read).await.map(i64::unsigned_abs)
    }
}

fn add_chunk(c: &Connection, bulk: &BulkId, chunk: &NewChunk, now: i64) -> rusqlite::Result<bool> {
    let is_open = c
        .prepare_cached("SELECT 1 FROM bulk WHERE bulk_id = ?1 AND state = 'UPLOADING'")?
        .exists([bulk.as_str()])?;
    if !is_open {
        return Ok(false);
    }
    let added = c
        .prepare_cached(
            "INSERT INTO bulk_chunk (bulk_id, chunk_no, text) VALUES (?1, ?2, ?3)
             ON CONFLICT (bulk_id, chunk_no) DO NOTHING",
        )?
        .execute(params![bulk.as_str(), chunk.number, chunk.text])?;
    if added == 1 {
        c.prepare_cached(
            "UPDATE bulk SET lines = lines + ?2, chunks_left = chunks_left + 1, touched_at = ?3
             WHERE bulk_id = ?1",
        )?
        .execute(params![bulk.as_str(), chunk.lines, now])?;
    }
    Ok(true)
}

fn close(
    c: &Connection,
    bulk: &BulkId,
    key: Option<&str>,
    digest: &str,
    now: i64,
) -> rusqlite::Result<Closed> {
    let found: Option<(String, String)> = c
        .prepare_cached("SELECT item_type, state FROM bulk WHERE bulk_id = ?1")?
        .query_row([bulk.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((_, state)) if state == "RUNNING" || state == "DONE" => return Ok(Closed::Running),
        Some((item_type, state)) if state == "UPLOADING" => {
            let known = key.map(|key| by_key(c, &item_type, key)).transpose()?;
            if let Some(known) = known.flatten() {
                discard(c, bulk)?;
                return Ok(Closed::Known(known));
            }
        }
        Some(_) | None => return Ok(Closed::Gone),
    }
    c.prepare_cached(
        "UPDATE bulk SET state = CASE WHEN chunks_left = 0 THEN 'DONE' ELSE 'RUNNING' END,
                idempotency_key = ?2, digest = ?3, started_at = ?4, touched_at = ?4,
                ended_at = CASE WHEN chunks_left = 0 THEN ?4 END
         WHERE bulk_id = ?1 AND state = 'UPLOADING'",
    )?
    .execute(params![bulk.as_str(), key, digest, now])?;
    Ok(Closed::Running)
}

fn by_key(c: &Connection, item_type: &str, key: &str) -> rusqlite::Result<Option<KnownBulk>> {
    c.prepare_cached(
        "SELECT bulk_id, digest FROM bulk WHERE item_type = ?1 AND idempotency_key = ?2",
    )?
    .query_row(params![item_type, key], |row| {
        Ok(KnownBulk {
            bulk: BulkId::new(row.get::<_, String>(0)?),
            digest: row.get(1)?,
        })
    })
    .optional()
}

fn discard(c: &Connection, bulk: &BulkId) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE bulk SET state = 'DISCARDED' WHERE bulk_id = ?1 AND state = 'UPLOADING'",
    )?
    .execute([bulk.as_str()])
    .map(drop)
}

fn sweep(c: &Connection, before: i64, most: u32) -> rusqlite::Result<u64> {
    c.prepare_cached(
        "UPDATE bulk SET state = 'DISCARDED' WHERE state = 'UPLOADING' AND touched_at < ?1",
    )?
    .execute([before])?;
    let removed = c
        .prepare_cached(
            "DELETE FROM bulk_chunk WHERE rowid IN (
                 SELECT k.rowid FROM bulk b INDEXED BY bulk_discarded
                 JOIN bulk_chunk k ON k.bulk_id = b.bulk_id
                 WHERE b.state = 'DISCARDED' AND b.bulk_id > '' LIMIT ?1)",
        )?
        .execute([most])?;
    c.prepare_cached(
        "DELETE FROM bulk WHERE state = 'DISCARDED' AND bulk_id > '' AND NOT EXISTS (
             SELECT 1 FROM bulk_chunk k WHERE k.bulk_id = bulk.bulk_id)",
    )?
    .execute([])?;
    Ok(removed as u64)
}

fn failed(c: &Connection, chunk: &ChunkId, why: &str, now: i64) -> rusqlite::Result<Option<u32>> {
    let (bulk, number) = (chunk.bulk.as_str(), chunk.number);
    let tries: Option<u32> = c
        .prepare_cached("SELECT tries + 1 FROM bulk_chunk WHERE bulk_id = ?1 AND chunk_no = ?2")?
        .query_row(params![bulk, number], |row| row.get(0))
        .optional()?;
    let Some(tries) = tries else {
        return Ok(None);
    };
    let due = now.saturating_add(micros(RETRIES.pause_after(tries)));
    c.prepare_cached(
        "UPDATE bulk_chunk SET tries = ?3, last_error = ?4, due_at = ?5
         WHERE bulk_id = ?1 AND chunk_no = ?2",
    )?
    .execute(params![bulk, number, tries, why, due])?;
    Ok(Some(tries))
}

/// The row of the chunk is the right to count it.
fn finish(c: &Connection, chunk: &ChunkId, end: &ChunkEnd, now: i64) -> rusqlite::Result<bool> {
    let bulk = chunk.bulk.as_str();
    let taken = c
        .prepare_cached("DELETE FROM bulk_chunk WHERE bulk_id = ?1 AND chunk_no = ?2")?
        .execute(params![bulk, chunk.number])?;
    if taken == 0 {
        return Ok(false);
    }
    let accepted = i64::try_from(end.accepted()).unwrap_or(i64::MAX);
    let rejected = i64::try_from(end.rejected.len()).unwrap_or(i64::MAX);
    c.prepare_cached(
        "UPDATE bulk SET accepted = accepted + ?2, duplicate = duplicate + ?3,
                rejected = rejected + ?4, chunks_left = chunks_left - 1,
                state = CASE WHEN chunks_left = 1 THEN 'DONE' ELSE state END,
                ended_at = CASE WHEN chunks_left = 1 THEN ?5 END
         WHERE bulk_id = ?1",
    )?
    .execute(params![bulk, accepted, end.duplicate, rejected, now])?;
    for error in &end.rejected {
        write_error(c, bulk, error)?;
    }
    for sum in &end.sums {
        add_sum(c, bulk, sum)?;
    }
    Ok(true)
}

fn write_error(c: &Connection, bulk: &str, error: &LineError) -> rusqlite::Result<()> {
    let details = serde_json::to_string(&error.details)
        .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    let line = i64::try_from(error.line).unwrap_or(i64::MAX);
    c.prepare_cached(
        "INSERT INTO bulk_error (bulk_id, line_no, item_id, details) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![bulk, line, error.id, details])
    .map(drop)
}

fn add_sum(c: &Connection, bulk: &str, sum: &BulkSum) -> rusqlite::Result<()> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    c.prepare_cached(
        "INSERT INTO bulk_sum (bulk_id, lane, currency, accepted, amount_minor, met, missed,
                               first_slot, last_slot, first_deadline, last_deadline)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (bulk_id, lane, currency) DO UPDATE SET
             accepted = accepted + excluded.accepted,
             amount_minor = amount_minor + excluded.amount_minor,
             met = met + excluded.met, missed = missed + excluded.missed,
             first_slot = min(first_slot, excluded.first_slot),
             last_slot = max(last_slot, excluded.last_slot),
             first_deadline = min(coalesce(first_deadline, excluded.first_deadline),
                                  coalesce(excluded.first_deadline, first_deadline)),
             last_deadline = max(coalesce(last_deadline, excluded.last_deadline),
                                 coalesce(excluded.last_deadline, last_deadline))",
    )?
    .execute(params![
        bulk,
        sum.lane.as_str(),
        sum.currency,
        number(sum.accepted),
        sum.amount_minor,
        number(sum.met),
        number(sum.missed),
        Us(sum.first_slot),
        Us(sum.last_slot),
        sum.deadlines.map(|(first, _)| Us(first)),
        sum.deadlines.map(|(_, last)| Us(last)),
    ])
    .map(drop)
}
